"""The worker's own side: its pipes, its log, and its end, which comes with its parent's at last."""

import os
import sys
from typing import NoReturn

from geniex_runtimes import children

PARENT = "--parent="
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_LINE_BUFFERED = 1  # _IOLBF


def begin() -> tuple[int, int]:
    """To be called first: where orders come from and reports go to. Standard output is the log."""
    parent = next(int(arg[len(PARENT) :]) for arg in sys.argv[1:] if arg.startswith(PARENT))
    die_with_parent(parent)
    children.die_quietly()
    return private_pipes()


def end() -> NoReturn:
    """End this process at once: what native libraries do at an orderly exit may end it badly."""
    if sys.platform == "win32":
        import signal

        # os._exit would have libraries say goodbye, and wait for a call that hangs
        os.kill(os.getpid(), signal.SIGTERM)
    os._exit(0)


def private_pipes() -> tuple[int, int]:
    """Where orders come from and reports go to; standard output is the log from here on."""
    orders, reports = os.dup(0), os.dup(1)
    if sys.platform == "win32":
        import msvcrt

        for descriptor in (orders, reports):
            msvcrt.setmode(descriptor, os.O_BINARY)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    _write_lines_at_once()
    return orders, reports


def _write_lines_at_once() -> None:
    """What a library prints is in the log before it ends the process."""
    if sys.platform != "linux":
        return
    import ctypes

    libc = ctypes.CDLL(None)
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, _LINE_BUFFERED, ctypes.c_size_t(0))


def die_with_parent(parent: int) -> None:
    """Have the kernel end this process when the thread that started it ends, where it can.

    The parent starts workers from a thread that lives as long as itself.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes
    import signal

    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it was faster
        end()
