"""From a fresh clone to an answer: sets the project up and asks the built-in model, offline."""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ci.environment import child_environment, prepare
from ci.llama_wheel import BuildError

PROMPT = "What is the capital of France?"


def main() -> int:
    """Set up, ask, and return the exit code of the answer."""
    try:
        python = prepare()
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f'$ geniex infer -p "{PROMPT}"', flush=True)
    # no network is needed from here on, so none is used
    environment = child_environment(HF_HUB_OFFLINE="1")
    command = [str(python), "-m", "geniex", "infer", "-p", PROMPT]
    answer = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False)
    return answer.returncode


if __name__ == "__main__":
    sys.exit(main())
