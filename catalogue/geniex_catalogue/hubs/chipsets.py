"""The chipsets that the AI Hub knows, and under which names."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownChipset:
    """A chipset of the AI Hub's table; `htp_arch` 73 is HTP v73, `soc` the number of the die."""

    name: str
    device: str = ""
    aliases: tuple[str, ...] = ()
    htp_arch: int | None = None
    soc: int | None = None

    @property
    def title(self) -> str:
        """The name that people know it by: that of its reference device, where it has one."""
        return self.device or self.name

    @property
    def short(self) -> str:
        """The name without what most names begin with."""
        return self.name.removeprefix("qualcomm-").removeprefix("snapdragon-")

    def answers_to(self, text: str) -> bool:
        """Whether it is meant by a name, a reference device or an alias, in any case."""
        wanted = text.strip().casefold()
        return wanted in (name.casefold() for name in (self.name, self.device, *self.aliases))

    def runs_bundles_of(self, other: "KnownChipset") -> bool:
        """Whether the other's HTP is of the same architecture."""
        return self.htp_arch is not None and self.htp_arch == other.htp_arch


@dataclass(frozen=True, slots=True)
class Platform:
    """The table of chipsets."""

    chipsets: tuple[KnownChipset, ...] = ()

    def find(self, text: str) -> KnownChipset | None:
        """The chipset that a name means: one that is called so, before one that has it as alias."""
        by_name = (c for c in self.chipsets if c.name.casefold() == text.strip().casefold())
        by_alias = (c for c in self.chipsets if text.strip() and c.answers_to(text))
        return next(by_name, None) or next(by_alias, None)

    def host(self, name: str, htp_arch: int | None) -> KnownChipset | None:
        """The chipset of this machine; one that is not in the table counts by its HTP alone."""
        found = self.find(name)
        if found is not None or htp_arch is None:
            return found
        return KnownChipset(name, htp_arch=htp_arch)

    def titles(self, names: Iterable[str]) -> tuple[str, ...]:
        """How chipsets are called, in order, each once."""
        found = ((name, self.find(name)) for name in names)
        return tuple(sorted({chip.title if chip else name for name, chip in found}))
