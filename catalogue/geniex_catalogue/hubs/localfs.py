"""Models that are on this machine: a GGUF file, a folder, a bundle or a zip, into the store."""

from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from geniex_catalogue import precision
from geniex_catalogue.bundle_files import BUNDLE_CONFIG, BUNDLE_FACTS
from geniex_catalogue.encoding import locale_hint
from geniex_catalogue.entries import catalogue
from geniex_catalogue.errors import BundleError, ModelPathError, UsageError
from geniex_catalogue.fileset import FileSet, ModelFile, Variant
from geniex_catalogue.folder import (
    BundleFacts,
    Folder,
    bundle_facts,
    is_bundle,
    parse_facts,
    readable,
    scan,
    whole_set,
)
from geniex_catalogue.gguf import read_header
from geniex_catalogue.hubs.archive import Archive, is_archive
from geniex_catalogue.hubs.contract import Progress
from geniex_catalogue.hubs.placing import Check, Sources, copied, linked, place
from geniex_catalogue.manifest import MANIFEST, FileRecord, Manifest, check_file_name
from geniex_catalogue.manifest import read as read_manifest
from geniex_catalogue.model_lock import OnWait
from geniex_catalogue.names import ModelRef, storable
from geniex_catalogue.resolver import check_role
from geniex_catalogue.store import Store
from geniex_catalogue.stored import StoredModel, place_of, records_of, without

Mode: TypeAlias = Literal["copy", "link", "in_place"]

HUB = "localfs"
_BUNDLE: Literal["qairt"] = "qairt"
_NO_BUNDLE_PRECISION = "N/A"
_MAX_FACTS = 16 << 20
_WEIGHTS_OF_OTHERS = (".bin", ".pt", ".pth", ".onnx")
_LAYOUTS = (
    "give a .gguf file, a folder with .gguf files, a bundle (metadata.json and .bin files), "
    "or a zip of one of these"
)


def import_path(
    ref: ModelRef,
    path: Path,
    store: Store,
    mode: Mode = "copy",
    *,
    progress: Progress | None = None,
    on_wait: OnWait | None = None,
    check: Check | None = None,
) -> StoredModel:
    """Put a model of this machine into the store as `ref`; a selector in `ref` takes that alone.

    `path` is a GGUF file (any part of a split one), a folder or a zip. `link` makes hard links,
    `in_place` leaves the files where they are; neither works for a zip. All headers are checked
    before anything is written, and a stopped import leaves nothing. `check` is given the folder
    with the files of a compiled bundle before it is published; what it raises stops it. Raises
    ModelPathError, UsageError (no model there, or not in this mode), ModelFileError, GGUFError,
    IncompleteShardsError, PrecisionNotFoundError, LoadError, ManifestError, DiskSpaceError,
    StoreError.
    """
    if catalogue().is_reserved(ref):
        raise UsageError(
            f"`{ref}` would take the place of a model that is built in",
            hint=f"give it a name of your own, like `local/{ref.repo}`",
        )
    with readable(path):
        if not path.exists():
            raise ModelPathError(str(path))
        archived = not path.is_dir() and is_archive(path)
    if archived:
        if mode != "copy":
            raise UsageError(
                f"`{path}` is a zip, which has to be unpacked",
                hint="leave out `--link` and `--in-place`",
            )
        with Archive(path) as archive:
            manifest = _of_archive(ref, archive)
            check = check if manifest.format == _BUNDLE else None
            return place(ref, store, manifest, archive.extract, progress, on_wait, check=check)
    with readable(path):
        manifest, sources = _of_folder(ref, path) if path.is_dir() else _of_file(ref, path)
    check = check if manifest.format == _BUNDLE else None
    if mode == "in_place":
        if check is not None:
            check(sources[next(iter(manifest.models.values())).name].parent)
        return _keep(ref, store, manifest, sources, on_wait)
    put = linked(sources) if mode == "link" else copied(sources)
    copies = mode == "copy"
    return place(ref, store, manifest, put, progress, on_wait, copies=copies, check=check)


