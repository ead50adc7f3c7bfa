"""Weights in memory, each loaded once however many models are made on it."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from geniex_catalogue.errors import LoadError
from geniex_runtimes.llama_cpp.library import Library
from geniex_runtimes.llama_cpp.weights import Placement, Weights

_LOOK = 0.1  # seconds between two looks whether a load that another one makes is still wanted


@dataclass(frozen=True, slots=True)
class _Key:
    """What makes two loads the same. `files` are what they are, however their paths are spelled."""

    files: tuple[tuple[int, int, int, int], ...]
    placement: Placement


@dataclass(slots=True)
class _Held:
    """Weights, None while they are being loaded, and how many have them."""

    key: _Key
    heads: bool
    weights: Weights | None = None
    users: int = 0


class Shelf:
    """Lends weights. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: list[_Held] = []

    def borrow(
        self,
        library: Library,
        files: Sequence[Path],
        placement: Placement,
        *,
        progress: Callable[[float], bool] | None = None,
    ) -> Weights:
        """Weights that are loaded already, or loaded now; `give_back` ends it. Raises as Weights.

        With their heads they also serve who does not need these. Who comes while another loads
        them waits for that.
        """
        heads = placement.heads
        layers = placement.gpu_layers if placement.devices else 0
        key = _Key(_facts(files), replace(placement, gpu_layers=layers, heads=False))
        with self._changed:
            while (held := self._find(key, heads)) is not None:
                share = 0.0 if held.weights is None else 1.0
                if progress is not None and not progress(share):
                    raise LoadError(f"loading `{files[0].name}` was given up")
                if held.weights is not None:
                    held.users += 1
                    return held.weights
                self._changed.wait(_LOOK)
            mine = _Held(key, heads)
            self._held.append(mine)
        try:
            weights = Weights(library, files, placement, progress=progress)
        except BaseException:
            with self._changed:
                self._held.remove(mine)
                self._changed.notify_all()
            raise
        with self._changed:
            mine.weights, mine.users = weights, 1
            self._changed.notify_all()
        return weights

    def give_back(self, weights: Weights) -> None:
        """End a loan; the last one frees the weights. The contexts on them must be freed before."""
        with self._changed:
            held = next(held for held in self._held if held.weights is weights)
            held.users -= 1
            if held.users:
                return
            self._held.remove(held)
        weights.close()

    def _find(self, key: _Key, heads: bool) -> _Held | None:
        fitting = [held for held in self._held if held.key == key and held.heads >= heads]
        # what is there comes before what is on its way
        return min(fitting, key=lambda held: held.weights is None, default=None)


def _facts(files: Sequence[Path]) -> tuple[tuple[int, int, int, int], ...]:
    try:
        found = [path.stat() for path in files]
    except OSError as exc:
        raise LoadError(f"`{files[0].name}` cannot be read: {exc.strerror}") from exc
    return tuple((s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns) for s in found)


SHELF = Shelf()
