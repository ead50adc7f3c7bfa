"""The models that the server holds: loaded when a request asks, given up when memory is short."""

import threading
from types import TracebackType
from typing import Any, Final, Self

from geniex.config import Settings
from geniex.server.residents import ModelWish, PoolOptions, Purpose, Resident
from geniex.session import OpenModel

__all__ = ["UNSET", "Lease", "ModelWish", "Pool", "PoolOptions", "Purpose", "Resident", "Unset"]


class Unset:
    """The type of `UNSET`: as the pool's options say."""


UNSET: Final = Unset()


class Lease:
    """One request's hold on a loaded model: it stays as it is until `close`."""

    model: OpenModel
    name: str

    def close(self, keep_alive: float | Unset | None = UNSET) -> None:
        """Give the model back; a second call does nothing.

        `keep_alive` is how many seconds it stays when idle (None or negative: for ever).
        """
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


class Pool:
    """Models by wish. All methods may be called from any thread."""

    def __init__(self, settings: Settings, options: PoolOptions, *, opener: Any = None) -> None:
        raise NotImplementedError

    def acquire(self, wish: ModelWish, gone: threading.Event | None = None) -> Lease:
        """A lease on the model that is wished for, loaded now if need be; blocks meanwhile."""
        raise NotImplementedError

    def residents(self) -> list[Resident]:
        """What is in memory or on its way there."""
        raise NotImplementedError

    def unload(self, name: str) -> int:
        """Give up a model's contexts; returns how many. Running answers end first."""
        raise NotImplementedError

    def close(self) -> None:
        """Cancel every answer and load, and free everything."""
        raise NotImplementedError
