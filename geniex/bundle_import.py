"""Models of this machine into the store: a compiled bundle only where it is whole."""

from collections.abc import Callable
from pathlib import Path

from geniex_catalogue.hubs.contract import Progress
from geniex_catalogue.hubs.localfs import Mode, import_path
from geniex_catalogue.model_lock import OnWait
from geniex_catalogue.names import ModelRef
from geniex_catalogue.store import Store
from geniex_catalogue.stored import StoredModel


def import_checked(
    ref: ModelRef,
    path: Path,
    store: Store,
    mode: Mode,
    note: Callable[[str], None],
    *,
    progress: Progress | None = None,
    on_wait: OnWait | None = None,
) -> StoredModel:
    """As `import_path`; a bundle is looked through before it is published.

    One that is whole and cannot run on this machine is stored all the same: `note` is told why.
    Raises what `import_path` raises, and BundleError.
    """
    found: list[str] = []

    def check(folder: Path) -> None:
        from geniex_runtimes.qairt.admission import admit

        if (reason := admit(folder, path)) is not None:
            found.append(reason)

    model = import_path(ref, path, store, mode, progress=progress, on_wait=on_wait, check=check)
    for reason in found:
        note(f"stored, but it cannot run on this machine: {reason}")
    return model
