"""`geniex.json`: which files of a model are in its folder, and what they are.

The layout is that of GenieX caches, which stay usable as they are; what is ours besides
(`Sha256`, `Revision`, `Source`, `Precision`, `Path` of a file) their reader skips over:

    Name         "org/repo"
    ModelName    the repository without -GGUF
    ModelType    "llm" | "vlm"
    PluginId     "llama_cpp" | "qairt"
    ModelFile    {PRECISION: file}        the first file of each precision
    MMProjFile   file                     an empty Name means none
    TokenizerFile file
    ExtraFiles   [file]                   further shards, drafts, everything else

    file = {Name, Downloaded, Size} and ours
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Literal, TypeAlias

from geniex_catalogue.errors import ManifestError
from geniex_catalogue.names import is_device
from geniex_catalogue.regular import read_regular

MANIFEST = "geniex.json"
LOCK = ".lock"
HOLDER = ".lock.pid"
INFLIGHT = ".inflight"
LEDGERS = ".ledgers"
# what the manifest is called while a model is removed
REMOVING = ".removing"
# in INFLIGHT while its files are moved to their place
JOURNAL = "moving.json"
MAX_BYTES = 1 << 20

Format: TypeAlias = Literal["gguf", "qairt"]

_FORMATS: dict[str, Format] = {"llama_cpp": "gguf", "qairt": "qairt"}
_PLUGINS: dict[Format, str] = {fmt: plugin for plugin, fmt in _FORMATS.items()}
RESERVED = frozenset({MANIFEST, LOCK, HOLDER, INFLIGHT, LEDGERS, REMOVING})
_KEYS = (
    *("Name", "ModelName", "ModelType", "PluginId", "ModelFile", "MMProjFile", "TokenizerFile"),
    *("ExtraFiles", "Precision", "DeviceId", "MinSDKVersion"),
)
_FILE_KEYS = ("Name", "Downloaded", "Size", "Sha256", "Revision", "Source", "Precision", "Path")


def check_file_name(name: str) -> str:
    """Give the name back if it stays inside a model's folder, on every system.

    Raises ManifestError otherwise.
    """
    path = PurePosixPath(name)
    if any(map(is_device, path.parts)):
        raise ManifestError(
            f"file name {name!a} is the name of a device on Windows", hint="rename the file"
        )
    bad = (
        not path.parts
        or any(character < " " or character == "\\" for character in name)
        or path.is_absolute()
        or PureWindowsPath(name).drive != ""
        or any(part in ("", ".", "..") for part in name.split("/"))
        or path.parts[0].lower() in RESERVED
    )
    if bad:
        raise ManifestError(
            f"file name {name!a} is not allowed in a model's folder",
            hint="names must be relative, without `..`",
        )
    return name


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One file: `name` as in its repository (POSIX, relative to the folder), `size` in bytes.

    `precision` says which precision an extra file belongs to (a shard); `place` is the absolute
    path of a file that stays where the user has it.
    """

    name: str
    size: int = 0
    downloaded: bool = True
    sha256: str | None = None
    revision: str | None = None
    source: str | None = None
    precision: str | None = None
    place: Path | None = None
    other: Mapping[str, Any] = field(default_factory=dict, hash=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        """The file as it stands in the manifest; what is not known is left out."""
        ours = {
            "Sha256": self.sha256,
            "Revision": self.revision,
            "Source": self.source,
            "Precision": self.precision,
            "Path": str(self.place) if self.place else None,
        }
        known = {"Name": self.name, "Downloaded": self.downloaded, "Size": self.size}
        return {**self.other, **known, **{key: value for key, value in ours.items() if value}}


@dataclass(frozen=True, slots=True)
class Manifest:
    """A model's files; immutable, so a change is a new manifest."""

    name: str
    format: Format
    models: Mapping[str, FileRecord] = field(default_factory=dict, hash=False)
    extras: tuple[FileRecord, ...] = ()
    projector: FileRecord | None = None
    tokenizer: FileRecord | None = None
    model_name: str = ""
    model_type: str = "llm"
    other: Mapping[str, Any] = field(default_factory=dict, hash=False, compare=False)

    def files(self) -> Iterator[FileRecord]:
        """All files, entry points first; one that stands in two places comes once."""
        seen: set[str] = set()
        single = (self.projector, self.tokenizer)
        for record in (*self.models.values(), *self.extras, *single):
            if record is not None and record.name not in seen:
                seen.add(record.name)
                yield record

    def merged(self, newer: "Manifest") -> "Manifest":
        """This manifest with the files of `newer` in place of its own of the same name."""
        names = {record.name for record in newer.files()}
        kept = tuple(record for record in self.extras if record.name not in names)
        models = {
            label: record for label, record in self.models.items() if record.name not in names
        }
        return replace(
            self,
            models={**models, **newer.models},
            extras=kept + newer.extras,
            projector=newer.projector or self.projector,
            tokenizer=newer.tokenizer or self.tokenizer,
            other={**self.other, **newer.other},
        )

    def mapped(self, change: Callable[[FileRecord], FileRecord]) -> "Manifest":
        """This manifest with `change` applied to every file."""
        return replace(
            self,
            models={label: change(record) for label, record in self.models.items()},
            extras=tuple(map(change, self.extras)),
            projector=change(self.projector) if self.projector else None,
            tokenizer=change(self.tokenizer) if self.tokenizer else None,
        )

    def present(self) -> "Manifest":
        """This manifest without the files beside the precisions that are not downloaded."""
        projector, tokenizer = self.projector, self.tokenizer
        return replace(
            self,
            extras=tuple(record for record in self.extras if record.downloaded),
            projector=projector if projector and projector.downloaded else None,
            tokenizer=tokenizer if tokenizer and tokenizer.downloaded else None,
        )

    def to_json(self) -> str:
        """The text of the file."""
        empty = FileRecord("", 0, downloaded=False)
        name = self.model_name or self.name.split("/")[-1].removesuffix("-GGUF")
        document = {
            **self.other,
            "Name": self.name,
            "ModelName": name.removesuffix("-gguf"),
            "ModelType": self.model_type,
            "PluginId": _PLUGINS[self.format],
            "ModelFile": {label: record.to_json() for label, record in self.models.items()},
            "MMProjFile": (self.projector or empty).to_json(),
            "TokenizerFile": (self.tokenizer or empty).to_json(),
            "ExtraFiles": [record.to_json() for record in self.extras],
        }
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def read(path: Path) -> Manifest:
    """The manifest in a file. Raises ManifestError (unusable), FileNotFoundError (none there)."""
    try:
        data = read_regular(path, MAX_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise ManifestError(f"`{path}` cannot be read: {exc.strerror or exc}") from exc
    if len(data) > MAX_BYTES:
        raise ManifestError(f"`{path}` is larger than 1 MiB")
    try:
        return parse(data)
    except ManifestError as exc:
        raise ManifestError(f"`{path}` is damaged: {exc.message}", hint=exc.hint) from exc


def parse(data: bytes) -> Manifest:
    """A manifest from its bytes, theirs or ours. Raises ManifestError."""
    try:
        document = json.loads(data)
        # half a surrogate pair is valid JSON, but no file name and not printable
        json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as exc:
        raise ManifestError("it is not JSON" if data.strip() else "it is empty") from exc
    top = _Object(document, "it")
    plugin = top.text("PluginId") or "llama_cpp"
    if plugin not in _FORMATS:
        raise ManifestError(f"PluginId `{plugin}` is not known here")
    models = {
        label: _required(_Object(value, f"ModelFile `{label}`"))
        for label, value in top.object("ModelFile").items()
        if value is not None
    }
    older = top.text("Precision")
    if plugin == "qairt" and older and list(models) == ["N/A"]:
        models = {older: models["N/A"]}
    extras = top.values.get("ExtraFiles") or []
    if not isinstance(extras, list):
        raise ManifestError("ExtraFiles is not a list")
    records = (_file(_Object(value or {}, "a file of ExtraFiles")) for value in extras)
    return Manifest(
        name=top.text("Name"),
        format=_FORMATS[plugin],
        models=models,
        extras=tuple(record for record in records if record is not None),
        projector=_file(_Object(top.values.get("MMProjFile") or {}, "MMProjFile")),
        tokenizer=_file(_Object(top.values.get("TokenizerFile") or {}, "TokenizerFile")),
        model_name=top.text("ModelName"),
        model_type=top.text("ModelType") or "llm",
        other=top.rest(_KEYS),
    )


class _Object:
    """A JSON object read key by key; null counts as absent."""

    def __init__(self, values: object, what: str) -> None:
        if not isinstance(values, dict):
            raise ManifestError(f"{what} is not a JSON object")
        self.values: dict[str, Any] = values
        self.what = what

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise ManifestError(f"{key} of {self.what} is not text")
        return value or ""

    def size(self, key: str) -> int:
        value = self.values.get(key) or 0
        if not isinstance(value, int) or not 0 <= value < 1 << 63:
            raise ManifestError(f"{key} of {self.what} is not a size")
        return int(value)

    def object(self, key: str) -> dict[str, Any]:
        return _Object(self.values.get(key) or {}, key).values

    def rest(self, known: tuple[str, ...]) -> dict[str, Any]:
        return {key: value for key, value in self.values.items() if key not in known}


def _required(values: _Object) -> FileRecord:
    record = _file(values)
    if record is None:
        raise ManifestError(f"{values.what} has no Name")
    return record


def _file(values: _Object) -> FileRecord | None:
    """A file's record; None for an empty name, which stands for no file."""
    name = values.text("Name")
    if not name:
        return None
    place = Path(values.text("Path")) if values.text("Path") else None
    if place is not None and not place.is_absolute():
        raise ManifestError(f"Path of {values.what} is not absolute")
    return FileRecord(
        name=check_file_name(name),
        size=values.size("Size"),
        # null is tolerated and means what an absent flag means to their writer: not there yet
        downloaded=values.values.get("Downloaded") is True,
        sha256=values.text("Sha256") or None,
        revision=values.text("Revision") or None,
        source=values.text("Source") or None,
        precision=values.text("Precision") or None,
        place=place,
        other=values.rest(_FILE_KEYS),
    )
