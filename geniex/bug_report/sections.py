"""The sections of a report: each a title and the lines below it. None reads a prompt."""

import json
import locale
import platform
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from importlib import metadata
from pathlib import Path
from typing import Any

from geniex import __version__
from geniex.bug_report.last_lines import read_last_lines
from geniex.bug_report.redaction import Redactor
from geniex.config import Settings
from geniex_catalogue.sizes import size_text
from geniex_runtimes.contract import HardwareProfile

_VARIABLE = re.compile(
    r"(GENIEX|HF|HUGGING_?FACE|OTEL|GGML|LLAMA|OMP|KMP|GOMP|CUDA|VK|QNN|ADSP)_\w*|"
    r"(HTTPS?|NO|ALL)_PROXY|LC_\w+|LANG|TERM|NO_COLOR|PYTHON\w*|VIRTUAL_ENV|SSL_CERT_\w+",
    re.IGNORECASE,
)
_OF_EXTRAS = (
    *("onnxruntime-qnn", "tokenizers", "llguidance", "qai-hub", "matplotlib"),
    *("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"),
)
_MOST_MODELS = 200
_MOST_TRIALS = 1 << 18  # bytes


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report; `what` says in a few words what it holds."""

    title: str
    what: str
    make: Callable[[], Iterator[str]]


def sections(
    settings: Settings,
    environ: Mapping[str, str],
    redactor: Redactor,
    look: Callable[[], HardwareProfile],
) -> tuple[Section, ...]:
    """All sections, in order; what they say is not redacted yet, but for variables."""
    return (
        Section("versions", "geniex, its runtimes, Python", _versions),
        Section("system", "the operating system and its locale", _system),
        Section("settings", "flags and the file of settings", lambda: _settings(settings)),
        Section(
            "environment",
            "variables of geniex and its libraries, without secrets",
            lambda: _environment(environ, redactor),
        ),
        Section("hardware", "CPU, memory, devices, what the probes found", lambda: _hardware(look)),
        Section("llama.cpp", "how the library was built", _llama_cpp),
        Section("models", "names, precisions and sizes", lambda: _models(settings)),
        Section(
            "trials", "what first loads in a child came to", lambda: _trials(settings.data_dir)
        ),
        Section("packages", "versions of the Python packages", _packages),
        Section(
            "log",
            "the last warnings and errors of `geniex serve`",
            lambda: iter(read_last_lines(settings.data_dir)),
        ),
    )


def _versions() -> Iterator[str]:
    from geniex_runtimes import registry

    yield f"geniex {__version__}"
    for name, found in registry.availability().items():
        yield f"{name} {found.version or f'not usable: {found.reason}'}"
    yield f"Python {sys.version}"


def _system() -> Iterator[str]:
    yield platform.platform()
    yield f"machine {platform.machine()}, {platform.python_implementation()}"
    yield f"encoding of files {locale.getpreferredencoding(False)}"
    yield f"encoding of names {sys.getfilesystemencoding()}"
    yield f"encoding of stdout {getattr(sys.stdout, 'encoding', None)}"


def _settings(settings: Settings) -> Iterator[str]:
    for field in fields(settings):
        value = getattr(settings, field.name)
        said = " (said by a flag or a variable)" if field.name in settings.said else ""
        yield f"{field.name} = {value}{said}"


def _environment(environ: Mapping[str, str], redactor: Redactor) -> Iterator[str]:
    for name in sorted(environ):
        if _VARIABLE.fullmatch(name):
            yield f"{name}={redactor.variable(name, environ[name])}"


def _hardware(look: Callable[[], HardwareProfile]) -> Iterator[str]:
    machine = look()
    facts: dict[str, Any] = {**asdict(machine), "cpu_features": sorted(machine.cpu_features)}
    yield json.dumps(facts, indent=1, ensure_ascii=False, default=str)


def _llama_cpp() -> Iterator[str]:
    from geniex_runtimes import registry

    describe = getattr(registry.get("llama_cpp"), "system_info", None)
    yield describe() if describe is not None else "not known"


def _models(settings: Settings) -> Iterator[str]:
    from geniex_catalogue.store import Store

    found = list(Store(settings.data_dir).list())
    for model in found[:_MOST_MODELS]:
        sizes = [(name, sum(r.size for r in model.records(name))) for name in model.precisions]
        words = [f"{name} {size_text(size)}" for name, size in sizes]
        words += [f"{name} is partial" for name in model.partial]
        words += [model.reason] if model.reason else []
        yield f"{model.name}: {model.status}, {model.format}; {', '.join(words)}"
    yield f"{len(found)} models in {settings.data_dir}"


def _trials(data_dir: Path) -> Iterator[str]:
    from geniex_catalogue.regular import read_regular

    for file in sorted(data_dir.glob("*.json")):
        if file.name != "config.json":
            yield f"{file.name}:"
            yield read_regular(file, _MOST_TRIALS).decode("utf-8", "replace")


def _packages() -> Iterator[str]:
    """Those that geniex needs, and what they need: others are the user's own business."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    waiting = ["geniex-local", *_OF_EXTRAS]
    versions: dict[str, str | None] = {}
    while waiting:
        name: str = canonicalize_name(waiting.pop())
        if name in versions:
            continue
        versions[name] = None
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        versions[name] = found.version
        for line in found.requires or ():
            try:
                needed = Requirement(line)
            except InvalidRequirement:
                continue  # somebody else's fault, and no version is lost by it
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                waiting.append(needed.name)
    yield from sorted(f"{name}=={found}" for name, found in versions.items() if found)
