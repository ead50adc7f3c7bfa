"""How many files a process may have open, and how many clients that leaves room for."""

import sys
from contextlib import suppress

RESERVE = 32  # for what is open at any time, for a load, and for its helpers
_EACH = 2  # a client's own, and what its request opens for a moment
_LEAST = 8
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
    return BACKLOG if files is None else max(_LEAST, min(BACKLOG, (files - RESERVE) // 4))
