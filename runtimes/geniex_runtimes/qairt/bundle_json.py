"""The JSON files of a bundle, read with bounds: what is wrong is said by file and by key."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from geniex_catalogue.errors import BundleError
from geniex_catalogue.regular import read_regular

MAX_JSON = 16 << 20
# vocabularies of 262144 tokens take 33 MB
MAX_TOKENIZER = 128 << 20
_MAX_DEPTH = 64
_MAX_TEXT = 1 << 20


class Section:
    """An object of a JSON file, read by key; a wrong type is a BundleError with file and key.

    A key that is missing or null is absent.
    """

    def __init__(self, file: Path, values: Mapping[str, Any], place: str = "") -> None:
        self.file = file
        self.values = values
        self.place = place

    def fault(self, key: str, problem: str, *, hint: str | None = None) -> BundleError:
        """The error for a key."""
        return BundleError(self.file, f"`{self._path(key)}` {problem}", hint=hint)

    def section(self, key: str) -> "Section":
        """An object; an absent one is empty."""
        value = self.values.get(key)
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise self.fault(key, "is not an object")
        return Section(self.file, value, self._path(key))

    def text(self, key: str) -> str | None:
        """A string, or None where it is absent."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or len(value) > _MAX_TEXT:
            raise self.fault(key, "is not text")
        return value

    def whole(self, key: str, low: int, high: int) -> int | None:
        """A whole number from `low` to `high`, or None where it is absent."""
        value = self.values.get(key)
        return None if value is None else self._whole(key, value, low, high)

    def wholes(self, key: str, low: int, high: int) -> tuple[int, ...]:
        """Whole numbers: a list of them, or a single one; empty where absent."""
        value = self.values.get(key)
        if value is None:
            return ()
        many = value if isinstance(value, list) else [value]
        return tuple(self._whole(key, one, low, high) for one in many)

    def number(self, key: str, low: float, high: float) -> float | None:
        """A number from `low` to `high`, or None where it is absent."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fault(key, "is not a number")
        if not low <= value <= high:
            raise self.fault(key, f"is {value!r:.40}, not from {low:g} to {high:g}")
        return float(value)

    def texts(self, key: str, most: int) -> tuple[str, ...]:
        """A list of up to `most` strings; empty where absent."""
        value = self.values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.fault(key, "is not a list of texts")
        if len(value) > most:
            raise self.fault(key, f"has {len(value)} items, more than {most}")
        return tuple(value)

    def _whole(self, key: str, value: object, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fault(key, "is not a whole number")
        if not low <= value <= high:
            raise self.fault(key, f"is {value!r:.40}, not from {low} to {high}")
        return value

    def _path(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key


def read_json(file: Path, limit: int = MAX_JSON) -> Section:
    """The object in a JSON file of up to `limit` bytes. Raises BundleError."""
    return parse_json(file, read_bounded(file, limit))


def read_bounded(file: Path, limit: int) -> bytes:
    """The bytes of a file of up to `limit`, and of one at least. Raises BundleError."""
    try:
        data = read_regular(file, limit + 1)
    except OSError as exc:
        reason = "is missing" if isinstance(exc, FileNotFoundError) else f"cannot be read: {exc}"
        raise BundleError(file, reason) from exc
    if not data:
        raise BundleError(file, "is empty")
    if len(data) > limit:
        raise BundleError(file, f"is larger than {limit >> 20} MiB")
    return data


def parse_json(file: Path, data: bytes) -> Section:
    """The object that `data` is; `file` is named in the BundleError."""
    try:
        value = json.loads(data.decode("utf-8-sig"), parse_constant=_refuse)
    except (ValueError, RecursionError) as exc:
        why = "too deep" if isinstance(exc, RecursionError) else exc
        raise BundleError(file, f"is not JSON: {why}") from exc
    if not isinstance(value, dict):
        raise BundleError(file, "is not a JSON object")
    if _is_deep(value):
        raise BundleError(file, f"is nested deeper than {_MAX_DEPTH} levels")
    return Section(file, value)


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no JSON number")


def _is_deep(value: object) -> bool:
    """Whether a value is nested deeper than is allowed, looked at level by level."""
    level: list[Any] = [value]
    for _ in range(_MAX_DEPTH + 1):
        level = [
            below
            for here in level
            for below in (here.values() if isinstance(here, dict) else here)
            if isinstance(below, dict | list)
        ]
        if not level:
            return False
    return True
