"""A name or a path -> the files to run, or exactly what would have to be pulled."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from geniex_catalogue import names
from geniex_catalogue.encoding import locale_hint
from geniex_catalogue.entries import catalogue
from geniex_catalogue.errors import (
    AmbiguousModelError,
    GGUFError,
    ModelFileError,
    ModelNotFoundError,
    ModelPathError,
    ModelRefError,
    PrecisionNotFoundError,
    RoleError,
    StoreBusyError,
    StoreError,
)
from geniex_catalogue.fileset import FileSet, ModelFile, Variant, group, set_problem
from geniex_catalogue.folder import Folder, bundle_facts, is_bundle, readable, scan, whole_set
from geniex_catalogue.gguf import GGUFHeader, join_shards, read_header
from geniex_catalogue.manifest import FileRecord
from geniex_catalogue.model_lock import busy
from geniex_catalogue.names import ModelRef
from geniex_catalogue.precision import DEFAULT
from geniex_catalogue.regular import read_regular
from geniex_catalogue.store import Store
from geniex_catalogue.stored import StoredModel

Use = Literal["model", "draft"]

# of files that hold a chat template
TEMPLATE_ENDING = ".jinja"
_MAX_TEMPLATE = 1 << 20

_NOT_RUNNABLE = {
    "projector": ("a projector for images or sound", "name the model that it belongs to"),
    "adapter": ("an adapter (LoRA)", "name the model that it was made for"),
    "imatrix": ("an importance matrix, made for quantizing", "name a model"),
    "vocabulary": ("a vocabulary without weights", "name a model"),
    "unknown": ("of no known kind: its header names no architecture", "name a GGUF model"),
}


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model whose files are here.

    `name` is the canonical `org/repo:LABEL`, or the path as typed. `path` is the first file (gguf)
    or the bundle's folder (qairt); `files` are all files in order, as they are named on disk
    (links are kept). `size` is bytes of all files. `header` is the joined header of all shards.
    `chat_template` is one that came beside the model, in the place of its own.
    """

    name: str
    ref: ModelRef | None
    format: Literal["gguf", "qairt"]
    path: Path
    files: tuple[Path, ...]
    precision: str | None
    size: int
    header: GGUFHeader | None = field(default=None, repr=False, compare=False)
    chat_template: str | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class PullNeeded:
    """A model that is not here; `cached_precisions` are those of it that are.

    `folder` is one that is called so and holds no model, which may be what was meant.
    """

    ref: ModelRef
    cached_precisions: tuple[str, ...] = ()
    folder: str = ""

    @property
    def aside(self) -> str:
        """What is to be said of the folder; empty where there is none."""
        return f"folder `{self.folder}` holds no model, so this is a name" if self.folder else ""


def resolve(
    text: str, store: Store, use: Use = "model", *, paths: bool = True
) -> ResolvedModel | PullNeeded:
    """What `text` means: an existing path, else a model of the store, else a built-in one.

    Without `paths` it is a name, whatever the current folder holds. `use` is what it is wanted for:
    a draft is refused as a model. Headers are read, weights are not. Raises ModelRefError,
    ModelNotFoundError (ModelPathError), PrecisionNotFoundError, AmbiguousModelError, GGUFError
    (IncompleteShardsError), RoleError for files that are no such thing, ModelFileError for what
    cannot be read, and StoreError for a damaged model (StoreBusyError while another process changes
    it).
    """
    path = names.local_path(text) if paths else None
    if path is not None:
        with readable(path):
            return _from_path(path, text, use)
    try:
        ref = names.parse(text, catalogue().aliases, paths=paths)
    except (ModelNotFoundError, ModelRefError) as exc:
        if paths and _is_folder(text):  # a folder here, and no name
            raise _no_model(text) from exc
        raise
    stored = store.find(ref)
    if stored is not None and (found := _from_changing_store(stored, ref, use, store)):
        return found
    if (builtin := catalogue().builtin_file(ref)) is not None:
        label, file = builtin
        entry = catalogue().entry(ref)
        exact = names.parse(entry.name if entry else ref.name).with_precision(label)
        return _gguf(str(exact), exact, (file,), label, use)
    cached = stored.precisions if stored is not None else ()
    return PullNeeded(ref, cached, text if paths and _is_folder(text) else "")


