"""What happens to a served store midway: models replaced, deleted, brought back, a full disk."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ci.soaking.disk import filled
from ci.soaking.shelf import Shelf

DISK = 5  # the exit code
_FULL = 3.0  # seconds at most that the disk stays full


@dataclass(frozen=True)
class Mishap:
    """Something that happens after a share of the time."""

    at: float
    name: str
    happen: Callable[[], None]


def mishaps(shelf: Shelf, files: Sequence[Path], disk: Path | None) -> list[Mishap]:
    """All that happens to a shelf with `soak/a-chat` to `soak/d-chat`.

    `files` are two that no model of it has. `disk` is what can be filled.
    """

    def fill() -> None:
        if disk is None:
            return
        with filled(disk):
            shelf.geniex("pull", "soak/none", "--local-path", str(files[0]), code=DISK)
            time.sleep(_FULL)

    return [
        Mishap(0.3, "other bytes by a pull", lambda: shelf.pull("soak/a-chat", files[0])),
        Mishap(0.4, "removed", lambda: shelf.remove("soak/b-chat")),
        Mishap(0.5, "disk full", fill),
        Mishap(0.6, "other bytes by a rename", lambda: shelf.rename_over("soak/c-chat", files[1])),
        Mishap(0.7, "deleted behind our back", lambda: shelf.unlink("soak/d-chat")),
        Mishap(0.8, "pulled again", lambda: shelf.pull("soak/b-chat", files[1])),
    ]


@dataclass
class Director:
    """Has mishaps happen on a thread, over so many seconds. `faults` are those that failed."""

    plan: Sequence[Mishap]
    seconds: float
    faults: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def begin(self) -> threading.Thread:
        """Start; the thread ends with the last one."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        start = time.monotonic()
        for one in self.plan:
            time.sleep(max(0.0, start + one.at * self.seconds - time.monotonic()))
            began = time.monotonic()
            try:
                one.happen()
            except Exception as exc:  # told with the rest
                self.faults.append(f"{one.name}: {type(exc).__name__}: {exc}")
            self.told.append(f"{began:.2f} to {time.monotonic():.2f}: {one.name}")
