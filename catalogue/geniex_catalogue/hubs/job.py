"""What is asked of the download engine, and what it gives back."""

from dataclasses import dataclass
from pathlib import Path

from geniex_catalogue.hubs.contract import Source


@dataclass(frozen=True, slots=True)
class Fetch:
    """A file to fetch into `part`; `size` (bytes) and `sha256` are as the hub states them."""

    name: str
    source: Source
    part: Path
    size: int | None
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file that has arrived whole, with its true size in bytes and sha256."""

    name: str
    path: Path
    size: int
    sha256: str
