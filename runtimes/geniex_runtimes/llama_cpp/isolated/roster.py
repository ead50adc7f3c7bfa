"""Who has which worker: models of the same files share one, and their weights in it.

A model whose workers keep dying is not started again at once, but after a pause that grows.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from geniex_catalogue.errors import LoadError
from geniex_runtimes.errors import WorkerRestingError
from geniex_runtimes.llama_cpp.isolated.remote import Remote

# device, inode, size and time of change of each file
Files: TypeAlias = tuple[tuple[int, int, int, int], ...]

# deaths in a row after which the next worker has to wait, and for how many seconds
_TOLERATED = 2
_REST = (2.0, 60.0)
_KEPT = 64  # models whose deaths are remembered


def files_of(files: Sequence[Path]) -> Files:
    """What tells files from others, however their paths are spelled. Raises LoadError."""
    try:
        found = [path.stat() for path in files]
    except OSError as exc:
        raise LoadError(f"`{files[0].name}` cannot be read: {exc.strerror}") from exc
    return tuple((s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns) for s in found)


@dataclass(slots=True)
class _Deaths:
    """Of a model's workers, one after the other without a good answer between."""

    count: int = 0
    how: str = ""
    words: str = ""
    until: float = 0.0  # on the monotonic clock: no new one before


class Roster:
    """Lends workers. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: dict[Remote, int] = {}
        self._working: dict[Files, Remote] = {}
        self._deaths: dict[Files, _Deaths] = {}

    def borrow(self, files: Files, name: str) -> tuple[Remote, bool]:
        """The worker for a model's files, and whether others have it too; see `give_back`.

        Raises LoadError, and WorkerRestingError for a model whose workers keep dying.
        """
        with self._lock:
            remote = self._working.get(files)
            if remote is None or not remote.alive:
                self._check_rested(files, name)
                remote = Remote(name, lambda dead: self._note(files, dead))
                self._working[files] = remote
            others = self._users.get(remote, 0)
            self._users[remote] = others + 1
            return remote, others > 0

    def give_back(self, remote: Remote, *, kill: bool = False) -> None:
        """End a loan; the last one ends the worker, with `kill` at once."""
        with self._lock:
            self._users[remote] -= 1
            if self._users[remote]:
                return
            del self._users[remote]
            self._working = {f: one for f, one in self._working.items() if one is not remote}
        if kill:
            remote.kill()
        else:
            remote.close()

    def _check_rested(self, files: Files, name: str) -> None:
        deaths = self._deaths.get(files)
        left = deaths.until - time.monotonic() if deaths is not None else 0.0
        if deaths is not None and left > 0:
            raise WorkerRestingError(name, deaths.how, deaths.words, deaths.count, left)

    def _note(self, files: Files, dead: Remote) -> None:
        """A worker has died."""
        with self._lock:
            deaths = self._deaths.pop(files, _Deaths())
            while len(self._deaths) >= _KEPT:
                self._deaths.pop(next(iter(self._deaths)))
            self._deaths[files] = deaths
            deaths.count = 1 if dead.served else deaths.count + 1
            least, most = _REST
            over = deaths.count - _TOLERATED
            pause = min(most, least * 2.0 ** (over - 1)) if over > 0 else 0.0
            deaths.how, deaths.words = dead.how, dead.words
            deaths.until = time.monotonic() + pause


ROSTER = Roster()
