"""Curated facts about models, from `entries/*.toml`: aliases, drafts, and the built-in tiny pair.

One model in a file of entries (all but `name` and `aliases` may be left out):

    [[entry]]
    name = "org/repo"
    aliases = ["short-name"]               lower case, no slash or colon, of two characters or more
    precision = "Q4_K_M"                   what an alias alone means
    draft = "org/repo:Q4_0"                the draft that was trained for this model
    description = "one line"
    license = "Apache-2.0"
    builtin = { Q8_0 = "file.gguf" }       files in the package's folder `builtin`, by precision
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from geniex_catalogue import names, precision
from geniex_catalogue.errors import CatalogueError, ModelNotFoundError, ModelRefError
from geniex_catalogue.names import ModelRef

# beside this file: importlib.resources would cost every command 20 ms
_ENTRIES = Path(__file__).with_name("entries")
_BUILTIN = Path(__file__).with_name("builtin")

_ALIAS = re.compile(r"[a-z0-9][a-z0-9._-]+")
_TEXTS = ("precision", "draft", "description", "license")
_KEYS = frozenset({"name", "aliases", "builtin", *_TEXTS})


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of one model; `builtin` maps a precision to a file of the package."""

    name: str
    aliases: tuple[str, ...]
    precision: str | None = None
    draft: str | None = None
    description: str = ""
    license: str = ""
    builtin: Mapping[str, str] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """What an alias stands for: `org/repo[:precision]`."""
        return f"{self.name}:{self.precision}" if self.precision else self.name


class Catalogue:
    """All entries, found by name in any case."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = tuple(entries)
        self.aliases: Mapping[str, str] = {
            alias: entry.full_name for entry in self.entries for alias in entry.aliases
        }
        self._builtin = tuple(entry for entry in self.entries if entry.builtin)
        self._by_name = {entry.name.lower(): entry for entry in self.entries}

    def entry(self, ref: ModelRef) -> Entry | None:
        """The entry of a model, in whatever precision."""
        return self._by_name.get(ref.name.lower())

    def is_reserved(self, ref: ModelRef) -> bool:
        """Whether a name is kept for what is built in: the org of such a model is."""
        return any(
            ref.org.lower() == entry.name.partition("/")[0].lower() for entry in self._builtin
        )

    def draft_for(self, ref: ModelRef) -> ModelRef | None:
        """The draft that was trained for a target."""
        entry = self.entry(ref)
        return names.parse(entry.draft) if entry is not None and entry.draft else None

    def suggestions(self, text: str) -> tuple[str, ...]:
        """Up to three aliases like `text`."""
        return names.suggest(text, self.aliases)

    def builtin_file(self, ref: ModelRef) -> tuple[str, Path] | None:
        """Precision and file of a model that ships in the package; None for all other models.

        Raises PrecisionNotFoundError or ModelNotFoundError for a selector that it does not have,
        CatalogueError where the file is gone.
        """
        entry = self.entry(ref)
        if entry is None or not entry.builtin:
            return None
        if ref.file is not None:
            found = [label for label, file in entry.builtin.items() if file == ref.file]
            if not found:
                files = [f"{entry.name}:{file}" for file in entry.builtin.values()]
                raise ModelNotFoundError(str(ref), files)
            label = found[0]
        elif ref.precision is not None:
            label = precision.require(entry.name, ref.precision, entry.builtin)
        else:
            label = precision.preferred(entry.builtin)[0]
        path = _BUILTIN / entry.builtin[label]
        if not path.is_file():
            raise CatalogueError(
                [f"the built-in file `{path.name}` is missing"], hint="install geniex-local again"
            )
        return label, path


@cache
def catalogue() -> Catalogue:
    """The entries of this package, read once."""
    return load(_ENTRIES)


def load(folder: Path) -> Catalogue:
    """Read all `*.toml` files of a folder; raises CatalogueError with every fault of every file."""
    problems: list[str] = []
    entries: list[Entry] = []
    for path in sorted(folder.glob("*.toml")):
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as exc:
            problems.append(f"{path.name}: {exc}")
            continue
        tables = document.pop("entry", [])
        problems += [f"{path.name}: unknown key `{key}`" for key in document]
        if not isinstance(tables, list):
            problems.append(f"{path.name}: `entry` is not written as [[entry]]")
            continue
        for number, table in enumerate(tables, 1):
            faults, entry = _read_entry(table)
            where = f"{path.name}, entry {number}"
            problems += [f"{where}: {fault}" for fault in faults]
            entries += [entry] if entry is not None else []
    problems += _clashes(entries)
    if problems:
        raise CatalogueError(problems)
    return Catalogue(entries)


def _read_entry(table: object) -> tuple[list[str], Entry | None]:
    """All faults of one entry, and the entry as far as it has a name to be checked further by."""
    if not isinstance(table, dict):
        return ["not a table"], None
    faults = [f"unknown key `{key}`" for key in table if key not in _KEYS]
    name, aliases, builtin = table.get("name"), table.get("aliases"), table.get("builtin", {})
    if not isinstance(name, str):
        return [*faults, "`name` is missing or not text"], None
    faults += _name_faults("name", name, bare=True)
    if not isinstance(aliases, list) or not aliases:
        faults.append("`aliases` is missing or not a list")
        aliases = []
    faults += [f"`{a}` is not an alias" for a in aliases if not _is_alias(a)]
    texts = {key: table[key] for key in _TEXTS if key in table}
    faults += [f"`{key}` is not text" for key, value in texts.items() if not isinstance(value, str)]
    texts = {key: value for key, value in texts.items() if isinstance(value, str)}
    if "precision" in texts:
        faults += _label_faults(texts["precision"])
    if "draft" in texts:
        faults += _name_faults("draft", texts["draft"], bare=False)
    if not isinstance(builtin, dict):
        return [*faults, "`builtin` is not a table"], None
    for label, file in builtin.items():
        faults += _label_faults(label)
        if not isinstance(file, str) or not file.endswith(".gguf") or set(file) & set("/\\"):
            faults.append(f"`{file}` is not the name of a built-in file")
    good = tuple(alias for alias in aliases if _is_alias(alias))
    return faults, Entry(name=name, aliases=good, builtin=dict(builtin), **texts)


def _is_alias(value: object) -> bool:
    return isinstance(value, str) and _ALIAS.fullmatch(value) is not None


def _label_faults(label: str) -> list[str]:
    fine = label == precision.canonical(label) and precision.label_of(label) == label
    return [] if fine else [f"`{label}` is not a precision"]


def _name_faults(key: str, text: str, *, bare: bool) -> list[str]:
    try:
        ref = names.parse(text)
    except (ModelRefError, ModelNotFoundError) as exc:
        return [f"`{key}`: {exc.message}"]
    if str(ref) != text or (bare and ref.selector):
        return [f"`{key}`: `{text}` is not written as `{ref.name if bare else ref}`"]
    return []


def _clashes(entries: list[Entry]) -> list[str]:
    """Names and aliases that more than one entry claims."""
    problems: list[str] = []
    owners: dict[str, str] = {}
    for entry in entries:
        for word in (entry.name.lower(), *entry.aliases):
            if word in owners:
                problems.append(f"`{word}` stands for both `{owners[word]}` and `{entry.name}`")
            owners.setdefault(word, entry.name)
    return problems
