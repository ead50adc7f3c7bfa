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
_MAX_TEXT = 16 << 20  # characters or bytes of one source, more than any context holds
_TOO_LONG = "no model takes so much at once: give a part of it, or another file"
_NOT_UTF_8 = "save the text as UTF-8, for example with `iconv -t UTF-8`"
_TOKEN_FORM = "a file of tokens has their numbers, with spaces or line ends between them"


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
        return _raw_turn(prompts, file, tokens, note)
    if list(prompts).count("-") > 1:
        raise UsageError("stdin can be one turn only", hint="give `-p -` once")
    for text in prompts:
        check_text(text, "-p")
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
        raise UsageError("a prompt is empty", hint="give `-p TEXT`, or leave `-p` out for a chat")
    return Turns(texts=tuple(typed))


def _raw_turn(
    prompts: Sequence[str], file: Path | None, tokens: Path, note: Callable[[str], None]
) -> Turns:
    piped = "" if is_terminal(sys.stdin) else read_stdin(note, optional=True)
    if prompts or file is not None or piped.strip():
        raise UsageError(
            "`--token-file` is a turn of its own", hint="leave out `-p`, `-i` and what is piped in"
        )
    ids = read_tokens(tokens)
    note(f"Using token IDs from file: {tokens} ({len(ids)} tokens)")
    return Turns(tokens=ids)


def check_text(text: str, source: str) -> None:
    """Raise UsageError for an argument whose bytes are no UTF-8; `source` is its flag."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the text of `{source}` is not UTF-8", hint=_NOT_UTF_8) from None


def read_text(path: Path) -> str:
    """A UTF-8 text file. Raises UsageError where it does not read."""
    try:
        with path.expanduser().open(encoding="utf-8-sig") as file:
            text = file.read(_MAX_TEXT + 1)
    except OSError as exc:
        hint = "stdin is `-p -`" if str(path) == "-" else "check the path"
        raise UsageError(f"cannot read `{path}`: {exc.strerror}", hint=hint) from exc
    except RuntimeError as exc:
        raise UsageError(f"`{path}`: the home folder is not known", hint="check the path") from exc
    except ValueError as exc:
        raise UsageError(f"`{path}` is not UTF-8 text", hint=_NOT_UTF_8) from exc
    if len(text) > _MAX_TEXT:
        raise UsageError(f"`{path}` has more than 16 MiB of text", hint=_TOO_LONG)
    return text


def read_tokens(path: Path) -> tuple[int, ...]:
    """White-space separated token ids. Raises UsageError for anything else."""
    fields = read_text(path).split()
    for field in fields:
        if not (field.isascii() and field.isdigit()):
            raise UsageError(f"invalid token ID: {field}", hint=f"in `{path}`: {_TOKEN_FORM}")
    if not fields:
        raise UsageError(f"`{path}` has no token IDs", hint=_TOKEN_FORM)
    return tuple(int(field) for field in fields)


def read_stops(path: Path | None) -> tuple[str, ...]:
    """Stop strings, one a line, blank lines left out."""
    if path is None:
        return ()
    return tuple(line for line in read_text(path).splitlines() if line.strip())


def read_stdin(note: Callable[[str], None], *, optional: bool = False) -> str:
    """All of stdin as UTF-8, open to Ctrl-C meanwhile; says that it waits when nothing comes.

    Where it is `optional`, a stdin that nobody writes to or closes is given up after a while.
    Raises UsageError where it does not read, or is something else than text.
    """
    if sys.stdin is None:
        return ""
    stdin = sys.stdin.fileno()
    chunks: list[bytes] = []
    errors: list[OSError | MemoryError] = []
    ended = threading.Event()

    def work() -> None:
        # the descriptor itself: a thread that holds the lock of sys.stdin breaks Python's exit
        total = 0
        try:
            while total <= _MAX_TEXT and (chunk := os.read(stdin, 1 << 16)):
                chunks.append(chunk)
                total += len(chunk)
        except (OSError, MemoryError) as exc:
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
    if errors and isinstance(errors[0], OSError):
        raise UsageError(f"cannot read stdin: {errors[0].strerror}")
    if errors:
        raise errors[0]
    if sum(map(len, chunks)) > _MAX_TEXT:
        raise UsageError("stdin has more than 16 MiB of text", hint=_TOO_LONG)
    try:
        return b"".join(chunks).decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise UsageError("stdin is not UTF-8 text", hint=_NOT_UTF_8) from exc
