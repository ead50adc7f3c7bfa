"""What an import leaves in the store, and what it tells on its way."""

from geniex_catalogue.names import ModelRef
from geniex_catalogue.store import Store

REF = ModelRef("local", "mine")


def names(store: Store, ref: ModelRef = REF) -> set[str]:
    """The files of a stored model, without lock and manifest."""
    folder = store.folder(ref)
    found = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    return found - {"geniex.json", ".lock"}


def untouched(store: Store) -> bool:
    """Whether nothing at all is left in the store."""
    return not store.models.exists() or not list(store.models.iterdir())


class Recorder:
    """A progress that remembers, and may stop the transfer."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.calls: list[tuple[str, str]] = []
        self.bytes = 0
        self.stop_at = stop_at

    def start(self, file: str, total: int | None, present: int) -> None:
        self.calls.append(("start", file))

    def advance(self, file: str, count: int) -> None:
        self.bytes += count
        if self.stop_at is not None and self.bytes >= self.stop_at:
            raise KeyboardInterrupt

    def retry(self, file: str, reason: str, wait: float) -> None:
        raise AssertionError

    def finish(self, file: str) -> None:
        self.calls.append(("finish", file))
