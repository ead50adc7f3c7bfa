"""A request's hold on a loaded model."""

import copy
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Final, Self, TypeAlias

from geniex.server.contextset import ContextSet, Told
from geniex.session import OpenModel
from geniex_catalogue.resolver import ResolvedModel


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


def named_as(resolved: ResolvedModel, model: OpenModel) -> OpenModel:
    """A model by the name that it was asked by, which need not be the one it was loaded by."""
    if model.resolved == resolved:
        return model
    same = copy.copy(model)
    same.resolved = resolved
    return same


def told_as(model: OpenModel, loaded: Told, mine: Told) -> OpenModel:
    """A model with what the wish that leases it is told, in place of what it was `loaded` with."""
    if mine == loaded:
        return model
    same = copy.copy(model)
    # what the load itself had to say is for all
    since = tuple(note for note in model.plan.notes if note not in loaded.notes)
    same.plan = replace(model.plan, notes=(*mine.notes, *since))
    same.speculation = mine.speculation
    return same
