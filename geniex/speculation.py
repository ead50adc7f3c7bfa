"""How a model speculates: finds its draft, chooses where that is left to us (`auto`), says why."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from geniex.speculation_wish import MTP, SpeculationWish, say_whose
from geniex_catalogue import names
from geniex_catalogue.entries import catalogue
from geniex_catalogue.errors import (
    GenieXError,
    GGUFError,
    LoadError,
    ModelFileError,
    ModelPathError,
    StoreError,
    UsageError,
)
from geniex_catalogue.folder import scan
from geniex_catalogue.gguf import read_header
from geniex_catalogue.names import ModelRef
from geniex_catalogue.resolver import ResolvedModel
from geniex_catalogue.store import Store
from geniex_runtimes.contract import SPEC_FALLBACK
from geniex_runtimes.errors import SpeculativeError
from geniex_runtimes.options import SpeculativeOptions

log = logging.getLogger("geniex.speculation")

SIMPLE, NGRAM = "draft-simple", "ngram-simple"
RUNTIME = "llama_cpp"
# how the warnings begin that tell of speculation that was asked for and is not
REFUSED = "speculative decoding"
MEDIA_IGNORED = (
    "--spec-type set on a VLM-classified model; running the LLM path, "
    "image / audio inputs will be ignored"
)

# what a draft's own files can be wrong with: the answer goes on without it
_FILE_FAULTS = (ModelPathError, ModelFileError, GGUFError, LoadError, StoreError, UsageError)


@dataclass(frozen=True, slots=True)
class Speculation:
    """How a model is to speculate; no types is plain decoding.

    `choice` says what `auto` chose and why, empty where the user chose; `warnings` are for the
    user's eyes.
    """

    options: SpeculativeOptions = field(default_factory=SpeculativeOptions)
    draft: ResolvedModel | None = None
    choice: str = ""
    warnings: tuple[str, ...] = ()


PLAIN = Speculation()


class FindDraft(Protocol):
    """Finds a draft by name or path, as far as the face may go for it."""

    def __call__(self, name: str, *, offered: bool) -> ResolvedModel | None:
        """The draft's files.

        `offered` is a draft that the user did not name: None where it is not here and not wanted.
        Raises the catalogue's errors.
        """
        ...


def decide(
    wish: SpeculationWish, target: ResolvedModel, runtime: str, store: Store, find: FindDraft
) -> Speculation:
    """How `target` speculates on `runtime`, its draft found.

    A draft whose files are damaged or missing is plain decoding with a warning, or an error where
    the wish requires speculation. Raises UsageError for a draft that is needed and not named, and
    what `find` raises.
    """
    if not wish.wanted:
        return PLAIN
    if runtime != RUNTIME:
        text = f"{REFUSED} is only supported by {RUNTIME}"
        if wish.options.require:
            raise SpeculativeError(f"{text}, not by runtime {runtime}")
        warning = f"{text}; ignoring for runtime {runtime}"
        log.warning(warning)
        return Speculation(warnings=(warning,))
    try:
        made = _chosen(wish, target, store, find) if wish.auto else _asked(wish, target, find)
    except SpeculativeError as exc:
        if wish.options.require:
            raise
        warning = f"{SPEC_FALLBACK}: {exc.message}"
        log.warning(warning)
        return Speculation(warnings=(warning,))
    if made.choice:
        log.info(made.choice)
    if has_projector(target, store):
        made = replace(made, warnings=(*made.warnings, MEDIA_IGNORED))
    return made


def _asked(wish: SpeculationWish, target: ResolvedModel, find: FindDraft) -> Speculation:
    types = wish.options.types
    if wish.draft is not None:
        return Speculation(wish.options, _named(wish.draft, find))
    # heads that are declared and not there, or cannot be run, have a reason of their own
    heads = target.header is not None and target.header.nextn_layers > 0
    if SIMPLE in types or (MTP in types and not heads):
        kind = MTP if MTP in types and not heads else SIMPLE
        raise _draft_missing(kind, target.name, target.ref)
    return Speculation(wish.options)


def check_before_pull(wish: SpeculationWish, target: ModelRef) -> None:
    """Refuse to fetch a target in vain: raise UsageError where it is known to need a draft.

    Whether a file has heads of its own is known for sure once it is here.
    """
    # a bundle of the AI Hub has no use for any of it
    if wish.draft is not None or wish.auto or target.org == names.AI_HUB_ORG:
        return
    if SIMPLE in wish.options.types:
        raise _draft_missing(SIMPLE, str(target), target)
    if MTP in wish.options.types and catalogue().draft_for(target) is not None:
        raise _draft_missing(MTP, str(target), target)


def _draft_missing(kind: str, name: str, ref: ModelRef | None) -> UsageError:
    if kind == SIMPLE:
        return UsageError(
            f"{SIMPLE} needs a draft model",
            hint="name a small model of the same vocabulary with `--draft-model`",
        )
    known = catalogue().draft_for(ref) if ref is not None else None
    hint = (
        f"the draft of this model is `--draft-model {known}`"
        if known is not None
        else (
            "name a draft that was trained for exactly this model with `--draft-model`; "
            f"`--spec-type {NGRAM}` needs none"
        )
    )
    return UsageError(f"{MTP} needs a draft model: `{name}` carries no heads of its own", hint=hint)


def _named(name: str, find: FindDraft) -> ResolvedModel:
    """The draft that the user named. Raises SpeculativeError for faults of its files."""
    try:
        draft = find(name, offered=False)
    except _FILE_FAULTS as exc:
        raise SpeculativeError(exc.message, hint=exc.hint) from exc
    except GenieXError as exc:
        say_whose(exc, name)
        raise
    if draft is None:
        raise RuntimeError(f"`{name}` was asked for and passed over")
    return draft


def _chosen(
    wish: SpeculationWish, target: ResolvedModel, store: Store, find: FindDraft
) -> Speculation:
    """What `auto` chooses: heads of the target's own, a draft made for it, else n-grams."""

    def made(kind: str, why: str, draft: ResolvedModel | None = None) -> Speculation:
        choice = f"speculation: {kind}, {why}"
        length = default_length((kind,)) if wish.free_length else wish.options.n_max
        return Speculation(replace(wish.options, types=(kind,), n_max=length), draft, choice)

    from geniex_runtimes.llama_cpp.speculative.types import default_length

    if wish.draft is not None:
        draft = _named(wish.draft, find)
        is_draft = draft.header is not None and draft.header.role == "draft"
        return made(MTP if is_draft else SIMPLE, f"with {draft.name}", draft)
    reasons: list[str] = []
    if target.header is not None and target.header.nextn_layers > 0:
        if not (misfit := _misfit(target, None)):
            return made(MTP, "with the heads in the model's own file")
        reasons.append(misfit)
    for name in _known_drafts(target, store):
        offered, reason = _offered(name, target, find)
        if offered is not None:
            return made(MTP, f"with {offered.name}", offered)
        reasons.append(reason)
    return made(NGRAM, "; ".join(reasons) or "no draft of this model is known")


