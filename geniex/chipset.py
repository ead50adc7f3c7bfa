"""The chipset to run on and to fetch for: as the user has set it, else as it is found."""

from geniex.config import Settings
from geniex_catalogue.hubs.contract import Machine
from geniex_runtimes.hardware import chipset
from geniex_runtimes.hardware.sources import Sources, this_machine


def chipset_of(settings: Settings, sources: Sources | None = None) -> chipset.Chipset | None:
    """The chipset, or None where nobody has set one and none is found; a quick look only."""
    if settings.chipset is not None:
        return chipset.named(settings.chipset)
    found, _ = chipset.probe(sources or this_machine())
    return found


def machine_of(settings: Settings, sources: Sources | None = None) -> Machine:
    """What hubs that compile for chipsets have to know of this machine."""
    found = chipset_of(settings, sources)
    return Machine(found.name, found.htp_arch) if found else Machine()
