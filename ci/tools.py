"""Programs of others that the set-up runs, each in an environment of its own beside the caches."""

import subprocess
import sys
from pathlib import Path

from ci.llama_wheel import BuildError, cache_root


def tool(requirement: str, name: str) -> Path:
    """The program of a pinned package, installed once per machine. Raises BuildError."""
    folder = cache_root() / "tools" / requirement.replace("==", "-")
    scripts = folder / ("Scripts" if sys.platform == "win32" else "bin")
    program = scripts / (f"{name}.exe" if sys.platform == "win32" else name)
    if not program.is_file():
        python = scripts / ("python.exe" if sys.platform == "win32" else "python")
        for words in (
            [sys.executable, "-m", "venv", "--clear", folder],
            [python, "-m", "pip", "--disable-pip-version-check", "install", "-q", requirement],
        ):
            if subprocess.run([str(word) for word in words], check=False).returncode != 0:
                raise BuildError(f"`{requirement}` cannot be installed; the output is above")
    return program
