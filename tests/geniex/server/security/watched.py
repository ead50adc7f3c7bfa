"""`geniex serve`, with a record of every file and address that it turns to.

Run as a program: `watched.py RECORD serve ...`. Each event of Python's audit that is about files or
addresses is a line of the record, and so is each look whether a file is there, which Python does
not audit.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

_EVENTS = ("open", "os.listdir", "os.scandir", "socket.connect", "socket.getaddrinfo")


def watch(record: str) -> None:
    """Write down what this process turns to from now on."""
    file = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(event: str, what: object) -> None:
        os.write(file, f"{json.dumps([event, repr(what)])}\n".encode("ascii", "replace"))

    def audited(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _EVENTS:
            # of a connection the socket itself comes first
            note(event, arguments[1:] if event == "socket.connect" else arguments)

    def noted(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def look(path: Any, *given: Any, **options: Any) -> Any:
            note(f"os.{name}", path)
            return plain(path, *given, **options)

        return look

    for name in ("stat", "lstat", "readlink", "access"):
        setattr(os, name, noted(name, getattr(os, name)))
    sys.addaudithook(audited)


if __name__ == "__main__":
    watch(sys.argv.pop(1))
    from geniex.__main__ import main

    main()
