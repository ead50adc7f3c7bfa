"""Finds models and drafts by name, and remembers them for as long as their files stay as they are.

Every request names its model. Reading the header of a large vocabulary takes as long as some tokens
of an answer, and a few looks at the disk tell whether anything has changed.
"""

import difflib
import threading
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from geniex.config import Settings
from geniex.session import find_local_model, find_model
from geniex_catalogue import names
from geniex_catalogue.entries import catalogue
from geniex_catalogue.errors import (
    DraftNotFoundError,
    GenieXError,
    ModelFileError,
    ModelNotFoundError,
    ModelPathError,
)
from geniex_catalogue.resolver import ResolvedModel
from geniex_catalogue.store import Store
from geniex_runtimes.errors import SpeculativeError

_REMEMBERED = 64

# device, inode, size and time of change of each file: another path to it is the same model, and a
# file that was pulled anew is another one
Identity: TypeAlias = tuple[tuple[int, int, int, int], ...]


def identity_of(model: ResolvedModel | None) -> Identity:
    """What tells a model's files from others; empty for none. Raises ModelFileError."""
    if model is None:
        return ()
    try:
        return tuple(_stamp(path) for path in model.files)
    except OSError as exc:
        raise ModelFileError(f"`{model.name}` cannot be read: {exc.strerror}") from exc


def _stamp(path: Path) -> tuple[int, int, int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


@dataclass(frozen=True, slots=True)
class _Known:
    """What a name meant, and what the disk looked like then."""

    model: ResolvedModel
    seen: tuple[object, ...]


class Finder:
    """Finds what is here; nothing is ever pulled. Usable from any thread."""

    def __init__(self, settings: Settings, paths: Container[str] | None = None) -> None:
        """`paths` are the texts that may mean a path (None: all); all others are names."""
        self._settings = settings
        self._paths = paths
        self._store = Store(settings.data_dir)
        self._known: dict[tuple[str, bool], _Known] = {}
        self._lock = threading.Lock()

    def model(self, name: str) -> ResolvedModel:
        """A model by name or path. Raises the catalogue's errors: ModelNotFoundError with names
        that are here.
        """
        if (known := self._recall(name, draft=False)) is not None:
            return known
        try:
            found = find_local_model(name, self._settings, paths=self._may_be_path(name))
        except ModelPathError:
            raise
        except ModelNotFoundError as exc:
            raise self._with_near_names(name, exc) from exc
        return self._remember(name, found, draft=False)

    def draft(self, name: str) -> ResolvedModel:
        """The draft that a request names. Raises DraftNotFoundError, and SpeculativeError for a
        file that is none.
        """
        if (known := self._recall(name, draft=True)) is not None:
            return known
        try:
            found = find_model(name, self._settings, "draft", paths=self._may_be_path(name))
        except ModelNotFoundError as exc:
            raise DraftNotFoundError(name, exc.suggestions, hint=exc.hint) from exc
        except GenieXError as exc:
            raise SpeculativeError(
                f"draft model `{name}` cannot be used: {exc.message}", hint=exc.hint
            ) from exc
        if isinstance(found, ResolvedModel):
            return self._remember(name, found, draft=True)
        hint = f"run `geniex pull {found.ref}` first; a server downloads nothing"
        if found.cached_precisions:
            hint += f"; of it are here: {', '.join(found.cached_precisions)}"
        raise DraftNotFoundError(name, hint=hint)

    def _may_be_path(self, name: str) -> bool:
        return self._paths is None or name in self._paths

    def _with_near_names(self, name: str, error: ModelNotFoundError) -> ModelNotFoundError:
        if error.suggestions:
            return error
        here = [str(stored.name) for stored in self._store.list()]
        here += [entry.name for entry in catalogue().entries if entry.builtin]
        near = difflib.get_close_matches(name.partition(":")[0], here, n=3)
        return ModelNotFoundError(name, near, hint=error.hint)

    def _remember(self, name: str, model: ResolvedModel, *, draft: bool) -> ResolvedModel:
        known = _Known(model, self._look(name, model))
        with self._lock:
            while len(self._known) >= _REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[name, draft] = known
        return model

    def _recall(self, name: str, *, draft: bool) -> ResolvedModel | None:
        known = self._known.get((name, draft))
        if known is None or known.seen != self._look(name, known.model):
            return None
        return known.model

    def _look(self, name: str, model: ResolvedModel) -> tuple[object, ...]:
        """All that the meaning of a name depends on: its files, the folders that might hold others,
        and whether it has become a path.
        """
        folders = {path.parent for path in model.files}
        if model.ref is not None:
            folders.add(self._store.folder(model.ref))
        places = [*model.files, *sorted(folders)]
        path = names.local_path(name) if self._may_be_path(name) else None
        return path, *(_seen(place) for place in places)


def _seen(path: Path) -> tuple[int, int, int, int] | None:
    try:
        return _stamp(path)
    except OSError:
        return None
