"""What a wish means just now: its files, by what they are and not by how they are spelled."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from geniex.config import Settings
from geniex.keys import parse_compute
from geniex.server.finder import Finder, Identity, identity_of
from geniex.server.residents import ModelWish, Purpose
from geniex.speculation_wish import NO_WISH, SpeculationWish
from geniex.tuned import tuned
from geniex_catalogue.errors import GenieXError
from geniex_catalogue.resolver import ResolvedModel

log = logging.getLogger("geniex.server.reading")


@dataclass(frozen=True, slots=True)
class Asked:
    """What two requests have in common that share contexts."""

    model: Identity
    draft: Identity
    nctx: int | None
    ngl: int
    compute: str | None
    require: str | None
    kv_type: str | None
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
            self.settings.require,
            self.settings.kv_type,
            replace(self.speculation, draft=None),
            self.purpose,
        )


def read(wish: ModelWish, settings: Settings, finder: Finder) -> Reading:
    """Find what a wish names. Raises as the finder, and UsageError."""
    resolved = finder.model(settings.model if wish.name is None else wish.name)
    purpose = wish.purpose or _made_for(resolved)
    speculation = wish.speculation
    if settings.best:
        made = tuned(resolved, _said(settings, wish), speculation, _has_draft(finder))
        if made.note:
            log.info("%s: %s", resolved.name, made.note)
        settings = made.settings
        speculation = made.wish if purpose == "text" else speculation
    wanted = speculation if speculation.wanted else NO_WISH
    # a bundle speculates with nothing: its draft is not looked for
    names_draft = wanted.draft is not None and resolved.format == "gguf"
    draft = finder.draft(wanted.draft) if names_draft and wanted.draft is not None else None
    own = replace(
        settings,
        nctx=settings.nctx if wish.nctx is None else wish.nctx,
        ngl=settings.ngl if wish.ngl is None else wish.ngl,
        compute=settings.compute if wish.compute is None else parse_compute(wish.compute),
        require=settings.require if wish.require is None else wish.require,
        kv_type=settings.kv_type if wish.kv_type is None else wish.kv_type,
    )
    return Reading(resolved, draft, own, wanted, purpose)


def _said(settings: Settings, wish: ModelWish) -> Settings:
    """The settings, with what the request says counted among what was said."""
    return settings if wish.compute is None else replace(settings, said=settings.said | {"compute"})


def _has_draft(finder: Finder) -> Callable[[str], bool]:
    def has(name: str) -> bool:
        try:
            finder.draft(name)
        except GenieXError:
            return False
        return True

    return has


def _made_for(model: ResolvedModel) -> Purpose:
    header = model.header
    return "embedding" if header is not None and header.role == "embedding" else "text"
