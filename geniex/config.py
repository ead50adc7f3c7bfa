"""Settings: flags, GENIEX_* variables and `<data>/config.json`, read once and passed whole.

A flag wins over a variable, a variable over the file, the file over the default. Keys of the file:

    key        variable         value
    model      GENIEX_MODEL     the model of `geniex infer` without a name
    runtime    GENIEX_RUNTIME   llama_cpp or qairt, where the format leaves a choice
    compute    GENIEX_COMPUTE   cpu, gpu, npu, hybrid, or device names with commas
    nctx       GENIEX_NCTX      context length in tokens
    kv_type    GENIEX_KV_TYPE   what the KV cache is kept in: f16, q8_0, q4_0 ...
    flash_attn GENIEX_FLASH_ATTN  flash attention: auto, on or off
    ngl        GENIEX_NGL       layers on the device, -1 for all
    threads    GENIEX_THREADS   CPU threads
    isolate    GENIEX_ISOLATE   yes: GGUF models in worker processes, which may crash alone
    trust      GENIEX_TRUST     yes: a file that is new here is not tried out in a child first
    cache_dir  GENIEX_CACHE_DIR where the server keeps long prompts on disk: private text
    cache_size GENIEX_CACHE_SIZE what may be kept there, `4G`
    chipset    GENIEX_CHIPSET   the Snapdragon chipset, where the probe does not know it
    require    GENIEX_REQUIRE   npu, gpu or cpu: fail where the model would run elsewhere
    host       GENIEX_HOST      where the server listens and is called, `http://127.0.0.1:18181`
    origins    GENIEX_ORIGINS   web pages that may call the server, with commas; `*` is any
    keepalive  GENIEX_KEEPALIVE seconds that an idle model stays in the server, -1 for ever
    parallel   GENIEX_PARALLEL  answers of one model that run side by side
    max_queue  GENIEX_MAX_QUEUE requests that may wait for one model beyond those

    qairt_engine  GENIEX_QAIRT_ENGINE  genie or ort: what runs a bundle
    allowed_hosts GENIEX_ALLOWED_HOSTS further names that the server is called by

    best.MODEL                         the model's best settings, of `geniex bench --save-best`

Best settings of a model win over other keys of the file, not over flags and variables.

Only flags and variables: `--data-dir` / GENIEX_DATADIR, `--log` / GENIEX_LOG, `--log-format` /
GENIEX_LOG_FORMAT, `--offline` / GENIEX_OFFLINE, and the server's `--api-key` / GENIEX_APIKEY and
`--api-key-file` / GENIEX_APIKEY_FILE. The hubs have variables of their own: docs/hubs.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geniex.best import PREFIX, Best, parse_best
from geniex.config_file import ConfigFile, find_data_dir
from geniex.keys import KEYS, parsed
from geniex.log_format import LOG_FORMATS, LogFormat
from geniex_catalogue.errors import UsageError
from geniex_catalogue.offline import is_yes
from geniex_runtimes.options import FlashAttention, KvType, PrefixCache, QairtEngine
from geniex_runtimes.planning import Required

DEFAULT_MODEL = "geniex/tiny-chat:Q8_0"
LOG_LEVELS = ("none", "error", "warn", "info", "debug", "trace")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user set; None means: choose. `nctx` is tokens, `ngl` -1 is all layers.

    `keepalive` is seconds, negative for ever; `origins` are web origins, `allowed_hosts` names of
    hosts, `host` any spelling of an address that `parse_address` takes. `best` are the models' best
    settings, `said` the keys that a flag or a variable set, which win over those.
    """

    data_dir: Path
    log: str = "none"
    log_format: LogFormat = "text"
    verbose: bool = False
    offline: bool = False
    model: str = DEFAULT_MODEL
    runtime: str | None = None
    compute: str | None = None
    nctx: int | None = None
    kv_type: KvType | None = None
    flash_attn: FlashAttention = "auto"
    ngl: int = -1
    threads: int | None = None
    cache_dir: str | None = None
    cache_size: int = 4 << 30
    chipset: str | None = None
    host: str | None = None
    origins: str | None = None
    allowed_hosts: str | None = None
    keepalive: int = 300
    parallel: int = 4
    max_queue: int = 64
    require: Required | None = None
    qairt_engine: QairtEngine | None = None
    sliding_window: bool = False
    isolate: bool = False
    mlock: bool = False
    mmap: bool | None = True
    prefix_cache: PrefixCache | None = None
    trust: bool = False
    best: tuple[Best, ...] = ()
    said: frozenset[str] = frozenset()


def read_settings(flags: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """Put flags (those that are not None), variables and the file together.

    Raises UsageError for a value that cannot be, naming where it stands; StoreError for a damaged
    file.
    """
    data_dir = find_data_dir(flags.get("data_dir"), environ)
    values: dict[str, Any] = {}
    said: set[str] = set()
    entries = ConfigFile(data_dir).read()
    for key in KEYS.values():
        for source, texts in ((f"config.json, `{key.name}`", entries), (key.variable, environ)):
            text = texts.get(key.name if texts is entries else key.variable)
            if text:
                values[key.name] = parsed(key, text, source)
                said |= {key.name} if texts is environ else set()
        if flags.get(key.name) is not None:
            said.add(key.name)
            values[key.name] = parsed(key, str(flags[key.name]), f"--{key.name.replace('_', '-')}")
    log = flags.get("log")
    if log is None:
        log = environ.get("GENIEX_LOG") or "none"
    if log.lower() not in LOG_LEVELS:
        raise UsageError(
            f"`{log}` is no log level", hint=f"use `--log` with one of {', '.join(LOG_LEVELS)}"
        )
    return Settings(
        data_dir=data_dir,
        log=log.lower(),
        log_format=_log_format(flags.get("log_format") or environ.get("GENIEX_LOG_FORMAT")),
        verbose=bool(flags.get("verbose")),
        sliding_window=bool(flags.get("sliding_window")),
        mlock=bool(flags.get("mlock")),
        mmap=flags.get("mmap", True),
        offline=bool(flags.get("offline")) or is_yes(environ.get("GENIEX_OFFLINE", "")),
        best=_best(entries),
        said=frozenset(said),
        **values,
    )


def _log_format(text: str | None) -> LogFormat:
    for known in LOG_FORMATS:
        if (text or "text").lower() == known:
            return known
    raise UsageError(
        f"`{text}` is no log format", hint=f"use `--log-format` with {' or '.join(LOG_FORMATS)}"
    )


def _best(entries: Mapping[str, str]) -> tuple[Best, ...]:
    found = []
    for name, text in entries.items():
        if name.startswith(PREFIX):
            try:
                found.append(parse_best(name.removeprefix(PREFIX), text))
            except UsageError as exc:
                raise UsageError(f"config.json, `{name}`: {exc.message}", hint=exc.hint) from None
    return tuple(found)
