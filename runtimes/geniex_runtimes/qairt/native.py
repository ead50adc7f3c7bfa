"""Where native code is let in: the worker's search paths for Qualcomm's libraries, per system."""

import ctypes
import os
import sys
from pathlib import Path

from geniex_runtimes.qairt.engine import EngineMissingError

# the skeletons that run on the DSP itself are searched for here; `;` on every system
_DSP_PATH = "ADSP_LIBRARY_PATH"

_folders: list[object] = []  # holds Windows to the folders that were added


def prepare(libraries: Path) -> None:
    """Let the system, and the DSP, find the libraries in a folder. Before the first is loaded."""
    known = [part for part in os.environ.get(_DSP_PATH, "").split(";") if part]
    if str(libraries) not in known:
        os.environ[_DSP_PATH] = ";".join([str(libraries), *known])
    if sys.platform == "win32":
        _folders.append(os.add_dll_directory(str(libraries)))
        # QnnHtp loads its stubs by name
        os.environ["PATH"] = f"{libraries}{os.pathsep}{os.environ.get('PATH', '')}"


def library_name(base: str) -> str:
    """The file name of a library on this system."""
    return f"{base}.dll" if sys.platform == "win32" else f"lib{base}.so"


def load(libraries: Path, base: str) -> ctypes.CDLL:
    """A library of the folder. Raises EngineMissingError where it is not there or does not load."""
    path = libraries / library_name(base)
    try:
        return ctypes.CDLL(str(path))
    except OSError as exc:
        raise EngineMissingError(f"`{path.name}` cannot be loaded: {exc}") from exc
