"""The optional JSON files of a bundle: metadata.json, the back-end settings, the chat template."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geniex_catalogue.bundle_files import BUNDLE_FACTS
from geniex_catalogue.errors import BundleError
from geniex_catalogue.regular import read_regular
from geniex_runtimes.qairt.bundle_json import Section, read_json
from geniex_runtimes.qairt.prefix_template import prefix_template

TOKENIZER_CONFIG = "tokenizer_config.json"
TEMPLATE_FILE = "chat_template.jinja"
_MAX_TEMPLATE = 1 << 20
_MAX_GRAPHS = 4096
_MAX_CONTEXT = 1 << 24
_MAX_SOC = 1 << 20
_GRAPH = re.compile(r"(?:[A-Za-z]+_)?ar(\d{1,7})_cl(\d{1,8})_(\d{1,4})_of_(\d{1,4})")
_ARCH = re.compile(r"[vV](\d{2,3})")
_VISION_FILE = re.compile(r"vision|image_encoder|veg", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GraphName:
    """A graph by its name: `width` tokens a call, a context of `context_length`, part of parts."""

    name: str
    width: int
    context_length: int
    part: int
    parts: int


@dataclass(frozen=True, slots=True)
class HtpTarget:
    """The Hexagon that a bundle is for."""

    soc_model: int | None = None
    htp_arch: int | None = None


@dataclass(frozen=True, slots=True)
class Metadata:
    """What metadata.json states; everything in it may be left out."""

    model_id: str | None = None
    precision: str | None = None
    chipset: str | None = None
    target: HtpTarget = HtpTarget()
    qairt_version: str | None = None
    context_lengths: tuple[int, ...] = ()
    graphs: tuple[GraphName, ...] = ()
    chat_template: str | None = None
    prefix_template: str | None = None
    vision: bool = False


def read_metadata(folder: Path) -> Metadata:
    """metadata.json, whose `model_files` are keyed by graph or by file. Raises BundleError."""
    path = folder / BUNDLE_FACTS
    if not path.exists():
        return Metadata()
    facts = read_json(path)
    genie = facts.section("genie")
    files = facts.section("model_files")
    if len(files.values) > _MAX_GRAPHS:
        raise facts.fault("model_files", f"has more than {_MAX_GRAPHS} entries")
    graphs = tuple(filter(None, map(graph_name, files.values)))
    stated = genie.wholes("context_lengths", 1, _MAX_CONTEXT)
    lengths = {*stated, *(graph.context_length for graph in graphs)}
    chipset = facts.section("chipset_attributes")
    vision = genie.values.get("supports_vision") is True
    has_table = isinstance(genie.values.get("chat_template"), dict)
    return Metadata(
        model_id=facts.text("model_id"),
        precision=facts.text("precision"),
        chipset=chipset.text("name") or facts.text("chipset"),
        target=HtpTarget(
            chipset.whole("soc_model", 0, _MAX_SOC), chipset.whole("htp_version", 0, 999)
        ),
        qairt_version=_version(facts.section("tool_versions").text("qairt")),
        context_lengths=tuple(sorted(lengths)),
        graphs=graphs,
        chat_template=None if has_table else genie.text("chat_template"),
        prefix_template=prefix_template(genie.section("chat_template")) if has_table else None,
        vision=vision or any(_VISION_FILE.search(name) for name in files.values),
    )


def graph_name(name: str) -> GraphName | None:
    """A graph's name taken apart, `[phase_]arN_clM_S_of_T`; None for any other."""
    match = _GRAPH.fullmatch(name)
    return GraphName(name, *map(int, match.groups())) if match else None


def read_target(extensions: Path) -> HtpTarget:
    """The device that the back-end settings are for. Raises BundleError."""
    settings = read_json(extensions)
    devices = settings.values.get("devices")
    if devices is None:
        return HtpTarget()
    if not isinstance(devices, list) or not all(isinstance(one, dict) for one in devices):
        raise settings.fault("devices", "is not a list of objects")
    if not devices:
        return HtpTarget()
    device = Section(extensions, devices[0], "devices[0]")
    soc = device.whole("soc_model", 0, _MAX_SOC)
    if soc is None:
        soc = device.whole("soc_id", 0, _MAX_SOC)
    arch = device.text("dsp_arch")
    if arch is None:
        return HtpTarget(soc)
    match = _ARCH.fullmatch(arch)
    if match is None:
        raise device.fault("dsp_arch", f"is {arch[:40]!a}, not an architecture such as `v73`")
    return HtpTarget(soc, int(match.group(1)))


def chat_template(folder: Path, metadata: Metadata) -> str | None:
    """The chat template: of metadata.json, tokenizer_config.json or chat_template.jinja.

    Where none of them has one, metadata.json's table of prefixes stands in. Raises BundleError.
    """
    if metadata.chat_template is not None:
        return metadata.chat_template
    path = folder / TOKENIZER_CONFIG
    if path.exists() and (found := _of_tokenizer(read_json(path))) is not None:
        return found
    path = folder / TEMPLATE_FILE
    if not path.exists():
        return metadata.prefix_template
    try:
        data = read_regular(path, _MAX_TEMPLATE + 1)
        text = data.decode()
    except (OSError, ValueError) as exc:
        raise BundleError(path, f"cannot be read: {exc}") from exc
    if len(data) > _MAX_TEMPLATE:
        raise BundleError(path, f"is larger than {_MAX_TEMPLATE >> 20} MiB")
    return text


def _version(text: str | None) -> str | None:
    """The three numbers of a version that may name a build behind them: 2.45.0."""
    return ".".join(text.removeprefix("v").split(".")[:3]) if text else None


def _of_tokenizer(settings: Section) -> str | None:
    value: Any = settings.values.get("chat_template")
    if not isinstance(value, list):
        return settings.text("chat_template")
    # several, each by name
    named = [Section(settings.file, one, "chat_template") for one in value if isinstance(one, dict)]
    templates = {one.text("name"): one.text("template") for one in named}
    return templates.get("default") or next(iter(templates.values()), None)
