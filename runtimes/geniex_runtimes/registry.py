"""Runtimes by name: each is a `module:Class` text, imported when it is used.

Others may bring a runtime as an entry point of the group `geniex.runtimes.v1`.
"""

import importlib
from dataclasses import replace

from geniex_catalogue.errors import UsageError
from geniex_catalogue.extras import EXTRAS, install
from geniex_runtimes.contract import Availability, Runtime
from geniex_runtimes.errors import RuntimeNotInstalledError

ENTRY_POINTS = "geniex.runtimes.v1"

BUILT_IN = {
    "llama_cpp": "geniex_runtimes.llama_cpp.runtime:LlamaCppRuntime",
    "qairt": "geniex_runtimes.qairt.runtime:QairtRuntime",
}

# the module that a runtime stands on, and the distribution that brings it, where it is no extra
_PACKAGES = {"llama_cpp": ("llama_cpp", "llama-cpp-python"), "qairt": ("onnxruntime_qnn", "")}


def names() -> tuple[str, ...]:
    """Every known runtime, the built-in ones first; importing nothing but their names."""
    return tuple(dict.fromkeys((*BUILT_IN, *_entry_points())))


def get(name: str) -> Runtime:
    """The runtime of that name.

    Raises UsageError for a name nobody has, RuntimeNotInstalledError for a runtime whose package
    is missing, or is there but does not import.
    """
    target = BUILT_IN.get(name) or _entry_points().get(name)
    if target is None:
        raise UsageError(f"unknown runtime `{name}`; known: {', '.join(names())}")
    module_name, _, class_name = target.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), class_name)
        runtime: Runtime = found()
    except ModuleNotFoundError as exc:
        raise _missing(name, module_name, exc) from exc
    except RuntimeNotInstalledError:
        raise
    except Exception as exc:
        raise _broken(name, f"{type(exc).__name__}: {exc}") from exc
    return runtime


def availability_of(name: str) -> Availability:
    """Whether a runtime can be used, what it runs, or why not. Never raises."""
    try:
        runtime = get(name)
        found = runtime.availability()
        return replace(found, formats=found.formats or runtime.formats)
    except (UsageError, RuntimeNotInstalledError) as exc:
        return Availability(False, reason=exc.message, hint=exc.hint)
    except Exception as exc:
        # somebody else's runtime: its mistake must not stop the ones that work
        return Availability(False, reason=f"runtime `{name}` is broken: {exc}")


def availability() -> dict[str, Availability]:
    """`availability_of` every known runtime, by name."""
    return {name: availability_of(name) for name in names()}


def _missing(name: str, module: str, exc: ModuleNotFoundError) -> RuntimeNotInstalledError:
    """A package that is not there, told apart from one whose own imports fail."""
    absent = exc.name or module
    package, distribution = _PACKAGES.get(name, (module.split(".")[0], ""))
    if absent.split(".")[0] != package:
        return _broken(name, f"its module `{absent}` is missing")
    command = f"`pip install {distribution}`" if distribution else f"the package of `{package}`"
    hint = f"install {command}; the README has the versions and build flags"
    return RuntimeNotInstalledError(
        f"runtime `{name}` is not installed: no module `{absent}`",
        hint=install(name) if name in EXTRAS else hint,
    )


def _broken(name: str, reason: str) -> RuntimeNotInstalledError:
    _, distribution = _PACKAGES.get(name, ("", ""))
    command = f"pip install --force-reinstall --no-cache-dir {distribution}".rstrip()
    hint = f"reinstall it: `{command}`" if distribution else "reinstall its package"
    return RuntimeNotInstalledError(
        f"runtime `{name}` is installed but broken: {reason}",
        hint=install(name, again=True) if name in EXTRAS else hint,
    )


def _entry_points() -> dict[str, str]:
    # importing the metadata machinery takes a tenth of a second
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=ENTRY_POINTS)}
