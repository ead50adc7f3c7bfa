"""A player in a process of its own: `python -m ci.benchmarks.child` and its two ends.

One JSON object a line: {"text"} asks for tokens, {"prompt", "count", "with_tokens"} for an answer.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from ci.benchmarks.players import PLAYERS, Answer, Setting


class Child:
    """The near end: a player that lives in another process. A context manager."""

    def __init__(self, name: str, setting: Setting) -> None:
        self.name = name
        words = [name, str(setting.model), str(setting.threads), str(setting.context)]
        # a file and not a pipe: a pipe that nobody reads fills up, and the child would stop
        # closed by __exit__
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ci.benchmarks.child", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        self._log.close()

    def _ask(self, question: dict[str, object]) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._log.seek(0)
            raise RuntimeError(f"{self.name} ended: {self._log.read()[-2000:]}")
        return json.loads(line)

    def tokenize(self, text: str) -> list[int]:
        """As the player does it."""
        return list(self._ask({"text": text}))

    def play(self, prompt: Sequence[int], count: int, *, with_tokens: bool) -> Answer:
        """As the player does it."""
        question = {"prompt": list(prompt), "count": count, "with_tokens": with_tokens}
        answer = self._ask(question)
        return Answer(tuple(answer["tokens"]), answer["speed"])


def serve(name: str, setting: Setting) -> None:
    """The far end: load, then answer each line of stdin."""
    # native code may print to stdout: the protocol keeps the real one for itself
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)
        player = PLAYERS[name](setting)
        for line in sys.stdin:
            question = json.loads(line)
            if "text" in question:
                answer: object = player.tokenize(question["text"])
            else:
                played = player.play(
                    question["prompt"], question["count"], with_tokens=question["with_tokens"]
                )
                answer = {"tokens": played.tokens, "speed": played.speed}
            out.write(json.dumps(answer) + "\n")
            out.flush()


if __name__ == "__main__":
    _, who, model, threads, context = sys.argv
    serve(who, Setting(Path(model), int(threads), int(context)))