def _offered(name: str, target: ResolvedModel, find: FindDraft) -> tuple[ResolvedModel | None, str]:
    """A draft nobody named, or why there is none; what is wrong with it is no error."""
    try:
        draft = find(name, offered=True)
    except GenieXError as exc:
        return None, exc.message
    if draft is None:
        return None, f"its draft is not here (`geniex pull {name}`)"
    return (None, misfit) if (misfit := _misfit(target, draft)) else (draft, "")


def _misfit(target: ResolvedModel, draft: ResolvedModel | None) -> str:
    """Why target and draft (None: its own heads) do not go together; empty where they do."""
    from geniex_runtimes.llama_cpp.speculative import pair

    if target.header is None or (draft is not None and draft.header is None):
        return "it has no header"
    try:
        if draft is None:
            pair.check(target.header, target.path, None, None)
        else:
            pair.check(target.header, target.path, draft.header, draft.path)
    except (SpeculativeError, GGUFError) as exc:
        return exc.message
    return ""


def _known_drafts(target: ResolvedModel, store: Store) -> Iterator[str]:
    """Names and paths of drafts that were made for a target: the catalogue's, then its folder's."""
    if target.ref is None:
        place = names.local_path(target.name)
        if place is not None and place.is_dir():
            yield from (str(place / draft.name) for draft in scan(place).fileset.drafts)
        return
    known = catalogue().draft_for(target.ref)
    if known is not None:
        yield str(known)
    stored = store.find(target.ref)
    if stored is None or stored.manifest is None:
        return
    for record in stored.manifest.extras:
        here = stored.extra(record.name) is not None
        if here and record.name.endswith(".gguf") and _is_draft(stored.path(record)):
            yield f"{stored.name}:{record.name}"


def _is_draft(path: Path) -> bool:
    try:
        return read_header(path).role == "draft"
    except GGUFError:
        return False


def has_projector(target: ResolvedModel, store: Store) -> bool:
    """Whether images or audio are part of the model: its manifest says so, or a file beside it."""
    stored = store.find(target.ref) if target.ref is not None else None
    if stored is not None and stored.manifest is not None:
        projector = stored.manifest.projector
        named = projector is not None and bool(projector.name)
        return named or stored.manifest.model_type == "vlm"
    folder = target.path.parent
    return any("mmproj" in path.name.lower() for path in folder.glob("*.gguf"))