def _is_folder(text: str) -> bool:
    try:
        return bool(text.strip()) and Path(text).is_dir()
    except (OSError, ValueError):
        return False


def _from_path(path: Path, text: str, use: Use) -> ResolvedModel:
    if not path.is_dir():
        folder, variant = whole_set(path)
        return _from_variant(folder, variant, text, use)
    if is_bundle(path):
        return _bundle(text, None, path, bundle_facts(path).precision)
    folder = scan(path)
    found = folder.fileset
    fitting = (found.drafts if use == "draft" else ()) or found.runnable
    if len(fitting) > 1:
        candidates = [str(path / variant.name) for variant in fitting]
        raise AmbiguousModelError(text, candidates, hint="give the path of one of these files")
    if not fitting:
        # says what the folder holds instead
        folder.raise_damage()
        try:
            found.choose(None, None, text)
        except ModelNotFoundError as exc:
            raise _no_model(text, exc.hint) from exc
    folder.raise_damage(fitting[0])
    return _from_variant(folder, folder.checked(fitting[0]), text, use)


def _no_model(folder: str, hint: str | None = None) -> ModelPathError:
    return ModelPathError(
        folder,
        problem=f"folder `{folder}` holds no model that can be run",
        hint=hint or "it holds no GGUF model",
    )


def _from_variant(folder: Folder, variant: Variant, text: str, use: Use) -> ResolvedModel:
    paths = tuple(folder.place(file) for file in variant.files)
    label = folder.label(variant)
    headers = [file.header for file in variant.files if file.header is not None]
    return _gguf(text, None, paths, None if label == DEFAULT else label, use, headers)


def _from_changing_store(
    stored: StoredModel, ref: ModelRef, use: Use, store: Store
) -> ResolvedModel | None:
    """`_from_store`, where other processes may pull or remove the model meanwhile."""
    try:
        return _from_store(stored, ref, use)
    except (GGUFError, StoreError, ModelFileError) as exc:
        if (error := busy(stored.folder)) is not None:
            raise error from exc
        if store.find(ref) != stored:
            raise StoreBusyError(
                f"`{ref}` has just been changed or removed by another process", hint="run it again"
            ) from exc
        raise


def _from_store(stored: StoredModel, ref: ModelRef, use: Use) -> ResolvedModel | None:
    """The files of a stored model; None when what `ref` selects would have to be pulled."""
    chosen = _choose(stored, ref)
    if chosen is None:
        return None
    label, records = chosen
    exact = stored.named(label)
    if stored.format == "qairt":
        paths = tuple(stored.path(record) for record in records)
        return _bundle(str(exact), exact, paths[0].parent, label, paths)
    weights = _weights(records)
    paths = tuple(stored.path(record) for record in weights)
    headers = _checked_headers(weights, paths, str(exact))
    found = _gguf(str(exact), exact, paths, label, use, headers)
    return replace(found, chat_template=_template(stored, records))


def _weights(records: Sequence[FileRecord]) -> tuple[FileRecord, ...]:
    """The files of a precision that hold its weights."""
    return tuple(record for record in records if record.name.lower().endswith(".gguf"))


def _template(stored: StoredModel, records: Sequence[FileRecord]) -> str | None:
    """The chat template that came beside a precision, if one did."""
    place = next((stored.path(r) for r in records if r.name.endswith(TEMPLATE_ENDING)), None)
    if place is None:
        return None
    with readable(place):
        data = read_regular(place, _MAX_TEMPLATE + 1)
    text = data.decode("utf-8", errors="replace")
    if len(data) > _MAX_TEMPLATE:
        raise ModelFileError(f"`{place}` is too large for a chat template", hint="pull it again")
    return text if text.strip() else None


