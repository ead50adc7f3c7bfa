"""A request's hold on a loaded model."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TypeAlias

from geniex.server.contextset import ContextSet
from geniex.session import OpenModel


class Unset:
    """The type of `UNSET`: as the pool's options say."""


UNSET: Final = Unset()
KeepAlive: TypeAlias = float | Unset | None

# takes a set back: with how long it is to stay, and how many seconds the request took
GiveBack: TypeAlias = Callable[[ContextSet, KeepAlive, float], None]


class Lease:
    """One request's hold on a loaded model, which stays as it is until `close`.

    `name` is the model's canonical name, however it was spelled, and that of `model.resolved`.
    """

    def __init__(self, contexts: ContextSet, model: OpenModel, give_back: GiveBack) -> None:
        self._contexts: ContextSet | None = contexts
        self._give_back = give_back
        self._started = time.monotonic()
        self.model = model
        self.name = model.resolved.name

    def close(self, keep_alive: KeepAlive = UNSET) -> None:
        """Give the model back; a second call does nothing. Never blocks.

        `keep_alive` is how many seconds it stays when idle: 0 goes at once, None or a negative
        number stays for ever. Of several requests the one that ends last decides.
        """
        contexts, self._contexts = self._contexts, None
        if contexts is not None:
            self._give_back(contexts, keep_alive, time.monotonic() - self._started)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()
