"""Settings: flags, GENIEX_* variables and `<data>/config.json`, read once and passed whole.

A flag wins over a variable, a variable over the file, the file over the default. Keys of the file:

    key        variable         value
    model      GENIEX_MODEL     the model of `geniex infer` without a name
    runtime    GENIEX_RUNTIME   llama_cpp or qairt, where the format leaves a choice
    compute    GENIEX_COMPUTE   cpu, gpu, npu, hybrid, or device names with commas
    nctx       GENIEX_NCTX      context length in tokens
    ngl        GENIEX_NGL       layers on the device, -1 for all
    threads    GENIEX_THREADS   CPU threads
    chipset    GENIEX_CHIPSET   the Snapdragon chipset, where the probe does not know it
    require    GENIEX_REQUIRE   npu, gpu or cpu: fail where the model would run elsewhere
    host       GENIEX_HOST      where the server listens and is called, `http://127.0.0.1:18181`
    origins    GENIEX_ORIGINS   web pages that may call the server, with commas; `*` is any
    keepalive  GENIEX_KEEPALIVE seconds that an idle model stays in the server, -1 for ever
    parallel   GENIEX_PARALLEL  answers of one model that run side by side
    max_queue  GENIEX_MAX_QUEUE requests that may wait for one model beyond those

    qairt_engine  GENIEX_QAIRT_ENGINE  genie or ort: what runs a bundle

    best.MODEL                         the model's best settings, of `geniex bench --save-best`

Best settings of a model win over other keys of the file, not over flags and variables.

Only flags and variables: `--data-dir` / GENIEX_DATADIR, `--log` / GENIEX_LOG, `--offline` /
GENIEX_OFFLINE, and the server's `--api-key` / GENIEX_APIKEY. The hubs have variables of their own:
docs/hubs.md.
"""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from geniex.best import PREFIX, Best, parse_best
from geniex_catalogue.errors import StoreError, UsageError
from geniex_catalogue.offline import is_yes
from geniex_catalogue.regular import read_regular
from geniex_runtimes.contract import SIMULATOR, QairtEngine
from geniex_runtimes.planning import REQUIRABLE, Required

DEFAULT_MODEL = "geniex/tiny-chat:Q8_0"
LOG_LEVELS = ("none", "error", "warn", "info", "debug", "trace")
_MAX_BYTES = 1 << 20
COMPUTE_UNITS = ("cpu", "gpu", "npu", "hybrid")
QAIRT_ENGINES: tuple[QairtEngine, ...] = get_args(QairtEngine)
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/,]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user set; None means: choose. `nctx` is tokens, `ngl` -1 is all layers.

    `keepalive` is seconds, negative for ever; `origins` are web origins, `host` any spelling of an
    address that `parse_address` takes. `best` are the models' best settings, `said` the keys that a
    flag or a variable set, which win over those.
    """

    data_dir: Path
    log: str = "none"
    verbose: bool = False
    offline: bool = False
    model: str = DEFAULT_MODEL
    runtime: str | None = None
    compute: str | None = None
    nctx: int | None = None
    ngl: int = -1
    threads: int | None = None
    chipset: str | None = None
    host: str | None = None
    origins: str | None = None
    keepalive: int = 300
    parallel: int = 4
    max_queue: int = 64
    require: Required | None = None
    qairt_engine: QairtEngine | None = None
    sliding_window: bool = False
    best: tuple[Best, ...] = ()
    said: frozenset[str] = frozenset()


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


def _whole_number(least: int) -> Callable[[str], int]:
    expected = f"it takes a whole number from {least} up"

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise UsageError(f"`{text}` is not a whole number", hint=expected) from None
        if value < least:
            raise UsageError(f"{value} is too small", hint=expected)
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
    """Web origins with commas, without spaces and slashes at their ends; `*` is any page."""
    origins = [origin.strip().rstrip("/") for origin in text.split(",") if origin.strip()]
    bad = next((o for o in origins if o != "*" and not _ORIGIN.fullmatch(o)), None)
    if bad is not None:
        raise UsageError(
            f"`{bad}` is no origin", hint="an origin looks like `https://chat.example.org`"
        )
    return ",".join(origins)


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


KEYS: dict[str, Key] = {
    key.name: key
    for key in (
        Key("model", str, "the model of `geniex infer` without a name"),
        Key("runtime", _parse_runtime, "llama_cpp or qairt, where the format leaves a choice"),
        Key("compute", parse_compute, "cpu, gpu, npu, hybrid, or device names with commas"),
        Key("nctx", _whole_number(1), "context length in tokens"),
        Key("ngl", _whole_number(-1), "layers on the device, -1 for all"),
        Key("threads", _whole_number(1), "CPU threads"),
        Key("chipset", str, "the Snapdragon chipset, where the probe does not know it"),
        Key(
            "require",
            _one_of(REQUIRABLE, "unit to require"),
            "npu, gpu or cpu: fail where the model would run elsewhere",
        ),
        Key("qairt_engine", _one_of(QAIRT_ENGINES, "engine of qairt"), "what runs a bundle"),
        Key("host", _parse_host, "where the server listens and is called"),
        Key("origins", parse_origins, "web pages that may call the server, with commas"),
        Key("keepalive", _whole_number(-1), "seconds that an idle model stays, -1 for ever"),
        Key("parallel", _whole_number(1), "answers of one model that run side by side"),
        Key("max_queue", _whole_number(0), "requests that may wait for one model"),
    )
}


def key_of(name: str) -> Key:
    """The key of that name. Raises UsageError with the valid ones."""
    if name not in KEYS:
        raise UsageError(f"unknown config key `{name}`", hint=f"valid keys: {', '.join(KEYS)}")
    return KEYS[name]


class ConfigFile:
    """`<data>/config.json`: a flat map of texts, replaced as a whole."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / "config.json"

    def read(self) -> dict[str, str]:
        """All entries; empty where there is no file. Raises StoreError for a damaged one."""
        text = self._text()
        try:
            return _entries(text) if text is not None else {}
        except ValueError as exc:
            raise StoreError(
                f"`{self.path}` is damaged: {exc}",
                hint="mend or delete it; `geniex config set KEY VALUE` sets it aside for a new one",
            ) from exc

    def set(self, name: str, value: str) -> Path | None:
        """Write one entry; an empty value clears it.

        A damaged file is set aside first, and the answer is where it is now. Raises UsageError for
        an unknown key or a bad value, StoreError where the folder cannot be written.
        """
        if name.startswith(PREFIX):
            raise UsageError(
                f"`{name}` is not set by hand", hint="`geniex bench MODEL --save-best` sets it"
            )
        key = key_of(name)
        if not value.isascii() and value != value.encode(errors="ignore").decode():
            raise UsageError(f"`{name}`: the value is not UTF-8", hint="give it as UTF-8 text")
        if value:
            value = str(_parsed(key, value, f"`{name}`"))
        return self._replace(name, value)

    def set_best(self, best: Best) -> Path | None:
        """Keep the best settings of a model; otherwise as `set`."""
        return self._replace(best.key, best.text())

    def unset(self, name: str) -> None:
        """Take one entry out. Raises UsageError for what is not in the file, StoreError."""
        entries = self.read()
        if name not in entries:
            there = ", ".join(entries) or "none"
            raise UsageError(f"`{name}` is not set", hint=f"keys that are set: {there}")
        self._replace(name, "")

    def _replace(self, name: str, value: str) -> Path | None:
        text = self._text()
        aside = None
        try:
            entries = _entries(text) if text is not None else {}
        except ValueError:
            aside = self._set_aside()
            entries = {}
        entries.pop(name, None)
        if value:
            entries[name] = value
        self._write(entries)
        return aside

    def _text(self) -> str | None:
        try:
            return read_regular(self.path, _MAX_BYTES).decode("utf-8-sig", errors="replace")
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise StoreError(f"cannot read `{self.path}`: {exc.strerror}") from exc

    def _set_aside(self) -> Path:
        aside = self.path.with_name("config.json.damaged")
        try:
            self.path.replace(aside)
        except OSError as exc:
            raise StoreError(f"cannot replace `{self.path}`: {exc.strerror}") from exc
        return aside

    def _write(self, entries: Mapping[str, str]) -> None:
        import tempfile

        make_data_dir(self.path.parent)
        temporary: Path | None = None
        try:
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", dir=self.path.parent, prefix=".config-", delete=False
            ) as file:
                temporary = Path(file.name)
                json.dump(entries, file, indent=2, ensure_ascii=False)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
        except OSError as exc:
            if temporary is not None:
                temporary.unlink(missing_ok=True)
            raise StoreError(f"cannot write `{self.path}`: {exc.strerror}") from exc


