"""One log line as text, and the request that it belongs to."""

import logging
from contextvars import ContextVar

from geniex.log_format import LogFormat

# the request that is being answered; threads that work for one have a copy of its context
request_id: ContextVar[str | None] = ContextVar("geniex_request_id", default=None)


class TextLines(logging.Formatter):
    """`time LEVEL logger [request]: message (field value, ...)`, a traceback after it.

    A line has fields by `extra={"fields": {...}}`; what the message says already is left out.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s%(where)s: %(message)s%(facts)s")

    def format(self, record: logging.LogRecord) -> str:
        """The line, or lines."""
        name = request_id.get()
        record.where = f" [{name}]" if name is not None else ""
        fields = getattr(record, "fields", {})
        said = record.getMessage().split() if fields else []
        facts = [f"{k.replace('_', ' ')} {v}" for k, v in fields.items() if str(v) not in said]
        record.facts = f" ({', '.join(facts)})" if facts else ""
        return super().format(record)


def formatter(kind: LogFormat) -> logging.Formatter:
    """What makes lines of that kind."""
    if kind == "text":
        return TextLines()
    # a package of its own, which only who asks for JSON has to wait for
    from geniex.json_lines import JsonLines

    return JsonLines()
