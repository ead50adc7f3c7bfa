"""What a folder on this machine holds: GGUF files with their headers, or a compiled bundle."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from geniex_catalogue.bundle_files import BUNDLE_FACTS, are_bundle
from geniex_catalogue.errors import GGUFError, IncompleteShardsError, ModelFileError
from geniex_catalogue.fileset import FileSet, ModelFile, Variant, group
from geniex_catalogue.gguf import read_header
from geniex_catalogue.precision import DEFAULT, label_of
from geniex_catalogue.regular import read_regular

_MAX_JSON = 16 << 20


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder's files, itself and one level below; `damaged` are its unusable GGUFs, and why."""

    path: Path
    files: tuple[ModelFile, ...]
    damaged: tuple[GGUFError, ...]

    @property
    def fileset(self) -> FileSet:
        """The usable files, sorted into variants."""
        return group(self.files)

    def label(self, variant: Variant) -> str:
        """A variant's label: from its name, else the name of this folder, else its header."""
        if variant.labelled:
            return variant.label
        return label_of(f"{self.path.absolute().name}/{variant.name}") or variant.label

    def raise_damage(self, variant: Variant | None = None) -> None:
        """Raise what is wrong with a damaged file: any, or one that `variant` lacks."""
        for error in self.damaged:
            if variant is None or Path(error.path).name in map(_base, variant.missing):
                raise error

    def checked(self, variant: Variant) -> Variant:
        """The variant, if it is whole. Raises IncompleteShardsError, GGUFError."""
        path = str(self.place(variant.files[0]))
        try:
            return variant.checked()
        except IncompleteShardsError as exc:
            raise IncompleteShardsError(path, exc.missing) from exc
        except GGUFError as exc:
            raise GGUFError(path, exc.reason, hint=exc.hint) from exc

    def place(self, file: ModelFile) -> Path:
        """Where a file is; links are kept."""
        return self.path.joinpath(*file.name.split("/"))


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn the system's refusals to read around `path` into ModelFileError."""
    try:
        yield
    except OSError as exc:
        raise ModelFileError(
            f"`{exc.filename or path}` cannot be read: {exc.strerror or exc}",
            hint="check its permissions",
        ) from exc


def is_bundle(folder: Path) -> bool:
    """Whether a folder is a compiled bundle for the Snapdragon NPU, whole or not."""
    return are_bundle({path.name for path in folder.glob("*") if path.is_file()})


@dataclass(frozen=True, slots=True)
class BundleFacts:
    """What a bundle's metadata.json states: its precision, such as `W4A16`, and its kind."""

    precision: str | None = None
    model_type: str = "llm"


def bundle_facts(folder: Path) -> BundleFacts:
    """The facts of a bundle's folder."""
    try:
        return parse_facts(read_regular(folder / BUNDLE_FACTS, _MAX_JSON))
    except OSError:
        # they may be left out; the runtime judges the bundle
        return BundleFacts()


def parse_facts(data: bytes) -> BundleFacts:
    """The facts in a metadata.json; what is not understood is not stated."""
    try:
        facts = json.loads(data)
    except (ValueError, RecursionError):
        return BundleFacts()
    if not isinstance(facts, dict):
        return BundleFacts()
    label = facts.get("precision")
    if not isinstance(label, str) or not (label.isascii() and label.isalnum() and len(label) <= 32):
        label = None
    genie = facts.get("genie")
    vision = isinstance(genie, dict) and genie.get("supports_vision") is True
    return BundleFacts(label.upper() if label else None, "vlm" if vision else "llm")


def scan(folder: Path) -> Folder:
    """Read a folder, the headers of its GGUFs included. Raises OSError."""
    files: list[ModelFile] = []
    damaged: list[GGUFError] = []
    for path in sorted({*folder.glob("*"), *folder.glob("*/*")}):
        # what is no regular file plays no part; a link counts as what it leads to
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            try:
                files.append(_model_file(path, name))
            except GGUFError as exc:
                damaged.append(exc)
    return Folder(folder, tuple(files), tuple(damaged))


def _base(name: str) -> str:
    return name.rpartition("/")[2]


def _model_file(path: Path, name: str) -> ModelFile:
    hidden = any(part.startswith(".") for part in name.split("/"))
    header = read_header(path) if name.lower().endswith(".gguf") and not hidden else None
    size = header.file_size if header is not None else path.stat().st_size
    return ModelFile(name, size, header=header)


def whole_set(path: Path) -> tuple[Folder, Variant]:
    """The variant that a GGUF file is, or is a part of, in its folder; links are kept.

    A file that says it is whole stands for itself, whatever lies beside it. Raises GGUFError,
    IncompleteShardsError, OSError.
    """
    header = read_header(path)
    files = [ModelFile(path.name, header.file_size, header=header)]
    if header.split_count > 1:
        neighbours = [
            ModelFile(found.name, None)
            for found in path.parent.glob("*")
            if found.name.lower().endswith(".gguf") and found.name != path.name
        ]
        parts = _holding(path.name, [*files, *neighbours]).files
        files = [_model_file(path.parent / part.name, part.name) for part in parts]
    folder = Folder(path.parent, tuple(files), ())
    return folder, folder.checked(_holding(path.name, files))


def _holding(name: str, files: list[ModelFile]) -> Variant:
    """The variant of a listing that has a file of that name."""
    found = group(files)
    for variant in (*found.models, *found.drafts, *found.projectors):
        if name in {file.name for file in variant.files}:
            return variant
    # not named .gguf, or of a kind that is no variant: the caller judges its role
    own = next(file for file in files if file.name == name)
    if own.header is None or own.header.split_count == 1:
        role = own.header.role if own.header else "unknown"
        return Variant(DEFAULT, (own,), role, labelled=False)
    problem = f"it is one of {own.header.split_count} parts, but its name does not end with .gguf"
    return Variant(DEFAULT, (own,), own.header.role, labelled=False, problem=problem)
