"""What a hub is, what it lists, and how the progress of a transfer is told."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from geniex_catalogue.fileset import ModelFile
from geniex_catalogue.gguf import GGUFHeader
from geniex_catalogue.manifest import Format
from geniex_catalogue.names import ModelRef


class Progress(Protocol):
    """Told what a transfer does, always from the thread that called for it.

    A file that has to begin again is started again. Raising from any of these stops the transfer;
    what has arrived is kept.
    """

    def start(self, file: str, total: int | None, present: int) -> None:
        """A file begins: `total` bytes (None: unknown), of which `present` are already here."""
        ...

    def advance(self, file: str, count: int) -> None:
        """`count` more bytes of the file have arrived."""
        ...

    def retry(self, file: str, reason: str, wait: float) -> None:
        """The transfer broke for `reason` and goes on in `wait` seconds."""
        ...

    def finish(self, file: str) -> None:
        """The file is whole, and its bytes are what the hub states."""
        ...


@dataclass(frozen=True, slots=True)
class Source:
    """Where one file's bytes are: an address, and headers for that address's own host only.

    `first` and `length` are a window of bytes, for a file that lies inside another: a member that
    an archive stores as it is. `length` None: all from `first` on.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    first: int = 0
    length: int | None = None

    @property
    def is_window(self) -> bool:
        """Whether the file is only some of what lies at the address."""
        return self.first > 0 or self.length is not None


@dataclass(frozen=True, slots=True)
class Packing:
    """What a file is once it is out of its archive: `size` in bytes, and its CRC-32."""

    size: int
    crc32: int
    deflated: bool


@dataclass(frozen=True, slots=True)
class Item:
    """A file of a delivery: `size` is bytes to fetch, `packing` what becomes of them."""

    name: str
    source: Source
    size: int | None
    sha256: str | None = None
    packing: Packing | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a hub that chooses by itself has for a name and a machine.

    `label` is the precision to store it under, `items[0]` the file to load. `notes` are for the
    user's eyes: why it was this one.
    """

    hub: str
    label: str
    revision: str
    format: Format
    items: tuple[Item, ...]
    model_type: str = "llm"
    notes: tuple[str, ...] = ()

    @property
    def unpacked(self) -> int:
        """Bytes of room that unpacking takes beside what is fetched."""
        packings = (item.packing for item in self.items)
        return sum(packing.size for packing in packings if packing and packing.deflated)


@dataclass(frozen=True, slots=True)
class Machine:
    """What a hub must know of a machine to choose for it: its chipset and HTP architecture."""

    chipset: str | None = None
    htp_arch: int | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """A repository at one moment: `revision` is the commit that every read is pinned to."""

    repo: str
    revision: str
    files: tuple[ModelFile, ...]


class Hub(Protocol):
    """A place that models are fetched from."""

    name: str

    def list(self, ref: ModelRef, revision: str | None) -> Listing:
        """The files of a model's repository. Raises a HubError."""
        ...

    def source(self, listing: Listing, file: ModelFile) -> Source:
        """Where a listed file's bytes are."""
        ...

    def header(self, listing: Listing, file: ModelFile) -> GGUFHeader:
        """The header of a listed GGUF, read by ranges.

        Raises GGUFError, HubError or TransferError.
        """
        ...