def _keep(
    ref: ModelRef, store: Store, manifest: Manifest, sources: Sources, on_wait: OnWait | None
) -> StoredModel:
    """Publish a manifest that points to the files where they are."""
    for source in sources.values():
        if source.resolve().is_relative_to(store.models.resolve()):
            raise UsageError(f"`{source}` is in the store already", hint="copy or link it")
        if not _is_text(source.absolute()):
            raise UsageError(
                f"`{source}` has a name that is not UTF-8, which cannot be noted",
                hint=locale_hint() or "leave out `--in-place`, or rename it",
            )

    def placed(record: FileRecord) -> FileRecord:
        # made absolute, but links are kept: what they point to may have a name that says nothing
        return replace(record, place=sources[record.name].absolute())

    with store.lock(ref, on_wait):
        store.stage(ref, manifest)
        try:
            return store.publish(ref, manifest.mapped(placed))
        except BaseException:
            store.unstage(ref)
            raise


def _of_file(ref: ModelRef, path: Path) -> tuple[Manifest, Sources]:
    folder, variant = whole_set(path)
    if not path.name.lower().endswith(".gguf"):
        raise UsageError(
            f"`{path}` is a GGUF file whose name does not end with .gguf", hint="rename it"
        )
    manifest = _of_listing(ref, folder)
    return manifest, {storable(file.name): folder.place(file) for file in variant.files}


def _of_folder(ref: ModelRef, path: Path) -> tuple[Manifest, Sources]:
    if (path / MANIFEST).is_file():
        return _of_shipped(ref, path)
    folder = scan(path)
    if is_bundle(path):
        # a bundle is flat
        files = [f for f in folder.files if "/" not in f.name and not f.name.startswith(".")]
        manifest = _bundle(ref, files, bundle_facts(path), path)
    else:
        manifest = _of_listing(ref, folder)
    return manifest, {record.name: _source(folder, record.name) for record in manifest.files()}


def _source(folder: Folder, name: str) -> Path:
    """The one file of a folder that is stored under that name."""
    found = [file for file in folder.files if storable(file.name) == name]
    if len(found) > 1:
        both = " and ".join(f"`{file.name}`" for file in found)
        raise UsageError(f"{both} would both be stored as `{name}`", hint="rename one of them")
    return folder.place(found[0])


