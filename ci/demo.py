"""From a fresh clone to an answer: sets the project up and asks the built-in model, offline."""

import shlex
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ci.environment import child_environment, prepare
from ci.llama_wheel import BuildError

# greedy, so that the demo always says the same
QUESTION = ["tiny", "-p", "What is the capital of France?", "--temperature", "0"]


def main() -> int:
    """Set up, ask, and return the exit code of the answer."""
    try:
        python = prepare()
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"$ geniex infer {shlex.join(QUESTION)}", flush=True)
    # no network is needed from here on, so none is used
    environment = child_environment(HF_HUB_OFFLINE="1")
    command = [str(python), "-m", "geniex", "infer", *QUESTION]
    answer = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False)
    return answer.returncode


if __name__ == "__main__":
    sys.exit(main())
