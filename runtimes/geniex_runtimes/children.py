"""Child processes for native code, which may end any process: started, ended, told of."""

import sys


def command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of this project in a child."""
    # -P: a file in the user's folder must not stand in for a module
    return [sys.executable, "-P", "-m", module, *arguments]


def death(code: int) -> str:
    """How a child with this exit code ended, as what follows its name."""
    if code < 0:
        import signal

        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    # Windows reports an exception's number: 0xC0000005 is an access violation
    return f"ended with code {code:#x}" if code > 255 else f"ended with code {code}"


def die_quietly() -> None:
    """No core file, and no window that waits for a click, when this process is ended."""
    if sys.platform == "win32":
        import ctypes

        ctypes.windll.kernel32.SetErrorMode(0x0001 | 0x0002)
    else:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
