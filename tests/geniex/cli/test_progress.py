"""How a download shows where nobody looks: few lines, honest numbers."""

import io

from rich.console import Console
from rich.progress import Progress

from geniex.cli.progress import BarProgress, LineProgress

MIB = 1 << 20


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lines_of(total: int | None, present: int, steps: list[tuple[float, int]]) -> list[str]:
    lines: list[str] = []
    clock = Clock()
    progress = LineProgress(total, lines.append, clock)
    progress.start("f", total, present)
    for seconds, count in steps:
        clock.now += seconds
        progress.advance("f", count)
    progress.finish("f")
    return lines


def test_at_most_a_line_every_ten_percent() -> None:
    lines = lines_of(1000 * MIB, 0, [(0.1, MIB)] * 1000)
    assert len(lines) == 10
    assert lines[0] == "100.0 MiB of 1000.0 MiB, 10%, 10.0 MiB/s, 1:30 left"
    assert "100%" in lines[-1]


def test_a_line_every_thirty_seconds_where_it_is_slow() -> None:
    lines = lines_of(1000 * MIB, 0, [(1.0, 1024)] * 95)
    assert len(lines) == 3


def test_what_was_here_is_no_speed() -> None:
    lines = lines_of(100 * MIB, 50 * MIB, [(10.0, 10 * MIB)])
    assert lines == ["60.0 MiB of 100.0 MiB, 60%, 1.0 MiB/s, 0:40 left"]


def test_an_unknown_size_has_no_percent() -> None:
    lines = lines_of(None, 0, [(31.0, MIB)])
    assert lines == ["1.0 MiB, 33.0 KiB/s"]


def test_a_file_that_begins_again_is_counted_once() -> None:
    lines: list[str] = []
    progress = LineProgress(100, lines.append, Clock())
    progress.start("f", 100, 0)
    progress.advance("f", 60)
    progress.retry("f", "connection reset", 2.0)
    progress.start("f", 100, 0)
    progress.advance("f", 10)
    assert lines[-1] == "f: connection reset; going on in 2 s"
    progress.retry("f", "connection reset", 0.0)
    assert lines[-1] == "f: connection reset; going on at once"
    progress.advance("f", 70)
    assert "80 B of 100 B, 80%" in lines[-1]


class TestBars:
    """The bars of a terminal, on one that is a text."""

    def bars(self, total: int | None) -> tuple[Progress, BarProgress]:
        made = Progress(console=Console(file=io.StringIO()), auto_refresh=False)
        return made, BarProgress(made, total)

    def test_one_file_has_one_bar(self) -> None:
        bars, progress = self.bars(100)
        progress.start("a[b]", 100, 10)
        progress.advance("a[b]", 20)
        [task] = bars.tasks
        assert (task.description, task.completed, task.total) == (r"a\[b]", 30, 100)

    def test_several_have_a_sum(self) -> None:
        bars, progress = self.bars(300)
        progress.start("a", 100, 50)
        progress.advance("a", 10)
        progress.start("b", 200, 100)
        progress.advance("b", 20)
        total = bars.tasks[-1]
        assert (total.description, total.completed, total.total) == ("total", 180, 300)
        progress.start("b", 200, 0)  # begins again
        assert total.completed == 60
        progress.advance("b", 200)
        progress.finish("b")
        assert (total.completed, bars.tasks[1].completed) == (260, 200)

    def test_what_was_here_is_no_speed(self) -> None:
        bars, progress = self.bars(1000)
        for name in "ab":
            progress.start(name, 500, 490)
        for task in bars.tasks:
            assert not task.speed
