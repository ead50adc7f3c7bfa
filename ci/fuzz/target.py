"""What a target is, and where its findings are kept."""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

CORPUS = Path(__file__).resolve().parents[2] / "tests" / "data" / "corpus"

# raises for an input that is a finding; what may be refused is refused inside
Check: TypeAlias = Callable[[bytes], None]
Form: TypeAlias = Literal["bytes", "text", "json"]


@dataclass(frozen=True, slots=True)
class Target:
    """A reader. `seeds` are good inputs, `words` what is worth putting into them.

    `form` is what inputs mostly look like; `split` bytes at the front are no part of the form.
    """

    name: str
    open: Callable[[], AbstractContextManager[Check]]
    seeds: Callable[[], Sequence[bytes]]
    words: tuple[bytes, ...] = ()
    form: Form = "bytes"
    split: int = 0

    @property
    def folder(self) -> Path:
        """Where its findings are kept."""
        return CORPUS / self.name

    def corpus(self) -> list[Path]:
        """The files of its findings."""
        return sorted(self.folder.glob("*.bin"))

    def keep(self, data: bytes) -> Path:
        """Keep a finding."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{hashlib.sha256(data).hexdigest()[:16]}.bin"
        path.write_bytes(data)
        return path


def always(check: Check) -> Callable[[], AbstractContextManager[Check]]:
    """Opens a check that needs nothing opened."""
    return lambda: nullcontext(check)


class FindingError(AssertionError):
    """An input was taken that should not be, or in another way than before."""


def expect(true: bool, text: str) -> None:
    """Raise FindingError unless it is so."""
    if not true:
        raise FindingError(text)