def _is_text(path: Path) -> bool:
    """Whether a path can be written as UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _of_archive(ref: ModelRef, archive: Archive) -> Manifest:
    sizes = {name: member.file_size for name, member in archive.members.items()}
    if archive.is_bundle:
        facts = BundleFacts()
        if BUNDLE_FACTS in sizes:
            facts = parse_facts(archive.read(BUNDLE_FACTS, _MAX_FACTS))
        files = [ModelFile(name, size) for name, size in sizes.items()]
        return _bundle(ref, files, facts, archive.path)
    files = [
        ModelFile(
            name, size, header=archive.header(name) if name.lower().endswith(".gguf") else None
        )
        for name, size in sizes.items()
    ]
    return _of_listing(ref, Folder(archive.path.with_suffix(""), tuple(files), ()), archive.path)


def _of_listing(ref: ModelRef, folder: Folder, source: Path | None = None) -> Manifest:
    """The manifest of what `ref` selects of a folder's files, or of all that can be run.

    `source` is what the user named, where that is not the folder.
    """
    found = folder.fileset
    if not found.runnable:
        folder.raise_damage()
        raise _nothing(source or folder.path, folder, found)
    chosen = _chosen(ref, folder, found)
    if ref.selector is None:
        folder.raise_damage()
    models, extras = {}, []
    for label, variant in chosen.items():
        folder.raise_damage(variant)
        first, *rest = (_record(file, label) for file in folder.checked(variant).files)
        models[label] = first
        extras += rest
    if ref.selector is None and found.models:
        extras += [_record(file) for draft in found.drafts for file in folder.checked(draft).files]
    projector = _record(found.projectors[0].files[0]) if found.projectors else None
    return Manifest(
        ref.name,
        "gguf",
        models,
        tuple(extras),
        projector=projector if ref.selector is None else None,
        model_type="vlm" if projector else "llm",
    )


def _chosen(ref: ModelRef, folder: Folder, found: FileSet) -> dict[str, Variant]:
    """What `ref` selects, by label; variants that share a label go by their file names."""
    labelled: dict[str, Variant] = {}
    for key, variant in zip(found.selectors(), found.runnable, strict=True):
        label = folder.label(variant) if key == variant.label else storable(key)
        labelled[label if label not in labelled else storable(variant.name)] = variant
    if ref.file is not None:
        wanted = found.choose(None, ref.file, ref.name)
        if (header := wanted.files[0].header) is not None:
            check_role(str(folder.place(wanted.files[0])), header, "draft")
        return {next((k for k, v in labelled.items() if v == wanted), wanted.name): wanted}
    if ref.precision is None:
        return labelled
    if len(labelled) == 1 and not found.runnable[0].labelled:
        # its name says nothing, so the user does
        return {ref.precision: found.runnable[0]}
    label = precision.require(ref.name, ref.precision, labelled)
    return {label: labelled[label]}


def _record(file: ModelFile, label: str | None = None) -> FileRecord:
    name = check_file_name(storable(file.name))
    return FileRecord(name, file.size or 0, sha256=file.sha256, source=HUB, precision=label)


def _bundle(ref: ModelRef, files: list[ModelFile], facts: BundleFacts, origin: Path) -> Manifest:
    """A compiled bundle: all its files, the first .bin as the entry point.

    Raises BundleError for one without any; `origin` is its folder or zip.
    """
    stated = facts.precision
    if ref.precision is not None and stated not in (None, ref.precision):
        precision.require(ref.name, ref.precision, [stated] if stated else [])
    label = stated or ref.precision or _NO_BUNDLE_PRECISION
    if odd := next((file.name for file in files if storable(file.name) != file.name), None):
        # the files of a bundle call each other by name
        raise UsageError(
            f"file {odd!a} of the bundle has a name that not every file system takes",
            hint="rename it, and where the other files name it",
        )
    records = [_record(file, label) for file in sorted(files, key=lambda file: file.name)]
    entry = next((record for record in records if record.name.endswith(".bin")), None)
    if entry is None:
        raise BundleError(
            origin,
            f"is a bundle without its context binaries, the .bin files that {BUNDLE_CONFIG} names",
            hint="nothing was stored; get the bundle anew from where it came from",
        )
    others = tuple(record for record in records if record is not entry)
    return Manifest(ref.name, _BUNDLE, {label: entry}, others, model_type=facts.model_type)


def _of_shipped(ref: ModelRef, path: Path) -> tuple[Manifest, Sources]:
    """A folder that brings its own geniex.json: what that lists, under the new name."""
    shipped = read_manifest(path / MANIFEST)
    for label in list(shipped.models):
        if not all(record.downloaded for record in records_of(shipped, label)):
            shipped = without(shipped, label)
    if ref.selector is not None:
        wanted = precision.require(ref.name, ref.selector, shipped.models)
        for label in set(shipped.models) - {wanted}:
            shipped = without(shipped, label)
    if not shipped.models:
        raise UsageError(f"the {MANIFEST} in `{path}` lists no model", hint=_LAYOUTS)
    shipped = shipped.present()
    sources = {record.name: place_of(path, record) for record in shipped.files()}
    for record in shipped.files():
        source = sources[record.name]
        if not source.is_file() or record.size not in (0, source.stat().st_size):
            raise UsageError(
                f"`{source}` is missing or of another size than the {MANIFEST} beside it says",
                hint=f"restore it, or delete that {MANIFEST}",
            )
        if record.name.lower().endswith(".gguf"):
            read_header(source)

    def ours(record: FileRecord) -> FileRecord:
        size = sources[record.name].stat().st_size
        return replace(record, place=None, source=HUB, size=size)

    return replace(shipped, name=ref.name, model_name="").mapped(ours), sources


def _nothing(source: Path, folder: Folder, found: FileSet) -> Exception:
    """Why there is no model in `source`; for a file that is something else, LoadError."""
    for file in (*(f for v in found.projectors for f in v.files), *found.others):
        if file.header is not None:
            check_role(str(folder.place(file)), file.header, "draft")
    names = [file.name.lower() for file in found.others]
    if any(name.endswith(".safetensors") for name in names):
        return UsageError(
            f"`{source}` looks like a Hugging Face safetensors snapshot, which cannot be run",
            hint="get the model as GGUF, or convert it with llama.cpp's convert_hf_to_gguf.py",
        )
    if any(name.endswith(_WEIGHTS_OF_OTHERS) for name in names):
        return UsageError(
            f"`{source}` holds weights for other programs, and no GGUF", hint=_LAYOUTS
        )
    return UsageError(f"there is no model in `{source}`", hint=_LAYOUTS)
