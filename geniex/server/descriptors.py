"""How many files a process may have open, and how many clients that leaves room for."""

import asyncio
import errno
import logging
import sys
from contextlib import suppress
from typing import Any

_log = logging.getLogger("geniex.server")

RESERVE = 32  # for what is open at any time, for a load, and for its helpers
_EACH = 3  # a client's own, and what its request opens for a moment
_LEAST, _FEW = 8, 2
BACKLOG = 2048  # clients that may wait to be taken


def raise_limit() -> int | None:
    """Have as many files as the system lets us; how many that is, None for no limit."""
    if sys.platform == "win32":
        return None
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # some systems name a limit that they do not grant
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return None if soft == resource.RLIM_INFINITY else soft


def clients(most: int, files: int | None) -> int:
    """How many clients there may be, of `most`, with so many files."""
    return most if files is None else max(_LEAST, min(most, (files - RESERVE) // _EACH))


def at_a_time(files: int | None) -> int:
    """How many clients are taken in one go: more of them than files fail all at once."""
    return BACKLOG if files is None else max(_FEW, min(BACKLOG, (files - RESERVE) // 8))


def tell_shortly(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handle what nobody else has: that no file is left for a client is a line, and no traceback.

    The loop takes the client a second later.
    """
    error = context.get("exception")
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        _log.warning("a client has to wait: %s", error)
        return
    loop.default_exception_handler(context)
