"""Runs command lines of geniex one after the other in this process: what kills one shows.

Reads a JSON list of words per line; answers each with `{"code", "out", "err"}`.
"""

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def _redirected(number: int, file: IO[bytes]) -> Iterator[None]:
    saved = os.dup(number)
    os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        os.dup2(saved, number)
        os.close(saved)


def main() -> None:
    """Serve until stdin closes."""
    from geniex.cli.app import run

    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    with open(os.devnull) as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    for line in requests:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            with _redirected(1, out), _redirected(2, err):
                code = run(json.loads(line))
                sys.stdout.flush()
                sys.stderr.flush()
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode("utf-8", "replace"))
        answers.write(json.dumps({"code": code, "out": texts[0], "err": texts[1]}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
