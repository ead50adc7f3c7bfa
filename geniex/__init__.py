"""geniex: type a model's name, and it runs on the machine in front of you.

`geniex.load(name).chat(text)` answers from Python; see `geniex.api`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from geniex.api import Model, load, pull
    from geniex.session import Answer
    from geniex_catalogue.errors import GenieXError

__version__ = "0.1.0"
__all__ = ["Answer", "GenieXError", "Model", "__version__", "load", "pull"]

# imported when used: `geniex --help` has no need of them
_PLACES = {
    "Answer": "geniex.session",
    "GenieXError": "geniex_catalogue.errors",
    "Model": "geniex.api",
    "load": "geniex.api",
    "pull": "geniex.api",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)
