"""What the pool tells of its models, to who counts it."""

from typing import Literal, Protocol, TypeAlias

from geniex.server.contextset import ContextSet

LoadResult: TypeAlias = Literal["loaded", "failed", "cancelled"]
Reason: TypeAlias = Literal["memory", "idle", "unload", "end"]


class PoolEvents(Protocol):
    """Called from any thread; never blocks. Models are named canonically."""

    def loaded(self, model: str, seconds: float, result: LoadResult) -> None:
        """A load has ended."""

    def freed(self, model: str, reason: Reason) -> None:
        """Contexts were given up: for memory, idle for long, by a request, at the server's end."""


class NoEvents:
    """Nobody counts."""

    def loaded(self, model: str, seconds: float, result: LoadResult) -> None:
        """Nothing happens."""

    def freed(self, model: str, reason: Reason) -> None:
        """Nothing happens."""


def result_of(load: ContextSet) -> LoadResult:
    """How a load has ended."""
    if load.error is None:
        return "loaded"
    return "cancelled" if load.given_up else "failed"
