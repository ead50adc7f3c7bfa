"""The documents of an AI Hub release: fetched, and kept on disk for an hour."""

import hashlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import urljoin, urlsplit

from geniex_catalogue import durable
from geniex_catalogue.errors import HubError, HubOfflineError, TransferError, UsageError
from geniex_catalogue.hubs.aihub_index import (
    Asset,
    HubModel,
    Index,
    read_assets,
    read_index,
    read_platform,
)
from geniex_catalogue.hubs.chipsets import Platform
from geniex_catalogue.hubs.documents import fetch_document
from geniex_catalogue.hubs.web import AI_HUB, Patience, address_from
from geniex_catalogue.offline import require_network
from geniex_catalogue.regular import read_regular

T = TypeVar("T")

LATEST = "latest"
# a release that is known to be there and to be readable
KNOWN = "v0.60.0"
KEPT = 3600.0  # seconds
_MAX_BYTES = 32 << 20
_VERSION = re.compile(r"v?\d+(\.\d+){1,3}[\w.+-]*", re.ASCII)


def base_address() -> str:
    """Where releases are: GENIEX_AIHUBBASEURL, else the AI Hub itself. Raises UsageError."""
    return address_from("GENIEX_AIHUBBASEURL", AI_HUB, "address", "the AI Hub itself")


def version_wanted(asked: str | None = None) -> str:
    """The release to read: the one asked for, GENIEX_AIHUBVERSION, else the latest."""
    text = (asked or os.environ.get("GENIEX_AIHUBVERSION") or LATEST).strip()
    if text.lower() == LATEST:
        return LATEST
    if not _VERSION.fullmatch(text):
        raise UsageError(
            f"`{text}` is no release of the AI Hub", hint=f"one looks like `{KNOWN}`, or `{LATEST}`"
        )
    return text if text.startswith("v") else f"v{text}"


class Release:
    """One release, below `folder` in the cache.

    Where `latest` cannot be had, the release is a known older one. `notes` gather what the user
    should know of that: an older release, or lists from the cache while there is no network.
    """

    def __init__(
        self,
        folder: Path,
        *,
        version: str | None = None,
        offline: bool = False,
        patience: Patience | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.base = base_address()
        self.version = version_wanted(version)
        self.notes: list[str] = []
        self._folder = folder
        self._offline = offline
        self._patience = patience
        self._clock = clock
        self._index: Index | None = None
        self._platform: Platform | None = None

    def index(self) -> Index:
        """The models. Raises HubError, TransferError."""
        if self._index is None:
            self._index = self._read_index()
        return self._index

    def platform(self) -> Platform:
        """The chipsets. Raises HubError, TransferError."""
        if self._platform is None:
            self.index()
            name = "platform.json"
            self._platform = self._document(self._address(name), name, read_platform)
        return self._platform

    def assets(self, model: HubModel) -> tuple[Asset, ...]:
        """The bundles of a model. Raises HubError, TransferError."""
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", model.id)[:100]
        address = urljoin(self._address(""), model.assets_url)
        return self._document(address, f"assets-{name}.json", read_assets)

    def _read_index(self) -> Index:
        name = "manifest.json"
        try:
            return self._document(self._address(name), name, read_index)
        except HubOfflineError:
            raise
        except (HubError, TransferError) as exc:
            if self.version != LATEST:
                raise
            self.version = KNOWN
            index = self._document(self._address(name), name, read_index)
            self.notes.append(f"{exc.message}; using the release {KNOWN} of the AI Hub")
            return index

    def _address(self, name: str) -> str:
        return f"{self.base}/releases/{self.version}/{name}"

    def _document(self, address: str, name: str, read: Callable[[bytes], T]) -> T:
        """What a document says, from the cache or its address; an old one without a network."""
        place = self._place(address, name)
        age = self._age(place)
        kept = _kept(place, read) if age is not None else None
        if kept is not None and age is not None and 0 <= age < KEPT:
            return kept
        try:
            require_network(f"the AI Hub's {name} is not here", self._offline, instead="")
            data = fetch_document(address, f"the AI Hub's {name}", patience=self._patience)
        except (HubOfflineError, TransferError):
            if kept is None:
                raise
            self._note_age(age or 0.0)
            return kept
        found = read(data)
        _keep(place, data)
        return found

    def _place(self, address: str, name: str) -> Path:
        """Where a document is kept: by where releases are, and which one it is of."""
        place = re.sub(r"[^A-Za-z0-9.-]", "_", urlsplit(self.base).netloc)[:40]
        digest = hashlib.sha256(f"{self.base}\n{address}".encode()).hexdigest()[:12]
        return self._folder / place / self.version / f"{digest}-{name}"

    def _age(self, path: Path) -> float | None:
        """Seconds since a document was fetched; None where it is not here."""
        try:
            return self._clock() - path.stat().st_mtime
        except OSError:
            return None

    def _note_age(self, age: float) -> None:
        when = f"{age / 86400:.0f} days" if age >= 2 * 86400 else f"{age / 3600:.0f} hours"
        text = f"the AI Hub cannot be reached; its lists are from {when} ago"
        if text not in self.notes:
            self.notes.append(text)


def _kept(path: Path, read: Callable[[bytes], T]) -> T | None:
    """What a kept document says; None for one that is not here, or is spoilt."""
    try:
        return read(read_regular(path, _MAX_BYTES))
    except (OSError, HubError):
        return None


def _keep(path: Path, data: bytes) -> None:
    """Keep a document; that it cannot be kept costs no more than the next fetch."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        durable.write(path, data)
    except OSError:
        return
