"""Damaged models by number: the same seed and number make the same model."""

import random
from dataclasses import dataclass
from pathlib import Path

import geniex_catalogue
from ci.damage.facts import FACTS
from ci.damage.kinds import KINDS, Files, Kind

ALL: dict[str, Kind] = {**KINDS, **FACTS}
BUILTIN = Path(geniex_catalogue.__file__).parent / "builtin" / "tiny-chat-Q8_0.gguf"


@dataclass(frozen=True, slots=True)
class Case:
    """A damaged model: the kind of damage, the good file's name, the bad files."""

    number: int
    kind: str
    base: str
    files: Files

    @property
    def title(self) -> str:
        """What tells it from others."""
        return f"{self.number:4} {self.kind} of {self.base}"


def case(seed: int, number: int, bases: list[Path]) -> Case:
    """The case of that number: kinds in turn, and two files of three from the first base."""
    rng = random.Random(f"{seed} {number}")
    kinds = list(ALL)
    kind = kinds[(number + seed) % len(kinds)]
    base = bases[0] if len(bases) == 1 or rng.random() < 0.6 else rng.choice(bases[1:])
    return Case(number, kind, base.stem, ALL[kind](rng, base.read_bytes()))
