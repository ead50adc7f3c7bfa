"""A player in a process of its own: `python -m ci.benchmarks.child` and its two ends.

One JSON object a line: {"text"} asks for tokens, {"prompt", "count", "with_tokens"} for an answer.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from ci.benchmarks.players import PLAYERS, Answer, Player, Setting


class Worker:
    """The near end: a module that answers lines of JSON in another process. A context manager."""

    def __init__(self, name: str, module: str, words: Sequence[str]) -> None:
        self.name = name
        # a file and not a pipe: a pipe that nobody reads fills up, and the child would stop
        # closed by __exit__
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
        )

    @property
    def process(self) -> int:
        """The id of its process."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        self._log.close()

    def ask(self, question: dict[str, object]) -> Any:
        """Its answer; RuntimeError with the end of its log when it has died."""
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self._process.wait()
            self._log.seek(0)
            raise RuntimeError(f"{self.name} ended: {self._log.read()[-2000:]}")
        return json.loads(line)


class Child(Worker):
    """A player that lives in another process."""

    def __init__(self, name: str, setting: Setting) -> None:
        words = [name, str(setting.model), str(setting.threads), str(setting.context)]
        super().__init__(name, "ci.benchmarks.child", words)

    def tokenize(self, text: str) -> list[int]:
        """As the player does it."""
        return list(self.ask({"text": text}))

    def play(self, prompt: Sequence[int], count: int, *, with_tokens: bool) -> Answer:
        """As the player does it."""
        question = {"prompt": list(prompt), "count": count, "with_tokens": with_tokens}
        answer = self.ask(question)
        return Answer(tuple(answer["tokens"]), answer["speed"])


def answer_lines(start: Callable[[], Callable[[Any], object]]) -> None:
    """The far end: what `start` returns answers each line of stdin."""
    # native code may print to stdout: the protocol keeps the real one for itself
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)
        respond = start()
        for line in sys.stdin:
            out.write(json.dumps(respond(json.loads(line))) + "\n")
            out.flush()


def respond(player: Player, question: dict[str, Any]) -> object:
    """What a player says to one question."""
    if "text" in question:
        return player.tokenize(question["text"])
    played = player.play(question["prompt"], question["count"], with_tokens=question["with_tokens"])
    return {"tokens": played.tokens, "speed": played.speed}


def main(words: Sequence[str]) -> None:
    """Load the player that the words name, and answer."""
    name, model, threads, context = words

    def start() -> Callable[[Any], object]:
        player = PLAYERS[name](Setting(Path(model), int(threads), int(context)))
        return lambda question: respond(player, question)

    answer_lines(start)


if __name__ == "__main__":
    main(sys.argv[1:])
