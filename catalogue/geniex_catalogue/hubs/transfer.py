"""The one download engine: bytes by HTTP into parts, resumed, checked, and never half believed."""

from collections.abc import Sequence

from geniex_catalogue.hubs.contract import Progress
from geniex_catalogue.hubs.crew import Crew
from geniex_catalogue.hubs.job import Fetch, Fetched
from geniex_catalogue.hubs.line import Line
from geniex_catalogue.hubs.web import Patience, client
from geniex_catalogue.hubs.worker import Abandon, Relay, interruptible

__all__ = ["MAX_WORKERS", "Fetch", "Fetched", "fetch"]

MAX_WORKERS = 8
# long enough that asking costs little, short enough that the hash stays close behind
_SPAN = 64 << 20


def fetch(
    jobs: Sequence[Fetch],
    progress: Progress | None,
    patience: Patience | None = None,
    *,
    max_workers: int = MAX_WORKERS,
    span: int = _SPAN,
) -> tuple[Fetched, ...]:
    """Fetch files, going on from parts that are here; up to `max_workers` requests at a time.

    A file of more than `span` bytes is asked for in spans. KeyboardInterrupt ends it at once and
    keeps what has arrived. Raises TransferError when a file does not arrive, ChecksumError when it
    is not what the hub states, a HubError when the hub refuses it, DiskSpaceError or StoreError
    when it cannot be written.
    """
    relay = Relay(progress)
    patience = patience or Patience()

    def work(abandon: Abandon) -> tuple[Fetched, ...]:
        line = Line(client(patience), relay, abandon, patience, span, max_workers)
        return Crew(line, jobs).run()

    return interruptible(work, relay)
