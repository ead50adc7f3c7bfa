"""The models that are here, by the names that work everywhere."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from geniex.config import Settings
from geniex.server.options import ServerOptions
from geniex.server.residents import Purpose
from geniex.session import find_local_model, find_model
from geniex_catalogue import names
from geniex_catalogue.entries import catalogue
from geniex_catalogue.errors import GenieXError, ModelNotFoundError, PrecisionNotFoundError
from geniex_catalogue.gguf import read_header
from geniex_catalogue.resolver import ResolvedModel
from geniex_catalogue.store import Store
from geniex_runtimes import registry

_SERVED = ("model", "embedding")


@dataclass(frozen=True, slots=True)
class Listed:
    """One model: `id` is its canonical name, `created` seconds since the epoch.

    `device` is what a bundle runs on here, None for other models, and where nothing runs it.
    """

    id: str
    created: int
    owner: str
    device: str | None = None


def listed(settings: Settings, options: ServerOptions) -> list[Listed]:
    """Every model that can answer, each precision on its own, by name. Raises StoreError.

    Drafts are not among them: they answer nothing themselves.
    """
    found = {model.id: model for model in (*_built_in(), *_stored(settings))}
    for path in options.paths:
        with suppress(GenieXError):
            found[path] = find(path, settings, options)
    return [found[name] for name in sorted(found)]


def find(name: str, settings: Settings, options: ServerOptions) -> Listed:
    """The model that a name means, in whatever spelling, a draft too.

    Raises ModelNotFoundError and PrecisionNotFoundError for what is not here.
    """
    known = name in options.paths
    text = name if known else str(names.parse(name, catalogue().aliases, paths=False))
    found = find_model(text, settings, "draft", paths=text in options.paths)
    if isinstance(found, ResolvedModel):
        owner = found.ref.org if found.ref is not None else names.LOCAL_ORG
        device = _bundle_device() if found.format == "qairt" else None
        return Listed(found.name, _created(found.path), owner, device)
    if found.cached_precisions:
        raise PrecisionNotFoundError(
            found.ref.name, found.ref.selector or "", found.cached_precisions
        )
    raise ModelNotFoundError(name, hint=f"run `geniex pull {found.ref}` first")


def purpose_of(name: str, settings: Settings, options: ServerOptions) -> Purpose:
    """What a model is loaded for, by its header. Raises the catalogue's errors."""
    found = find_local_model(name, settings, paths=name in options.paths)
    embeds = found.header is not None and found.header.role == "embedding"
    return "embedding" if embeds else "text"


def names_like(name: str, settings: Settings) -> tuple[str, ...]:
    """Names of models that are here and like the one given, the likest first."""
    here = [model.id for model in listed(settings, ServerOptions())]
    return names.suggest(name.partition(":")[0], {known: known for known in here})


def _built_in() -> Iterator[Listed]:
    for entry in catalogue().entries:
        for label in entry.builtin:
            ref = names.parse(f"{entry.name}:{label}")
            file = catalogue().builtin_file(ref)
            if file is not None and _is_served(file[1]):
                yield Listed(str(ref), _created(file[1]), ref.org)


def _stored(settings: Settings) -> Iterator[Listed]:
    for model in Store(settings.data_dir).list():
        for label in model.precisions:
            records = model.records(label)
            path = model.path(records[0])
            name = str(model.named(label))
            if model.format == "qairt":
                yield Listed(name, _created(path.parent), model.ref.org, _bundle_device())
            elif _is_served(path):
                yield Listed(name, _created(path), model.ref.org)


def _bundle_device() -> str | None:
    if not registry.availability_of("qairt").available:
        return None
    devices = registry.get("qairt").devices()
    return devices[0].name if devices else None


def _is_served(path: Path) -> bool:
    try:
        found = path.stat()
        return _holds_served(path, found.st_ino, found.st_size, found.st_mtime_ns)
    except (GenieXError, OSError):
        return False  # damaged, or just removed: a request for it says so


@lru_cache(maxsize=1024)
def _holds_served(path: Path, *_stamp: int) -> bool:
    """The same, remembered while the file stays as it is: large vocabularies are slow to read."""
    return read_header(path).role in _SERVED


def _created(path: Path) -> int:
    try:
        return int(path.stat().st_mtime)
    except OSError:
        return 0
