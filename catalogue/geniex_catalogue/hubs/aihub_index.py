"""What the documents of an AI Hub release say: its models, their bundles, and its chipsets.

A release has `manifest.json` (models), `platform.json` (chipsets) and for each model a document of
assets. They are JSON forms of protocol buffers: a field with its default value may be left out, and
a number may be written as text.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from geniex_catalogue.errors import HubError
from geniex_catalogue.hubs.chipsets import KnownChipset, Platform

# what geniex can run, the better one first
RUNTIMES = ("RUNTIME_GENIEX_QAIRT", "RUNTIME_GENIE")
_DOMAINS = frozenset({"MODEL_DOMAIN_GENERATIVE_AI", "MODEL_DOMAIN_MULTIMODAL"})


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model of a release; `assets_url` is empty where its licence does not let it be given out.

    `name` is the one that people know, `id` the one in addresses. `chipsets` are names of those
    that it was compiled for.
    """

    id: str
    name: str
    domain: str = ""
    assets_url: str = ""
    runtimes: tuple[str, ...] = ()
    chipsets: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def is_language_model(self) -> bool:
        """Whether it is of a kind that geniex could run."""
        return self.domain in _DOMAINS

    @property
    def has_bundle(self) -> bool:
        """Whether it says to be there as a bundle; where it says nothing, its assets tell."""
        return not self.runtimes or any(runtime in RUNTIMES for runtime in self.runtimes)

    @property
    def type(self) -> str:
        """`vlm` where it sees, else `llm`."""
        sees = self.domain == "MODEL_DOMAIN_MULTIMODAL" or "MODEL_TAG_VLM" in self.tags
        return "vlm" if sees else "llm"


@dataclass(frozen=True, slots=True)
class Asset:
    """A bundle of a model for one chipset, as a zip at `url`; `precision` such as `W4A16`."""

    chipset: str
    runtime: str
    precision: str
    url: str


@dataclass(frozen=True, slots=True)
class Index:
    """The models of a release; `version` is empty where it does not say."""

    version: str
    models: tuple[HubModel, ...]


def read_index(data: bytes) -> Index:
    """The models in a `manifest.json`. Raises HubError."""
    top = _Fields.of(data, "manifest.json")
    models = tuple(_model(entry) for entry in top.entries("models"))
    return Index(top.text("version"), tuple(model for model in models if model.id))


def read_platform(data: bytes) -> Platform:
    """The chipsets in a `platform.json`. Raises HubError."""
    top = _Fields.of(data, "platform.json")
    chipsets = (
        KnownChipset(
            entry.text("name"),
            entry.text("reference_device"),
            entry.texts("aliases"),
            entry.number("htp_version"),
            entry.number("soc_model"),
        )
        for entry in top.entries("chipsets")
    )
    return Platform(tuple(chipset for chipset in chipsets if chipset.name))


def read_assets(data: bytes) -> tuple[Asset, ...]:
    """The bundles in a model's document of assets, those for other programs too. Raises HubError.

    What has no address or is for no one chipset is no bundle, and is left out.
    """
    top = _Fields.of(data, "its list of assets")
    assets = (
        Asset(
            entry.text("chipset"),
            entry.text("runtime"),
            entry.text("precision").removeprefix("PRECISION_").upper(),
            entry.text("download_url"),
        )
        for entry in top.entries("assets")
    )
    return tuple(a for a in assets if a.chipset and a.url and a.runtime and a.precision)


def _model(entry: "_Fields") -> HubModel:
    name = entry.text("display_name")
    ident = entry.text("id")
    return HubModel(
        id=ident or name,
        name=name or ident,
        domain=entry.text("domain"),
        assets_url=entry.inner("manifest_urls").text("release_assets"),
        runtimes=entry.texts("supported_runtimes"),
        chipsets=entry.texts("supported_chipsets"),
        tags=entry.texts("tags"),
    )


class _Fields:
    """A JSON object, read field by field; null counts as absent."""

    def __init__(self, values: Mapping[str, Any], what: str) -> None:
        self._values = values
        self._what = what

    @classmethod
    def of(cls, data: bytes, what: str) -> "_Fields":
        try:
            values = json.loads(data)
        except (ValueError, RecursionError) as exc:
            raise _unusable(what, "it is not JSON") from exc
        if not isinstance(values, dict):
            raise _unusable(what, "it is not a JSON object")
        return cls(values, what)

    def text(self, key: str) -> str:
        value = self._values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise _unusable(self._what, f"`{key}` is not text")
        return value.strip()

    def texts(self, key: str) -> tuple[str, ...]:
        values = self._list(key)
        if not all(isinstance(value, str) for value in values):
            raise _unusable(self._what, f"`{key}` is not a list of texts")
        return tuple(values)

    def number(self, key: str) -> int | None:
        value = self._values.get(key)
        text = value if isinstance(value, str) else str(value)
        return int(text) if text.isdecimal() and text.isascii() and len(text) < 16 else None

    def inner(self, key: str) -> "_Fields":
        value = self._values.get(key) or {}
        if not isinstance(value, dict):
            raise _unusable(self._what, f"`{key}` is not an object")
        return _Fields(value, self._what)

    def entries(self, key: str) -> Iterator["_Fields"]:
        for value in self._list(key):
            if not isinstance(value, dict):
                raise _unusable(self._what, f"`{key}` is not a list of objects")
            yield _Fields(value, self._what)

    def _list(self, key: str) -> list[Any]:
        values = self._values.get(key) or []
        if not isinstance(values, list):
            raise _unusable(self._what, f"`{key}` is not a list")
        return values


def _unusable(what: str, why: str) -> HubError:
    return HubError(
        f"the AI Hub's {what} cannot be used: {why}",
        hint="a log-in page of the network, or a wrong GENIEX_AIHUBBASEURL?",
    )
