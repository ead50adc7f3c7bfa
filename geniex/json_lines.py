"""Log lines as JSON: one object a line, whatever is in it.

Keys: `time` (ISO 8601, UTC), `level` (`error`, `warning`, `info`, `debug`), `logger`, `message`,
`request_id` where there is a request, then the fields of the line, and `traceback` for an error
that nobody foresaw. All of it is ASCII, with `\\n` and other letters escaped.
"""

import logging
import math
from typing import Any

from pythonjsonlogger.json import JsonFormatter

from geniex.log_lines import request_id

_FIRST = ("time", "level", "logger", "message", "request_id")
_LAST = "traceback"


class JsonLines(JsonFormatter):
    """Formats a record as one object on one line."""

    def __init__(self) -> None:
        super().__init__(
            ("levelname", "name", "message"),
            rename_fields={"levelname": "level", "name": "logger", "exc_info": _LAST},
            timestamp="time",
        )

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        """The object, in the order of the module's text."""
        found = {**log_data, "level": str(log_data.get("level", "")).lower()}
        if (name := request_id.get()) is not None:
            found["request_id"] = name
        found |= found.pop("fields", {})
        last = {_LAST: found.pop(_LAST)} if _LAST in found else {}
        ordered = {key: found.pop(key) for key in _FIRST if key in found}
        return {key: _finite(value) for key, value in {**ordered, **found, **last}.items()}


def line_of(level: int, logger: str, message: str, **fields: object) -> str:
    """A line that no logger has sent."""
    record = logging.LogRecord(logger, level, "", 0, "%s", (message,), None)
    record.__dict__.update(fields)
    return JsonLines().format(record)


def _finite(value: Any) -> Any:
    """JSON knows no numbers that are none."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
