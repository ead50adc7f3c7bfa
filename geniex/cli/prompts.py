"""What the user says, from wherever it comes: flags, files and stdin.

The turns are, in this order: the file of `-i`, then each `-p`; `-p -` is what comes on stdin.
What is piped in without a `-p -` is the one turn where nothing else is given, and is added to the
first turn, after a blank line, where something is.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from geniex.cli.output import is_terminal
from geniex_catalogue.errors import UsageError

TELL_AFTER = 2.0  # seconds of silence on stdin before we say that we wait
GIVE_UP_AFTER = 30.0  # seconds of silence on a stdin that need not say anything
_STEP = 0.05


@dataclass(frozen=True, slots=True)
class Turns:
    """What to ask, turn by turn; `tokens` is one raw turn instead."""

    texts: tuple[str, ...] = ()
    tokens: tuple[int, ...] | None = None


def read_turns(
    prompts: Sequence[str], file: Path | None, tokens: Path | None, note: Callable[[str], None]
) -> Turns | None:
    """Everything the user says, or None where a person sits at the terminal to be asked.

    Raises UsageError where there is nothing to say, a file does not read, or sources exclude each
    other.
    """
    if tokens is not None:
        if prompts or file is not None:
            raise UsageError("`--token-file` is a turn of its own, leave out `-p` and `-i`")
        ids = read_tokens(tokens)
        note(f"Using token IDs from file: {tokens} ({len(ids)} tokens)")
        return Turns(tokens=ids)
    if list(prompts).count("-") > 1:
        raise UsageError("stdin can be one turn only, give `-p -` once")
    typed = [read_text(file).strip()] if file is not None else []
    typed += prompts
    if "-" in prompts:
        piped = read_stdin(note)
        at = len(typed) - len(prompts) + list(prompts).index("-")
        typed[at] = piped.strip()
    elif not is_terminal(sys.stdin):
        piped = read_stdin(note, optional=bool(typed)).strip()
        if not typed and not piped:
            raise UsageError("no prompt", hint="give `-p TEXT`, or pipe the prompt in")
        if not typed:
            typed = [piped]
        elif piped:
            typed[0] = f"{typed[0]}\n\n{piped}"
    elif not typed:
        return None
    if not all(text.strip() for text in typed):
        raise UsageError("a prompt is empty")
    return Turns(texts=tuple(typed))


def read_text(path: Path) -> str:
    """A UTF-8 text file. Raises UsageError where it does not read."""
    try:
        return path.expanduser().read_text(encoding="utf-8-sig")
    except OSError as exc:
        raise UsageError(f"cannot read `{path}`: {exc.strerror}") from exc
    except ValueError as exc:
        raise UsageError(f"`{path}` is not UTF-8 text") from exc


def read_tokens(path: Path) -> tuple[int, ...]:
    """White-space separated token ids. Raises UsageError for anything else."""
    fields = read_text(path).split()
    for field in fields:
        if not (field.isascii() and field.isdigit()):
            raise UsageError(f"invalid token ID: {field}", hint=f"in `{path}`")
    if not fields:
        raise UsageError(f"`{path}` has no token IDs")
    return tuple(int(field) for field in fields)


def read_stops(path: Path | None) -> tuple[str, ...]:
    """Stop strings, one a line, blank lines left out."""
    if path is None:
        return ()
    return tuple(line for line in read_text(path).splitlines() if line.strip())


def read_stdin(note: Callable[[str], None], *, optional: bool = False) -> str:
    """All of stdin as UTF-8, open to Ctrl-C meanwhile; says that it waits when nothing comes.

    Where it is `optional`, a stdin that nobody writes to or closes is given up after a while.
    Raises UsageError where it does not read.
    """
    if sys.stdin is None:
        return ""
    stdin = sys.stdin.fileno()
    chunks: list[bytes] = []
    errors: list[OSError] = []
    ended = threading.Event()

    def work() -> None:
        # the descriptor itself: a thread that holds the lock of sys.stdin breaks Python's exit
        try:
            while chunk := os.read(stdin, 1 << 16):
                chunks.append(chunk)
        except OSError as exc:
            errors.append(exc)
        ended.set()

    threading.Thread(target=work, name="geniex-stdin", daemon=True).start()
    start = time.monotonic()
    told = is_terminal(sys.stdin)
    while not ended.wait(_STEP):
        waited = time.monotonic() - start
        if not chunks and not told and waited > TELL_AFTER:
            note("waiting for stdin; `< /dev/null` where there is nothing to read")
            told = True
        if not chunks and optional and waited > GIVE_UP_AFTER:
            note(f"nothing on stdin for {GIVE_UP_AFTER:.0f} s, going on; `-p -` waits for it")
            break
    if errors:
        raise UsageError(f"cannot read stdin: {errors[0].strerror}")
    return b"".join(chunks).decode("utf-8-sig", errors="replace")
