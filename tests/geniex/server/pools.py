"""Pools for tests: models that are files, loads that wait for a word, and what became of them."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from geniex.config import Settings
from geniex.server.pool import Lease, ModelWish, Pool, PoolOptions, Resident
from geniex.session import OpenModel, load_model
from geniex_runtimes.fake import FakeModel

PATIENCE = 30.0  # seconds that a test waits for what must come
CONTEXT = 512


class Loads:
    """An opener that remembers the models it opened, and holds loads whose name is held back."""

    def __init__(self) -> None:
        self.opened: list[OpenModel] = []
        self.begun: list[str] = []
        self.errors: list[Exception] = []
        self._gates: dict[str, threading.Event] = {}

    def hold(self, path: Path) -> threading.Event:
        """Loads of this file wait until the event is set."""
        return self._gates.setdefault(path.name, threading.Event())

    def __call__(self, resolved: object, settings: object, **how: object) -> OpenModel:
        name = resolved.path.name  # type: ignore[attr-defined]
        self.begun.append(name)
        progress = how["progress"]
        if (gate := self._gates.get(name)) is not None:
            end = time.monotonic() + PATIENCE
            while not gate.wait(0.01) and time.monotonic() < end:
                if not progress(0.5):  # type: ignore[operator]
                    break
        try:
            model = load_model(resolved, settings, **how)  # type: ignore[arg-type]
        except Exception as exc:
            self.errors.append(exc)
            raise
        self.opened.append(model)
        return model

    def fake(self, index: int = -1) -> FakeModel:
        """The scripted model of an opening."""
        loaded = self.opened[index].loaded
        assert isinstance(loaded, FakeModel)
        return loaded


class Models:
    """Small models, each a file of its own."""

    def __init__(self, folder: Path, source: Path) -> None:
        self._folder = folder
        self._source = source

    def __getitem__(self, letter: str) -> Path:
        path = self._folder / f"{letter}.gguf"
        if not path.exists():
            shutil.copy(self._source, path)
        return path

    def wish(self, letter: str, nctx: int = CONTEXT) -> ModelWish:
        return ModelWish(str(self[letter]), nctx=nctx)


@contextmanager
def pool_of(data_dir: Path, loads: Loads, **options: object) -> Iterator[Pool]:
    settings = Settings(data_dir=data_dir)
    how = {"keep_alive": None, "slots": 2} | options
    pool = Pool(settings, PoolOptions(**how), opener=loads)  # type: ignore[arg-type]
    try:
        yield pool
    finally:
        pool.close()


def eventually(what: Callable[[], bool]) -> None:
    """Wait for what must come to be."""
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.005)


def names(residents: list[Resident]) -> list[str]:
    """The letters of the models in memory."""
    return [Path(one.id).stem for one in residents]


class Going(threading.Thread):
    """An acquire in a thread of its own: `lease` or `error` is what came of it."""

    def __init__(self, pool: Pool, wish: ModelWish, gone: threading.Event | None = None) -> None:
        super().__init__(daemon=True)
        self._how = (pool, wish, gone)
        self.lease: Lease | None = None
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        pool, wish, gone = self._how
        try:
            self.lease = pool.acquire(wish, gone)
        except Exception as exc:
            self.error = exc

    def result(self) -> Lease:
        """The lease. Raises what acquire raised."""
        self.join(PATIENCE)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error
        assert self.lease is not None
        return self.lease
