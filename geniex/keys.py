"""The keys of the settings: what each is for, and how its text is read."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

from geniex_catalogue.errors import UsageError
from geniex_runtimes.options import SIMULATOR, FlashAttention, KvType, QairtEngine
from geniex_runtimes.planning import REQUIRABLE

COMPUTE_UNITS = ("cpu", "gpu", "npu", "hybrid")
QAIRT_ENGINES: tuple[QairtEngine, ...] = get_args(QairtEngine)
KV_TYPES: tuple[KvType, ...] = get_args(KvType)
FLASH: tuple[FlashAttention, ...] = get_args(FlashAttention)
# answers of a model at once: llama.cpp's contexts have no more sequences
MOST_SLOTS = 256
# as an origin: pages that this machine serves
LOOPBACK = "loopback"
NONE = "none"
_HOST = re.compile(r"(?:\*\.)?[\w-]+(?:\.[\w-]+)*\.?", re.ASCII)
_SWITCH = {True: ("yes", "on", "true", "1"), False: ("no", "off", "false", "0")}
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE | re.ASCII)
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/,]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the file: how its text is read, and what it is for."""

    name: str
    parse: Callable[[str], str | int]
    help: str

    @property
    def variable(self) -> str:
        """The environment variable of the same meaning."""
        return f"GENIEX_{self.name.upper()}"


def _whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    expected = f"it takes a whole number from {least} {'up' if most is None else f'to {most}'}"

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise UsageError(f"`{text}` is not a whole number", hint=expected) from None
        if value < least:
            raise UsageError(f"{value} is too small", hint=expected)
        if most is not None and value > most:
            raise UsageError(f"{value} is too large", hint=expected)
        return value

    return parse


def parse_compute(text: str) -> str:
    """A compute unit in lower case, or device names with commas and no blanks around them."""
    if text.lower() in COMPUTE_UNITS:
        return text.lower()
    names = [name.strip() for name in text.split(",")]
    if not all(name == SIMULATOR or re.fullmatch(r"[A-Za-z0-9_:.]+", name) for name in names):
        raise UsageError(
            f"`{text}` is no compute unit",
            hint=f"use one of {', '.join(COMPUTE_UNITS)}, or the names `geniex devices` shows",
        )
    return ",".join(names)


def parse_origins(text: str) -> str:
    """Web origins with commas, without spaces and slashes at their ends.

    `*` is any page, `loopback` those of this machine, `none` no page but the server's own.
    """
    origins = [origin.strip().rstrip("/") for origin in text.split(",") if origin.strip()]
    words = ("*", LOOPBACK, NONE)
    bad = next((o for o in origins if o not in words and not _ORIGIN.fullmatch(o)), None)
    if NONE in origins and len(origins) > 1:
        raise UsageError(f"`{text}`: `{NONE}` and others exclude each other")
    if bad is not None:
        raise UsageError(
            f"`{bad}` is no origin", hint="an origin looks like `https://chat.example.org`"
        )
    return ",".join(origins)


def parse_hosts(text: str) -> str:
    """Names of hosts with commas; `*.name` is all below one, `*` is any. Raises UsageError."""
    hosts = [host.strip().lower() for host in text.split(",") if host.strip()]
    bad = next((host for host in hosts if host != "*" and not _HOST.fullmatch(host)), None)
    if bad is not None:
        raise UsageError(
            f"`{bad}` is no name of a host",
            hint="give names alone, such as `gpu.example.org` or `*.example.org`",
        )
    return ",".join(hosts)


def parse_size(text: str) -> int:
    """Bytes: a number, with K, M, G or T for powers of 1024. Raises UsageError."""
    found = _SIZE.fullmatch(text.strip())
    size = int(float(found[1]) * (1 << _UNITS[found[2].lower()])) if found else 0
    if size < 1:
        raise UsageError(f"`{text}` is no size", hint="give bytes, or such as 512M, 24G, 24GiB")
    return size


def _parse_host(text: str) -> str:
    from geniex.address import parse_address

    parse_address(text)
    return text


def _parse_runtime(text: str) -> str:
    from geniex_runtimes import registry

    names = sorted(registry.names())
    if text not in names:
        raise UsageError(f"`{text}` is no runtime", hint=f"use one of {', '.join(names)}")
    return text


def _one_of(words: Sequence[str], what: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in words:
            raise UsageError(f"`{text}` is no {what}", hint=f"use one of {', '.join(words)}")
        return text.lower()

    return parse


def _yes_or_no(text: str) -> bool:
    words = {word: given for given, row in _SWITCH.items() for word in row}
    if text.lower() not in words:
        raise UsageError(f"`{text}` is neither yes nor no", hint="use yes or no")
    return words[text.lower()]


KEYS: dict[str, Key] = {
    key.name: key
    for key in (
        Key("model", str, "the model of `geniex infer` without a name"),
        Key("runtime", _parse_runtime, "llama_cpp or qairt, where the format leaves a choice"),
        Key("compute", parse_compute, "cpu, gpu, npu, hybrid, or device names with commas"),
        Key("nctx", _whole_number(1), "context length in tokens"),
        Key("kv_type", _one_of(KV_TYPES, "type of a KV cache"), "what the KV cache is kept in"),
        Key("flash_attn", _one_of(FLASH, "setting of flash attention"), "auto, on or off"),
        Key("ngl", _whole_number(-1), "layers on the device, -1 for all"),
        Key("isolate", _yes_or_no, "yes: GGUF models in worker processes, which may crash alone"),
        Key("trust", _yes_or_no, "yes: a file that is new here is not tried out in a child first"),
        Key("threads", _whole_number(1), "CPU threads"),
        Key("cache_dir", str, "where the server keeps long prompts on disk: private text"),
        Key("cache_size", parse_size, "what may be kept there, such as 4G"),
        Key("chipset", str, "the Snapdragon chipset, where the probe does not know it"),
        Key(
            "require",
            _one_of(REQUIRABLE, "unit to require"),
            "npu, gpu or cpu: fail where the model would run elsewhere",
        ),
        Key("qairt_engine", _one_of(QAIRT_ENGINES, "engine of qairt"), "what runs a bundle"),
        Key("host", _parse_host, "where the server listens and is called"),
        Key("allowed_hosts", parse_hosts, "further names that the server is called by"),
        Key("origins", parse_origins, "web pages that may call the server, with commas"),
        Key("keepalive", _whole_number(-1), "seconds that an idle model stays, -1 for ever"),
        Key("parallel", _whole_number(1, MOST_SLOTS), "answers of one model that run side by side"),
        Key("max_queue", _whole_number(0), "requests that may wait for one model"),
    )
}


def key_of(name: str) -> Key:
    """The key of that name. Raises UsageError with the valid ones."""
    if name not in KEYS:
        raise UsageError(f"unknown config key `{name}`", hint=f"valid keys: {', '.join(KEYS)}")
    return KEYS[name]


def parsed(key: Key, text: str, source: str) -> str | int:
    try:
        return key.parse(text)
    except UsageError as exc:
        raise UsageError(f"{source}: {exc.message}", hint=exc.hint) from None
