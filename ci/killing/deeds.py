"""Commands that change a store, killed at any moment: what is left, and whether they go on."""

import json
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci.killing.moment import Moment, run, run_until

_KILLED = -9
_NOT_FOUND = 3
_PACE = 12 << 20  # bytes per second of the hub: slow enough to be killed between two of them
_NEWER = 5000  # how many more values the files have that an update brings


@dataclass(frozen=True)
class Deed:
    """A command on a copy of a store; `undone` is the code of a second one that finds it done."""

    name: str
    words: tuple[str, ...]
    undone: int = 0


DEEDS = (
    Deed("pull", ("pull", "org/new")),
    Deed("pull of a second precision", ("pull", "org/big:Q8_0")),
    Deed("import", ("pull", "local/mine", "--local-path", "MINE")),
    Deed("remove", ("remove", "org/big", "--yes"), _NOT_FOUND),
    Deed("remove of a precision", ("remove", "org/big:Q4_0", "--yes"), _NOT_FOUND),
    Deed("update", ("update", "org/big")),
)


@dataclass(frozen=True)
class Kill:
    """One kill: what of it is wrong, if anything, and what was partial behind it."""

    deed: str
    moment: str
    killed: bool
    partial: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


class Workplace:
    """A store to begin from, a model to import, and a hub that has newer files."""

    def __init__(self, folder: Path) -> None:
        self.old, self.root, self.mine = (folder / name for name in ("old", "work", "mine"))
        self._whole: dict[str, tuple[Any, set[str], int, float]] = {}

    def words(self, deed: Deed) -> list[str]:
        """The command line of a deed."""
        given = [str(self.mine) if word == "MINE" else word for word in deed.words]
        return [*given, "--data-dir", str(self.root)]

    def restore(self) -> None:
        """Begin anew."""
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.old, self.root)

    def verified(self) -> tuple[int, Any]:
        """What `geniex verify` says: its code, and a value for each model."""
        code, told = run(["verify", "--json", "--data-dir", str(self.root)])
        return code, json.loads(told) if told else []

    def files(self) -> set[str]:
        """The files of the store."""
        found = (self.root / "models").rglob("*")
        names = {str(path.relative_to(self.root)) for path in found if path.is_file()}
        # a lock that nobody holds is none
        return {name for name in names if not name.endswith((".lock", ".lock.pid"))}

    def whole(self, deed: Deed) -> tuple[Any, set[str], int, float]:
        """What a deed leaves that is not killed, how many touches it makes, and its seconds."""
        if deed.name not in self._whole:
            self.restore()
            ended = run_until(self.words(deed), self.root, Moment())
            if ended.code:
                raise RuntimeError(f"{deed.name} ended with {ended.code}")
            told = (self.verified()[1], self.files(), ended.touches, ended.seconds)
            self._whole[deed.name] = told
        return self._whole[deed.name]

    def kill(self, deed: Deed, rng: random.Random) -> Kill:
        """Kill a deed at a random moment, look at what is left, and do it again."""
        told, files, touches, seconds = self.whole(deed)
        by_touch = rng.random() < 0.7
        moment = (
            Moment(touch=rng.randint(1, touches))
            if by_touch
            else Moment(seconds=rng.uniform(0, seconds))
        )
        self.restore()
        killed = run_until(self.words(deed), self.root, moment).code == _KILLED
        code, left = self.verified()
        faults = [f"verify ended with {code}"] if code else []
        faults += [f"{m['name']}: {f['reason']}" for m in left for f in m["faults"]]
        again = run_until(self.words(deed), self.root, Moment()).code
        if again not in (0, deed.undone):
            faults.append(f"again it ended with {again}")
        if (now := self.verified()) != (0, told):
            faults.append(f"in the end {now}, not {told}")
        if (there := self.files()) != files:
            faults.append(f"other files in the end: {sorted(there ^ files)}")
        partial = tuple(f"{m['name']}: {m['status']}, {m['partial']}" for m in left if m["partial"])
        return Kill(deed.name, str(moment), killed, partial, tuple(faults))


@contextmanager
def workplace(folder: Path) -> Iterator[Workplace]:
    """A workplace over a hub in a process of its own, which HF_ENDPOINT names inside the block."""
    from tests.geniex_catalogue.pull.models import gguf, shards
    from tests.hubserver import running

    place = Workplace(folder)
    place.mine.mkdir()
    for name, data in shards(2).items():
        (place.mine / name).write_bytes(data)
    old = shards(3)
    before = os.environ.get("HF_ENDPOINT")
    with running() as hub:
        os.environ["HF_ENDPOINT"] = hub.url
        hub.add("org/big", {**old, "other-Q8_0.gguf": gguf(90_000)})
        hub.add("org/new", {f"new-{name}": data for name, data in _large(2).items()})
        code, _ = run(["pull", "org/big:Q4_0", "--data-dir", str(place.old)])
        if code:
            raise RuntimeError(f"the store to begin from was not pulled: {code}")
        for at, name in enumerate(old):
            hub.repos["org/big"].files[name] = gguf(_NEWER + at, split__count=3, split__no=at)
        hub.pace = _PACE
        try:
            yield place
        finally:
            os.environ.pop("HF_ENDPOINT")
            if before is not None:
                os.environ["HF_ENDPOINT"] = before


def _large(count: int) -> dict[str, bytes]:
    from tests.geniex_catalogue.pull.models import gguf

    names = [f"Q4_0-{n:05d}-of-{count:05d}.gguf" for n in range(1, count + 1)]
    return {
        name: gguf(90_000 + at, split__count=count, split__no=at) for at, name in enumerate(names)
    }
