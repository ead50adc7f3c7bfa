"""The optional packages, and the command that installs them into the Python that runs.

It names the packages themselves: geniex may run from a clone, where the name of its own extra would
be looked for elsewhere.
"""

import shutil
import sys
from pathlib import Path
from typing import Final

# as pyproject.toml has them, without their markers
EXTRAS: Final = {
    "qairt": ("onnxruntime-qnn==2.7.0", "tokenizers>=0.22", "llguidance>=1.9"),
    "aihub": ("qai-hub>=0.56,<1",),
    "otel": ("opentelemetry-sdk>=1.39", "opentelemetry-exporter-otlp-proto-http>=1.39"),
    "bench-plot": ("matplotlib>=3.10",),
}


def install(extra: str, *, again: bool = False) -> str:
    """A hint: the command for an extra's packages; `again` replaces those that are there."""
    # double quotes mean the same to every shell
    packages = " ".join(f'"{one}"' for one in EXTRAS[extra])
    option = " --force-reinstall" if again else ""
    return f"run `{_python()} -m pip install{option} {packages}`"


def _python() -> str:
    """How this Python is called from here."""
    own = sys.executable
    if not own or shutil.which("python") == own:
        return "python"
    # not resolved: the link of an environment is what makes it one
    place, here = Path(own), Path.cwd()
    text = str(place.relative_to(here)) if place.is_relative_to(here) else own
    return f'"{text}"' if " " in text else text
