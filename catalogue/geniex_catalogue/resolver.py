"""A name or a path -> the files to run, or exactly what would have to be pulled."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from geniex_catalogue.gguf import GGUFHeader

if TYPE_CHECKING:
    from geniex_catalogue.names import ModelRef


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model whose files are here.

    `name` is the canonical `org/repo:LABEL`, or the path as typed. `path` is the first file (gguf)
    or the bundle's folder (qairt); `files` are all files in order, as they are named on disk
    (links are kept). `size` is bytes of all files. `header` is the joined header of all shards.
    """

    name: str
    ref: "ModelRef | None"
    format: Literal["gguf", "qairt"]
    path: Path
    files: tuple[Path, ...]
    precision: str | None
    size: int
    header: GGUFHeader | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class PullNeeded:
    """A model that is not here; `cached_precisions` are those of it that are."""

    ref: "ModelRef"
    cached_precisions: tuple[str, ...] = ()
