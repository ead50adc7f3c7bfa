"""The id of the request that is being answered, for the log and the answer's headers."""

import re
import uuid

from geniex.log_lines import request_id

HEADER = "x-request-id"

_GIVEN = re.compile(r"[\w.:-]{1,128}", re.ASCII)


def current_request_id() -> str:
    """The id of the request of this task; `-` outside of one."""
    return request_id.get() or "-"


def begin(given: str | None) -> str:
    """Name the request of this task: as the client does, where that is harmless to log."""
    name = given if given and _GIVEN.fullmatch(given) else f"req_{uuid.uuid4().hex}"
    request_id.set(name)
    return name
