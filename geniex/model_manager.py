"""Models on disk from Python, in the words of the `geniex` package for Snapdragon.

>>> from geniex import model_manager
>>> model_manager.resolve_alias("tiny")
'geniex/tiny-chat:Q8_0'

Every function takes `data_dir`, else GENIEX_DATADIR, else `~/.cache/geniex`. What cannot be done is
a GenieXError, as on the command line.
"""

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from geniex.config import Settings, read_settings
from geniex_catalogue.entries import catalogue
from geniex_catalogue.errors import ModelNotFoundError, UsageError
from geniex_catalogue.hubs.contract import Progress
from geniex_catalogue.names import AI_HUB_ORG, ModelRef, local_path, parse
from geniex_catalogue.precision import canonical
from geniex_catalogue.resolver import ResolvedModel, Use, resolve
from geniex_catalogue.store import Store
from geniex_catalogue.stored import StoredModel

log = logging.getLogger("geniex.model_manager")

DataDir: TypeAlias = str | Path | None
How: TypeAlias = Literal["copy", "link", "in_place"]


def pull(
    name: str,
    *,
    precision: str | None = None,
    revision: str | None = None,
    local_path: str | Path | None = None,
    how: How = "copy",
    with_draft: bool = False,
    hf_token: str | None = None,
    progress: Progress | None = None,
    data_dir: DataDir = None,
) -> StoredModel:
    """Fetch a model into the store; one that is here already is only looked at.

    `revision` is a branch, tag or commit; `with_draft` fetches its draft too. `local_path` imports
    a GGUF file, folder or zip of this machine under `name` instead, as `how` says. `progress` is
    told what arrives. Raises HubError, TransferError, DiskSpaceError, StoreError, BundleError for
    a bundle that is not whole, and UsageError for words that do not go together.
    """
    store, ref = _store(data_dir), full_ref(name, precision)
    if local_path is None:
        if how != "copy":
            raise UsageError(f'`how="{how}"` is for `local_path`')
        from geniex.chipset import machine_of
        from geniex_catalogue import pull as puller

        machine = machine_of(_settings(data_dir))
        wish = puller.PullWish(
            revision=revision, token=hf_token, with_draft=with_draft, machine=machine
        )
        return puller.pull(ref, store, wish, progress)
    if revision is not None or hf_token is not None or with_draft:
        raise UsageError(
            "`local_path` is a source of its own: it has no `revision`, no token and no draft"
        )
    from geniex.bundle_import import import_checked

    path = Path(local_path).expanduser()
    return import_checked(ref, path, store, how, _note(ref), progress=progress)


def _note(ref: ModelRef) -> Callable[[str], None]:
    return lambda text: log.warning("%s: %s", ref.name, text)


def query(
    name: str,
    *,
    revision: str | None = None,
    hf_token: str | None = None,
    data_dir: DataDir = None,
) -> tuple[str, ...]:
    """The precisions that a model's hub has, best choice first. Raises HubError."""
    ref = full_ref(name)
    if ref.org == AI_HUB_ORG:
        return _query_ai_hub(ref, revision, data_dir)
    from geniex_catalogue.fileset import group
    from geniex_catalogue.hubs.huggingface import HuggingFace

    listing = HuggingFace(hf_token).list(ref, revision)
    return group(listing.files).labels


def _query_ai_hub(ref: ModelRef, version: str | None, data_dir: DataDir) -> tuple[str, ...]:
    """The precisions of a model's bundles for this machine."""
    from geniex.chipset import machine_of
    from geniex_catalogue.hubs.aihub import AIHub

    settings = _settings(data_dir)
    return AIHub(settings.data_dir).precisions(ref, machine_of(settings), version)


