"""geniex: type a model's name, and it runs on the machine in front of you.

`geniex.load(name).chat(text)` answers from Python; see `geniex.api`. `AutoModelForCausalLM` and
`model_manager` are the same for code that is written in the words of transformers.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from geniex import model_manager
    from geniex.api import Model, load, pull
    from geniex.auto_model import AutoModelForCausalLM
    from geniex.chat_answer import ChatAnswer
    from geniex.session import Answer
    from geniex_catalogue.errors import GenieXError

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "AutoModelForCausalLM",
    "ChatAnswer",
    "GenieXError",
    "Model",
    "__version__",
    "load",
    "model_manager",
    "pull",
]

# imported when used: `geniex --help` has no need of them
_PLACES = {
    "Answer": "geniex.session",
    "AutoModelForCausalLM": "geniex.auto_model",
    "ChatAnswer": "geniex.chat_answer",
    "GenieXError": "geniex_catalogue.errors",
    "Model": "geniex.api",
    "load": "geniex.api",
    "pull": "geniex.api",
}
_MODULES = ("model_manager",)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"geniex.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
