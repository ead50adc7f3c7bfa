"""The chipset to run on and to fetch for: as the user has set it, else as it is found."""

from pathlib import Path

from geniex.config import Settings
from geniex_catalogue.errors import HubError, TransferError
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


def settle_chipset(text: str, data_dir: Path, *, offline: bool = False) -> tuple[str, str | None]:
    """The name to keep for a chipset that a user has named, and what to tell of it.

    One that is not in our table is looked for in the AI Hub's, by all its names. Raises
    ChipsetError where it is not there either.
    """
    known = chipset.named(text)
    if known.name in chipset.HTP_ARCH:
        return known.name, None
    from geniex_catalogue.hubs.aihub import AIHub
    from geniex_catalogue.hubs.aihub_choice import unknown_chipset
    from geniex_catalogue.hubs.web import Patience

    # this is no download: who has no network does not wait for long
    hub = AIHub(data_dir, Patience(connect=5.0, stall=10.0, attempts=1))
    try:
        platform = hub.release(offline=offline).platform()
    except (HubError, TransferError) as exc:
        return text.strip(), f"`{text.strip()}` is kept as it is, unchecked: {exc.message}"
    found = platform.find(text)
    if found is None:
        raise unknown_chipset(platform, text.strip())
    return found.name, None
