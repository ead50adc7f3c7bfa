"""Putting a report together, and writing it for its owner alone."""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from geniex.bug_report.redaction import redactor_of
from geniex.bug_report.sections import Section, sections
from geniex.config import Settings
from geniex_catalogue.errors import StoreError
from geniex_runtimes.contract import HardwareProfile

_INTRODUCTION = """\
A report for a bug of geniex, made on {time}.
Secrets, addresses of mail, the names of the user and the machine are taken out as far as a program
can tell: look through it before you send it. There are no prompts and no answers in it.
"""


def report(
    settings: Settings, environ: Mapping[str, str], look: Callable[[], HardwareProfile]
) -> tuple[str, tuple[Section, ...]]:
    """The redacted text of a report, and its sections. A section that fails says why."""
    redactor = redactor_of(environ)
    parts = sections(settings, environ, redactor, look)
    time = datetime.now(UTC).isoformat(timespec="seconds")
    lines = [_INTRODUCTION.format(time=time)]
    for part in parts:
        lines += [f"== {part.title}", *_lines_of(part), ""]
    return redactor.text("\n".join(lines)), parts


def _lines_of(part: Section) -> Sequence[str]:
    found: list[str] = []
    try:
        found += part.make()
    except Exception as exc:  # a report is made where things are broken
        found.append(f"(this section failed: {type(exc).__name__}: {exc})")
    return found or ["(none)"]


def default_name() -> str:
    """A name that tells reports from each other."""
    return f"geniex-report-{datetime.now(UTC):%Y%m%d-%H%M%S}.txt"


def write_report(path: Path, text: str) -> None:
    """Write a new file that its owner alone may read. Raises StoreError, also where it is there."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    made = False
    try:
        descriptor = os.open(path, flags, 0o600)
        made = True
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except FileExistsError as exc:
        raise StoreError(f"`{path}` is there already", hint="give another name") from exc
    except OSError as exc:
        if made:
            path.unlink(missing_ok=True)  # half a report misleads
        raise StoreError(
            f"cannot write `{path}`: {exc.strerror}", hint="`--report -` writes to stdout"
        ) from exc
