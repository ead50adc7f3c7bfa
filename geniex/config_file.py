"""The file of settings, and the folder that it is in."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from geniex.best import PREFIX, Best
from geniex.keys import key_of, parsed
from geniex_catalogue.errors import StoreError, UsageError
from geniex_catalogue.regular import read_regular

_MAX_BYTES = 1 << 20


class ConfigFile:
    """`<data>/config.json`: a flat map of texts, replaced as a whole."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / "config.json"

    def read(self) -> dict[str, str]:
        """All entries; empty where there is no file. Raises StoreError for a damaged one."""
        text = self._text()
        try:
            return _entries(text) if text is not None else {}
        except (ValueError, RecursionError) as exc:
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
            value = str(parsed(key, value, f"`{name}`"))
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
        except (ValueError, RecursionError):
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
        # a home that is no folder, such as /dev/null, has no file either
        except (FileNotFoundError, NotADirectoryError):
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
