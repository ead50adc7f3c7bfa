"""Kills processes that change a store at their Nth touch of it, and looks at what they leave.

`python -m tests.geniex_catalogue.pull.killer FOLDER SEED` prints a JSON line for each kill. FOLDER
has `old`, a store with an older org/big, and `mine`, a model to import. POSIX alone: it forks.
"""

import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from geniex_catalogue.hubs.localfs import import_path
from geniex_catalogue.names import parse
from geniex_catalogue.pull import PullWish, execute, plan_pull
from geniex_catalogue.store import Store
from geniex_catalogue.verification import check

BIG, MINE = parse("org/big"), parse("local/mine")
TOUCHES = ("os.rename", "os.remove", "os.rmdir", "os.link")
KILLS = {"update": 10}
FEW = 3

Deed = Callable[[], object]


def deeds(folder: Path, store: Store) -> dict[str, Deed]:
    """What is done to a store that is a copy of `old`."""
    update = plan_pull(BIG, store, PullWish(fresh=True))
    second = plan_pull(BIG.with_precision("Q8_0"), store)
    return {
        "update": lambda: execute(update, store),
        "second": lambda: execute(second, store),
        "import": lambda: import_path(MINE, folder / "mine", store),
        "remove": lambda: store.remove(BIG),
        "remove one": lambda: store.remove(BIG.with_precision("Q4_0")),
    }


def touches_of(deed: Deed, root: Path, at: int | None = None) -> int:
    """Do it in a process that is killed at its touch number `at`; how many touches it made."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        count = 0

        def touch(event: str, given: tuple[object, ...]) -> None:
            nonlocal count
            if event in TOUCHES and str(given[0]).startswith(str(root)):
                count += 1
                if count == at:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(touch)
        try:
            deed()
            os.write(writer, str(count).encode())
        finally:
            os._exit(0)
    os.close(writer)
    told = os.read(reader, 20)
    os.close(reader)
    os.waitpid(child, 0)
    return int(told or 0)


def state(store: Store) -> list[dict[str, object]]:
    """What a check says of every model, and which files hold the new content."""
    found: list[dict[str, object]] = []
    for model in store.list():
        report = check(model)
        faults = [fault.reason for fault in report.faults]
        found.append({"name": model.name, "status": report.status, "faults": faults})
    return found


def main(folder: Path, seed: int) -> None:
    """Each deed, whole and killed, each time on the old store."""
    store = Store(folder / "work")
    dice = random.Random(seed)

    def restore() -> None:
        shutil.rmtree(store.root, ignore_errors=True)
        shutil.copytree(folder / "old", store.root)

    restore()
    for name, deed in deeds(folder, store).items():
        restore()
        most = touches_of(deed, store.root)
        whole = state(store)
        for at in sorted(dice.sample(range(1, most + 1), min(KILLS.get(name, FEW), most))):
            restore()
            touches_of(deed, store.root, at)
            killed = state(store)
            touches_of(deed, store.root)
            told = {"deed": name, "at": f"{at}/{most}", "killed": killed}
            again = {"again": state(store), "whole": whole}
            sys.stdout.write(json.dumps({**told, **again}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