def ensure_cached(
    name: str,
    *,
    precision: str | None = None,
    use: Use = "model",
    hf_token: str | None = None,
    progress: Progress | None = None,
    data_dir: DataDir = None,
) -> ResolvedModel:
    """The files of a model, or of a path; pulled first where they are not here.

    `use="draft"` takes a draft too. Raises what `pull` raises, and the errors of a path with no
    model.
    """
    store = _store(data_dir)
    text = name if local_path(name) is not None else str(full_ref(name, precision))
    found = resolve(text, store, use)
    if isinstance(found, ResolvedModel):
        return found
    pull(str(found.ref), hf_token=hf_token, progress=progress, data_dir=data_dir)
    found = resolve(str(found.ref), store, use)
    if isinstance(found, ResolvedModel):
        return found
    raise ModelNotFoundError(str(found.ref), hint="it was removed while it was pulled")


def get_paths(name: str, *, data_dir: DataDir = None) -> tuple[Path, ...]:
    """The files of a model that is here, the one to load first. Raises ModelNotFoundError."""
    found = resolve(name, _store(data_dir))
    if isinstance(found, ResolvedModel):
        return found.files
    raise ModelNotFoundError(name, hint=f'`geniex.model_manager.pull("{found.ref}")` fetches it')


def get_type(name: str, *, data_dir: DataDir = None) -> str:
    """`llm` or `vlm`, as the store has it. Raises ModelNotFoundError for what is not in it."""
    ref = full_ref(name)
    model = _store(data_dir).find(ref)
    if model is None and catalogue().builtin_file(ref) is not None:
        return "llm"
    if model is None or model.manifest is None:
        raise ModelNotFoundError(name)
    return model.manifest.model_type


def list_models(*, data_dir: DataDir = None) -> list[str]:
    """`org/repo:precision` of all that is here and whole, drafts and built-in models among it."""
    stored = (
        str(model.named(label))
        for model in list_detailed(data_dir=data_dir)
        for label in model.precisions
    )
    builtin = (f"{entry.name}:{label}" for entry in catalogue().entries for label in entry.builtin)
    return list(dict.fromkeys((*stored, *builtin)))


def list_detailed(*, data_dir: DataDir = None) -> tuple[StoredModel, ...]:
    """What is in the store: folder, size in bytes, precisions; partial and damaged models too."""
    return tuple(_store(data_dir).list())


def remove(name: str, *, data_dir: DataDir = None) -> int:
    """Remove a model, or the one precision that is named; the bytes freed.

    Raises ModelNotFoundError, PrecisionNotFoundError, StoreError.
    """
    ref = parse(name, catalogue().aliases)
    return _store(data_dir).remove(ref)


def clean(*, data_dir: DataDir = None) -> tuple[int, int]:
    """Remove all models, partial and damaged ones too: how many, and the bytes freed."""
    return _store(data_dir).clean()


def resolve_alias(name: str) -> str:
    """The name in full: `tiny` is `geniex/tiny-chat:Q8_0`. Raises ModelRefError."""
    return str(parse(name, catalogue().aliases))


def full_ref(name: str, precision: str | None = None) -> ModelRef:
    """A name with its precision. Raises ModelRefError, and UsageError where it has one already."""
    ref = parse(name, catalogue().aliases)
    if precision is None:
        return ref
    if ref.file is not None:
        raise UsageError(f"`{name}` names a file: it has no other precision")
    # an alias's own precision is what the one that is given stands in for
    typed = None if name.strip().lower() in catalogue().aliases else ref.precision
    if typed is not None and canonical(typed) != canonical(precision):
        raise UsageError(
            f"`{name}` names the precision {typed}, and {precision} is given beside it",
            hint="name one of them",
        )
    tag = precision if ref.hub == "docker" else None
    return replace(replace(ref, precision=None).with_precision(precision), tag=tag)


def detect_chipset(*, data_dir: DataDir = None) -> str | None:
    """The Snapdragon chipset of this machine, as it was set or found; None for any other."""
    from geniex.chipset import chipset_of

    found = chipset_of(_settings(data_dir))
    return found.name if found else None


def _settings(data_dir: DataDir) -> Settings:
    return read_settings({"data_dir": None if data_dir is None else str(data_dir)}, os.environ)


def _store(data_dir: DataDir) -> Store:
    return Store(_settings(data_dir).data_dir)
