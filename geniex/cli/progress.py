"""How a download shows: bars on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from geniex.cli.output import Output, has_colour
from geniex_catalogue.sizes import size_text

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import Task, TaskID

    from geniex_catalogue.hubs.contract import Progress

STEP = 10  # percent between two lines
LEAST = 0.5  # seconds before a bar has a speed
PAUSE = 30.0  # seconds of silence after which a line comes anyway


@contextmanager
def shown(total: int | None, output: Output, *, wanted: bool = True) -> Iterator["Progress | None"]:
    """Progress of `total` bytes (None: what the files tell); None where it is not to be seen."""
    if output.quiet or not wanted:
        yield None
    elif has_colour(sys.stderr):
        with _bars() as bars:
            yield BarProgress(bars, total)
    else:
        yield LineProgress(total, output.note)


def _bars() -> "Bars":
    from rich import progress
    from rich.console import Console
    from rich.text import Text

    class Speed(progress.ProgressColumn):
        """Bytes a second, in the units of the sizes beside it."""

        def render(self, task: progress.Task) -> Text:
            # within an instant there is no speed yet, only a very large number
            known = (task.elapsed or 0) >= LEAST
            speed = (task.finished_speed or task.speed) if known else None
            return Text(
                f"{size_text(round(speed))}/s" if speed else "", style="progress.data.speed"
            )

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.DownloadColumn(binary_units=True),
        Speed(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
    )


class BarProgress:
    """A bar a file, and one for all of them as soon as there are two."""

    def __init__(self, bars: "Bars", total: int | None = None) -> None:
        self._bars = bars
        self._total = total
        self._tasks: dict[str, TaskID] = {}
        self._sum: TaskID | None = None

    def start(self, file: str, total: int | None, present: int) -> None:
        """Show the file's bar, from what is here already."""
        if file in self._tasks:
            self._count(present - self._task(self._tasks[file]).completed)
            self._bars.reset(self._tasks[file], total=total, completed=present)
            return
        # the text is a file name from a hub, not markup
        name = file.replace("[", r"\[")
        self._tasks[file] = self._bars.add_task(name, total=total, completed=present)
        if self._sum is not None:
            self._count(present)
        elif len(self._tasks) == 2:
            done = sum(task.completed for task in self._bars.tasks)
            self._sum = self._bars.add_task("total", total=self._total, completed=int(done))

    def advance(self, file: str, count: int) -> None:
        """Move the file's bar."""
        self._bars.advance(self._tasks[file], count)
        if self._sum is not None:
            self._bars.advance(self._sum, count)

    def retry(self, file: str, reason: str, wait: float) -> None:
        """Say why it stopped."""
        self._bars.console.print(_retry_text(file, reason, wait), markup=False, highlight=False)

    def finish(self, file: str) -> None:
        """Leave the bar full."""
        done = self._task(self._tasks[file]).completed
        self._bars.update(self._tasks[file], total=done, completed=done)

    def _count(self, count: float) -> None:
        """Move the sum by what did not just arrive: it is no speed."""
        if self._sum is not None:
            self._task(self._sum).completed += count

    def _task(self, number: "TaskID") -> "Task":
        return next(task for task in self._bars.tasks if task.id == number)


class LineProgress:
    """A line every ten percent or thirty seconds, over all files together."""

    def __init__(
        self,
        total: int | None,
        write: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total = total
        self._write = write
        self._clock = clock
        self._done: dict[str, int] = {}
        self._totals: dict[str, int | None] = {}
        self._begun = self._last = clock()
        self._percent = 0
        self._moved = 0

    def start(self, file: str, total: int | None, present: int) -> None:
        """Count what is here already, without taking it for speed."""
        self._done[file] = present
        self._totals[file] = total
        self._percent = max(self._percent, self._share() // STEP * STEP)

    def advance(self, file: str, count: int) -> None:
        """Count, and write a line when it is time."""
        self._done[file] += count
        self._moved += count
        if self._share() >= self._percent + STEP or self._clock() - self._last >= PAUSE:
            self._line()

    def retry(self, file: str, reason: str, wait: float) -> None:
        """Say why it stopped."""
        self._write(_retry_text(file, reason, wait))

    def finish(self, file: str) -> None:
        """Nothing: the last percent said it."""

    def _size(self) -> int | None:
        """Bytes of everything, as far as they are known."""
        sizes = [size for size in self._totals.values() if size is not None]
        return self._total or (sum(sizes) if len(sizes) == len(self._totals) else None)

    def _share(self) -> int:
        size = self._size()
        return 100 * sum(self._done.values()) // size if size else 0

    def _line(self) -> None:
        self._last = self._clock()
        self._percent = self._share() // STEP * STEP
        done = size_text(sum(self._done.values()))
        size = self._size()
        of = f" of {size_text(size)}, {self._share()}%" if size else ""
        speed = self._moved / max(self._last - self._begun, 1e-3)
        left = _left(size - sum(self._done.values()), speed) if size and self._moved else ""
        self._write(f"{done}{of}, {size_text(round(speed))}/s{left}")


def _left(count: int, speed: float) -> str:
    """How long the rest takes at this speed."""
    seconds = round(count / speed)
    if seconds <= 0:
        return ""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    clock = f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
    return f", {clock} left"


def _retry_text(file: str, reason: str, wait: float) -> str:
    when = f"in {wait:.0f} s" if wait >= 0.5 else "at once"
    return f"{file}: {reason}; going on {when}"
