"""What a wish means just now: its files, by what they are and not by how they are spelled."""

import difflib
from dataclasses import dataclass, replace
from typing import TypeAlias

from geniex.config import Settings, parse_compute
from geniex.server.residents import ModelWish, Purpose
from geniex.session import find_local_model, find_model
from geniex.speculation_wish import NO_WISH, SpeculationWish
from geniex_catalogue.entries import catalogue
from geniex_catalogue.errors import (
    DraftNotFoundError,
    GenieXError,
    ModelFileError,
    ModelNotFoundError,
    ModelPathError,
    SpeculativeError,
)
from geniex_catalogue.resolver import ResolvedModel
from geniex_catalogue.store import Store

# device, inode, size and time of change of each file: another path to it is the same model, and a
# file that was pulled anew is another one
Identity: TypeAlias = tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """What two requests have in common that share contexts."""

    model: Identity
    draft: Identity
    nctx: int | None
    ngl: int
    compute: str | None
    speculation: SpeculationWish
    purpose: Purpose


@dataclass(frozen=True, slots=True)
class Reading:
    """A wish that was read: the model and the draft it names, found, and the settings for it."""

    resolved: ResolvedModel
    draft: ResolvedModel | None
    settings: Settings
    speculation: SpeculationWish
    purpose: Purpose

    @property
    def asked(self) -> Asked:
        """What tells this wish from others."""
        return Asked(
            identity_of(self.resolved),
            identity_of(self.draft),
            self.settings.nctx,
            self.settings.ngl,
            self.settings.compute,
            replace(self.speculation, draft=None),
            self.purpose,
        )


def identity_of(model: ResolvedModel | None) -> Identity:
    """What tells a model's files from others; empty for none. Raises ModelFileError."""
    if model is None:
        return ()
    try:
        found = [path.stat() for path in model.files]
    except OSError as exc:
        raise ModelFileError(f"`{model.name}` cannot be read: {exc.strerror}") from exc
    return tuple((s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns) for s in found)


def read(wish: ModelWish, settings: Settings) -> Reading:
    """Find what a wish names; nothing is pulled.

    Raises the catalogue's errors, ModelNotFoundError with names that are here,
    DraftNotFoundError, SpeculativeError for a draft that cannot be read, UsageError.
    """
    resolved = find_here(settings.model if wish.name is None else wish.name, settings)
    wanted = wish.speculation if wish.speculation.wanted else NO_WISH
    draft = find_draft(wanted.draft, settings) if wanted.draft is not None else None
    own = replace(
        settings,
        nctx=settings.nctx if wish.nctx is None else wish.nctx,
        ngl=settings.ngl if wish.ngl is None else wish.ngl,
        compute=settings.compute if wish.compute is None else parse_compute(wish.compute),
    )
    return Reading(resolved, draft, own, wanted, wish.purpose or _made_for(resolved))


def _made_for(model: ResolvedModel) -> Purpose:
    header = model.header
    return "embedding" if header is not None and header.role == "embedding" else "text"


def find_here(name: str, settings: Settings) -> ResolvedModel:
    """A model that is here, by name or path. Raises as `read`."""
    try:
        return find_local_model(name, settings)
    except ModelPathError:
        raise
    except ModelNotFoundError as exc:
        near = exc.suggestions or _near(name, settings)
        hints = [exc.hint] if exc.hint else []
        if near and not exc.suggestions:
            hints.append("did you mean " + " or ".join(f"`{other}`" for other in near) + "?")
        raise ModelNotFoundError(name, near, hint="; ".join(hints) or None) from exc


def _near(name: str, settings: Settings) -> tuple[str, ...]:
    """Models that are here whose names are like this one."""
    here = [str(stored.name) for stored in Store(settings.data_dir).list()]
    here += [entry.name for entry in catalogue().entries if entry.builtin]
    return tuple(difflib.get_close_matches(name.partition(":")[0], here, n=3))


def find_draft(name: str, settings: Settings) -> ResolvedModel:
    """The draft that a request names. Raises DraftNotFoundError, SpeculativeError."""
    try:
        found = find_model(name, settings, "draft")
    except ModelNotFoundError as exc:
        raise DraftNotFoundError(name, exc.suggestions, hint=exc.hint) from exc
    except GenieXError as exc:
        raise SpeculativeError(
            f"draft model `{name}` cannot be used: {exc.message}", hint=exc.hint
        ) from exc
    if isinstance(found, ResolvedModel):
        return found
    hint = f"run `geniex pull {found.ref}` first; a server downloads nothing"
    if found.cached_precisions:
        hint += f"; of it are here: {', '.join(found.cached_precisions)}"
    raise DraftNotFoundError(name, hint=hint)
