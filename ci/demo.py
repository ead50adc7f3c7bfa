"""From a fresh clone to an answer: sets the project up and asks the built-in model, offline.

The second answer is speculative; the last line shown is its `draft accept`.
"""

import shlex
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ci.environment import child_environment, prepare
from ci.llama_wheel import BuildError

# greedy, so that the demo always says the same
QUESTIONS = (
    ["tiny", "-p", "What is the capital of France?", "--temperature", "0"],
    [
        *("geniex/tiny-chat", "--spec-type", "draft-mtp"),
        *("--draft-model", "geniex/tiny-chat-draft", "--draft-tokens", "3", "--no-draft-adapt"),
        *("-p", "Tell me about the owl.", "--temperature", "0"),
    ],
)


def main() -> int:
    """Set up, ask, and return the exit code: that of the first answer that failed."""
    try:
        python = prepare()
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    # no network is needed from here on, so none is used
    environment = child_environment(HF_HUB_OFFLINE="1")
    for question in QUESTIONS:
        print(f"$ geniex infer {shlex.join(question)}", flush=True)
        command = [str(python), "-m", "geniex", "infer", *question]
        answer = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False)
        if answer.returncode != 0:
            return answer.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