def _choose(stored: StoredModel, ref: ModelRef) -> tuple[str, tuple[FileRecord, ...]] | None:
    """What `ref` means of the whole files of a stored model, with its label; None if nothing.

    A file beside the precisions (a draft that came along) is chosen by its name, which is then its
    label.
    """
    variants = {
        label: Variant(label, _model_files(records), "model", parts=len(records))
        for label in stored.precisions
        if (records := _kin(stored, label))
    }
    if ref.file is not None and (extra := stored.extra(ref.file)):
        return extra.name, (extra,)
    try:
        if variants:
            found = FileSet(tuple(variants.values()), (), (), ())
            label = found.choose(ref.precision, ref.file, ref.name).label
            return label, stored.records(label)
    except (PrecisionNotFoundError, ModelNotFoundError):
        if ref.org == names.LOCAL_ORG and stored.reason is None:
            raise
    local = ref.org == names.LOCAL_ORG
    if local or (stored.status == "damaged" and not variants):
        again = "import" if local else "pull"
        hint = f"{again} it again, or remove it with `geniex remove {stored.name}`"
        if stored.manifest and not all(r.name.isascii() for r in stored.manifest.files()):
            hint = locale_hint() or hint
        raise StoreError(f"`{ref}` cannot be used: {stored.reason}", hint=hint)
    return None


def _kin(stored: StoredModel, label: str) -> tuple[FileRecord, ...]:
    """The files of a precision that are loaded together."""
    records = stored.records(label)
    return records if stored.format == "qairt" else _weights(records)


def _model_files(records: Sequence[FileRecord]) -> tuple[ModelFile, ...]:
    return tuple(ModelFile(record.name, record.size) for record in records)


def _checked_headers(
    records: Sequence[FileRecord], paths: Sequence[Path], name: str
) -> list[GGUFHeader]:
    """The headers of all files; raises GGUFError where they are no whole set."""
    headers = [read_header(path) for path in paths]
    files = [
        ModelFile(record.name, record.size, header=header)
        for record, header in zip(records, headers, strict=True)
    ]
    if len(headers) != headers[0].split_count:
        group(files).choose(None, records[0].name, name)
    elif len(files) > 1 and (text := set_problem(dict(enumerate(files, 1)), len(files))):
        raise GGUFError(str(paths[0]), text, hint=f"get all parts of `{name}` again")
    return headers


def _bundle(
    name: str, ref: ModelRef | None, folder: Path, label: str | None, files: tuple[Path, ...] = ()
) -> ResolvedModel:
    with readable(folder):
        found = files or tuple(sorted(path for path in folder.iterdir() if path.is_file()))
        size = sum(path.stat().st_size for path in found)
    return ResolvedModel(name, ref, "qairt", folder, found, label, size)


def _gguf(
    name: str,
    ref: ModelRef | None,
    files: tuple[Path, ...],
    label: str | None,
    use: Use,
    headers: Sequence[GGUFHeader] = (),
) -> ResolvedModel:
    header = join_shards(headers or [read_header(path) for path in files])
    check_role(name, header, use)
    return ResolvedModel(name, ref, "gguf", files[0], files, label, header.file_size or 0, header)


def check_role(name: str, header: GGUFHeader, use: Use) -> None:
    """Refuse what cannot be run, or not as what it is wanted for."""
    if header.role == "draft" and use == "model":
        raise RoleError(
            f"`{name}` is a draft (architecture {header.architecture}), no model of its own",
            hint=f"use it beside its model: `geniex infer MODEL --draft-model {name}`",
        )
    if header.role in _NOT_RUNNABLE:
        what, hint = _NOT_RUNNABLE[header.role]
        raise RoleError(f"`{name}` is {what}, not a model", hint=hint)
