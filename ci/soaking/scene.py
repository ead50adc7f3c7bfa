"""One soak from its beginning to its end: stock a store, write the book, serve, load, look."""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ci.geniex_server import GeniexServer, running
from ci.soaking.clients import CLIENTS, Asker, Report, Soak
from ci.soaking.disk import small_disk
from ci.soaking.mishaps import Director, mishaps
from ci.soaking.models import variants
from ci.soaking.questions import TEXT, VECTORS, Book
from ci.soaking.shelf import Shelf
from ci.soaking.watch import Sample, at_rest, leaks

_CHATS = ("soak/a-chat", "soak/b-chat", "soak/c-chat", "soak/d-chat")
_DISK = 192  # MiB beside what is given
_MANY = 500  # rounds, after which every model has had its turn
_WARM_UP = 0.3  # of the time
_SHARE = 0.6  # of what all models would take together, so that some have to go
_SPARE = 1.2  # of the largest one
_FLAGS = ("--nctx", "1024", "--log", "info")

Tell = Callable[[str], None]


@dataclass
class Outcome:
    """What a soak came to; it passed where `problems` is empty."""

    report: Report
    samples: list[Sample] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Stage:
    """A store that is stocked, and the bytes that come to it later."""

    shelf: Shelf
    later: list[Path]
    log: Path


def soak(
    seconds: float,
    more: dict[str, Path],
    seed: int,
    tell: Tell,
    phase: float,
    serve: Sequence[str] = (),
) -> Outcome:
    """Load a server for so many seconds. `more` are models by name beside the tiny ones.

    Every `phase` seconds it is looked at while it rests. `serve` are further flags of the server.
    """
    size = _DISK + sum(file.stat().st_size for file in more.values()) // 2**20
    with tempfile.TemporaryDirectory() as spare, small_disk(size) as disk:
        folder = Path(spare)
        stage = _stage(folder, disk or folder / "data", more)
        book, budget = _alone(stage, folder / "alone", tell)
        flags = (*_FLAGS, "--memory-budget", str(budget), *_folders(stage), *serve)
        with running(*flags, data_dir=stage.shelf.data_dir, log=stage.log) as server:
            one = Soak(server.url, seed, stage.shelf, book)
            outcome = Outcome(one.report)
            plan = mishaps(stage.shelf, stage.later, disk)
            director = Director(plan, seconds)
            acts = director.begin()
            for found in _phases(one, server, seconds, phase, tell):
                outcome.samples.append(found)
            acts.join()
            outcome.problems += director.faults
            for line in director.told:
                tell(line)
        _judge(outcome, stage)
    return outcome


def _stage(spare: Path, data_dir: Path, more: dict[str, Path]) -> Stage:
    files = variants(spare / "files", len(_CHATS) + 2)
    shelf = Shelf(data_dir)
    for name, file in (*zip(_CHATS, files, strict=False), *more.items()):
        shelf.put(name, file)
    # the log lies on the disk that is filled
    return Stage(shelf, files[len(_CHATS) :], data_dir / "log")


def _folders(stage: Stage) -> tuple[str, ...]:
    """What else the server writes, on the same disk."""
    prompts, cache = stage.log.with_name("prompts"), stage.log.with_name("cache")
    return ("--log-prompts", str(prompts), "--cache-dir", str(cache), "--cache-size", "16M")


def _alone(stage: Stage, folder: Path, tell: Tell) -> tuple[Book, int]:
    """Ask every model every question with nobody beside; the answers, and a tight budget."""
    book, sizes = Book(), []
    shelf = Shelf(folder)
    for number, file in enumerate(stage.later):
        shelf.put(f"later/{number}", file)
    for where in (stage.shelf, shelf):
        with running(*_FLAGS, data_dir=where.data_dir) as server:
            asker = Asker(server.url)
            for name in where.names():
                [digest] = where.meant(name, 0, 0)
                assert digest is not None
                questions = VECTORS if name.endswith("vectors") else TEXT
                book.fill(digest, name, questions, asker.answer)
            sizes += [one["bytes"] for one in asker.loaded()]
    different = len({digest for digest, _ in book.answers})
    budget = max(round(max(sizes) * _SPARE), round(sum(sizes) * _SHARE))
    tell(f"{len(book.answers)} answers of {different} models alone; {budget / 2**20:.0f} MiB")
    return book, budget


def _phases(
    one: Soak, server: GeniexServer, seconds: float, phase: float, tell: Tell
) -> Iterator[Sample]:
    """Run in phases, and look at the process after each, once the warm-up is over."""
    start = time.monotonic()
    end, warm = start + seconds, start + seconds * _WARM_UP
    while time.monotonic() < end:
        one.run(CLIENTS, until=min(end, time.monotonic() + phase))
        one.rest()
        found = at_rest(server.process)
        done = sum(one.report.done.values())
        tell(f"{time.monotonic() - start:5.0f} s: {done} rounds, {found}")
        if time.monotonic() > warm:
            yield found


def _judge(outcome: Outcome, stage: Stage) -> None:
    """Add what is wrong, looked at from outside, to the problems."""
    report, problems = outcome.report, outcome.problems
    problems += report.faults
    problems += leaks(outcome.samples)
    missing = set(stage.shelf.names()) - set(report.compared)
    if missing and sum(report.done.values()) >= _MANY:
        problems.append(f"no answer of these was compared: {', '.join(sorted(missing))}")
    if "Traceback" in (written := stage.log.read_text(encoding="utf-8", errors="replace")):
        problems.append(f"in the log: {written[written.index('Traceback') :][:3000]}")
    problems += _unlike_the_store(stage.shelf)


def _unlike_the_store(shelf: Shelf) -> list[str]:
    """What `geniex verify` says beside what was done behind the back of geniex."""
    told = shelf.geniex("verify", code=5).splitlines()
    changed = ("soak/c-chat", "soak/d-chat")
    return [
        f"verify: {line}" for line in told if not line.startswith(changed) and ": ok" not in line
    ]


@contextmanager
def models(folder: Path | None) -> Iterator[dict[str, Path]]:
    """Models beside the tiny ones: one with heads, one for vectors, and a real one in `folder`."""
    from tests.toys import bert

    heads = Path(__file__).parents[2] / "tests" / "data" / "models" / "q35-mix-q8.gguf"
    with tempfile.TemporaryDirectory() as spare:
        vectors = Path(spare) / "vectors.gguf"
        bert.write_bert(vectors, bert.Bert())
        found = {"soak/heads": heads, "soak/vectors": vectors}
        if folder is not None:
            found["soak/smol"] = folder / "SmolLM2-135M-Instruct.Q4_1.gguf"
        yield found
