"""How log lines may look. Settings know of it, so nothing is imported here."""

from typing import Literal, TypeAlias

LogFormat: TypeAlias = Literal["text", "json"]
LOG_FORMATS: tuple[LogFormat, ...] = ("text", "json")