_DATA_DIR_HINT = "choose another folder with `--data-dir` or GENIEX_DATADIR"


def _entries(text: str) -> dict[str, str]:
    entries = json.loads(text)
    if not isinstance(entries, dict):
        raise ValueError("it is not a map of keys to values")
    for name, value in entries.items():
        if isinstance(value, list | dict):
            raise ValueError(f"the value of `{name}` is not a text")
    return {name: str(value) for name, value in entries.items() if value is not None}


def make_data_dir(path: Path) -> None:
    """Make the data folder where it is missing. Raises StoreError where that cannot be."""
    try:
        path.mkdir(mode=0o770, parents=True, exist_ok=True)
    except OSError as exc:
        reason = exc.strerror or type(exc).__name__
        raise StoreError(
            f"cannot make the data folder `{path}`: {reason}", hint=_DATA_DIR_HINT
        ) from exc


def find_data_dir(flag: str | None, environ: Mapping[str, str]) -> Path:
    """The data folder as an absolute path: `--data-dir`, GENIEX_DATADIR, else ~/.cache/geniex.

    Raises UsageError where the home folder is needed and unknown, StoreError for a file.
    """
    if flag is not None and not flag.strip():
        raise UsageError("`--data-dir` is empty", hint="give a folder, or leave the flag out")
    text = flag or environ.get("GENIEX_DATADIR") or "~/.cache/geniex"
    try:
        path = Path(text).expanduser()
    except RuntimeError as exc:
        raise UsageError(f"`{text}`: the home folder is not known", hint=_DATA_DIR_HINT) from exc
    path = Path(os.path.abspath(path))  # noqa: PTH100  (a symbolic link stays as the user wrote it)
    if path.exists() and not path.is_dir():
        raise StoreError(f"`{path}` is not a folder", hint=_DATA_DIR_HINT)
    return path


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
                values[key.name] = _parsed(key, text, source)
                said |= {key.name} if texts is environ else set()
        if flags.get(key.name) is not None:
            said.add(key.name)
            values[key.name] = _parsed(key, str(flags[key.name]), f"--{key.name.replace('_', '-')}")
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
        verbose=bool(flags.get("verbose")),
        sliding_window=bool(flags.get("sliding_window")),
        offline=bool(flags.get("offline")) or is_yes(environ.get("GENIEX_OFFLINE", "")),
        best=_best(entries),
        said=frozenset(said),
        **values,
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


def _parsed(key: Key, text: str, source: str) -> str | int:
    try:
        return key.parse(text)
    except UsageError as exc:
        raise UsageError(f"{source}: {exc.message}", hint=exc.hint) from None
