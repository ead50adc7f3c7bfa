"""A model's name, as a user types it, read once into a ModelRef.

    name      = org "/" repo [ ":" selector ]  |  alias [ ":" selector ]
    selector  = precision  |  file                  an empty selector is none
    org, repo = ( letter | digit | "_" ) { letter | digit | "_" | "-" | "." }
    precision = ( letter | digit ) { letter | digit | "_" | "-" | "." | "+" }       in any case
    file      = { folder "/" } stem ".gguf"         repo-relative

* ASCII only; org, repo and each part of a file at most 255 bytes, a file with its folders at most
  1000. Neither org nor repo ends with a dot, holds `..`, is a device name of Windows (`con`, `nul`,
  `com1` ...) or begins with a dash; a repo does not end with `.gguf` (such text is a path). So a
  name cannot lead out of the store.
* `qualcomm` and `ai-hub-models`, in any case, are one org: `qualcomm`. All else keeps its case.
  `local/<name>` is what was imported from this machine.
* An alias has no slash and any case; the catalogue says what it stands for. A selector typed after
  an alias replaces the alias's own.
* `docker.io/org/repo[:tag]` is a model on Docker Hub; the tag is its precision here, and keeps its
  case for the hub. Without the prefix the same name finds what was pulled so.
* Around the whole, its parts and the colon, spaces, surrounding quotes and leading or trailing
  slashes do not count. Addresses from a browser are names too: see `addresses`.
* Text that begins with `/`, `./`, `../`, `~`, a drive (`C:`) or `\\\\`, or that ends with `.gguf`
  and has no colon, is a path, never a name (but `/org/repo` is a name with a stray slash if there
  is no folder `/org`). `local_path` finds what exists, and goes first.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote

from geniex_catalogue.addresses import DOCKER, HOSTS, read_address, read_docker
from geniex_catalogue.bundle_files import are_bundle
from geniex_catalogue.errors import ModelNotFoundError, ModelPathError, ModelRefError

AI_HUB_ORG = "qualcomm"
_AI_HUB_ORGS = frozenset({AI_HUB_ORG, "ai-hub-models"})
LOCAL_ORG = "local"

# how alike a suggestion is at least (1: equal); and how alike what holds the text counts
_ALIKE = 0.5
_INSIDE = 0.8
_MAX_TEXT = 4096
_MAX_BYTES = 255
# bytes of a file's name with its folders: more than any hub needs, less than any system takes
MAX_FILE_NAME = 1000
_EXPECTED = "a name looks like `org/repo` or `org/repo:Q4_0`; `geniex list` shows what is here"
_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_PRECISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$"]
    + [f"{port}{n}" for port in ("com", "lpt") for n in "0123456789¹²³"]
)
_UNSAFE = frozenset('\\:<>"|?*')
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
_PATH_START = re.compile(r"[A-Za-z]:|\\\\|\.{1,2}(?:[/\\]|$)|~|/")
_QUOTES = {'"': '"', "'": "'", "`": "`", "<": ">", "\u201c": "\u201d", "\u2018": "\u2019"}
# byte order mark and zero-width space come along with pasted text
_EDGES = "\ufeff\u200b"


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model: `org/repo`, and which of its files: a precision label, a file name, or neither.

    `hub` is where to fetch it from, where the name alone does not say (`docker`, `huggingface`);
    `tag` is a precision as it was typed, for hubs that tell case apart. Every instance is safe to
    use below the store's folder. Raises ModelRefError otherwise.
    """

    org: str
    repo: str
    precision: str | None = None
    file: str | None = None
    hub: str | None = field(default=None, compare=False)
    tag: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.org.lower() in _AI_HUB_ORGS:
            object.__setattr__(self, "org", AI_HUB_ORG)
        for part in (self.org, self.repo):
            if problem := _segment_problem(part):
                raise ModelRefError(f"`{_shown(self.name)}` {problem}", hint=_EXPECTED)
        if self.org.lower() in HOSTS:
            raise ModelRefError(f"`{_shown(self.name)}` has no organisation", hint=_EXPECTED)
        if self.repo.lower().endswith(".gguf"):
            raise ModelRefError(
                f"`{_shown(self.name)}` is a file, not a repository",
                hint="a file of a model is chosen with `org/repo:file.gguf`",
            )
        if self.precision is not None:
            if not _PRECISION.fullmatch(self.precision) or _is_gguf(self.precision):
                raise ModelRefError(
                    f"`{_shown(self.precision)}` is not a precision", hint=_EXPECTED
                )
            object.__setattr__(self, "precision", self.precision.upper())
        if self.file is not None:
            if self.precision is not None or not _is_gguf(self.file):
                raise ModelRefError(f"`{_shown(self.file)}` is not a .gguf file", hint=_EXPECTED)
            check_file_name(self.file)

    @property
    def name(self) -> str:
        """`org/repo`."""
        return f"{self.org}/{self.repo}"

    @property
    def selector(self) -> str | None:
        """The precision or the file name, if any."""
        return self.precision or self.file

    def __str__(self) -> str:
        name = f"{DOCKER}{self.name}" if self.hub == "docker" else self.name
        selector = self.tag or self.selector
        return f"{name}:{selector}" if selector else name

    def with_precision(self, label: str) -> "ModelRef":
        """The same model in another precision."""
        return replace(self, precision=label, file=None, tag=None)

    def without_selector(self) -> "ModelRef":
        """The model alone."""
        return replace(self, precision=None, file=None, tag=None)


def org_spelling(org: str) -> str:
    """What an org has in common with all its other spellings."""
    return AI_HUB_ORG if org.lower() in _AI_HUB_ORGS else org.lower()


def parse(text: str, aliases: Mapping[str, str] | None = None, *, paths: bool = True) -> ModelRef:
    """Read a name by the grammar above; `aliases` maps a lower-case alias to a full name.

    Without `paths` nothing on disk is looked at, as text of strangers needs it, and a slash before
    a name is none too many but makes it a path. Raises
    ModelRefError for what is no name, ModelNotFoundError with suggestions for a bare name that is
    no alias, ModelPathError for a path where nothing is.
    """
    clean = _clean(text)
    if not clean:
        raise ModelRefError("a model's name is empty", hint=_EXPECTED)
    if len(clean) > _MAX_TEXT:
        raise ModelRefError(f"`{_shown(clean)}` is too long for a name", hint=_EXPECTED)
    if not clean.isprintable():
        raise ModelRefError(f"`{_shown(clean)}` holds invisible characters", hint=_EXPECTED)
    docker = read_docker(clean)
    if docker is not None:
        return _on_docker_hub(docker, clean)
    address = read_address(clean)
    if address is None and _is_path(clean) and not _has_stray_slash(clean, paths=paths):
        raise _path_error(text, clean, paths=paths)
    head, _, selector = (clean if address is None else address).partition(":")
    parts = [part.strip() for part in head.strip("/ ").split("/")]
    if len(parts) == 1:
        ref = _from_alias(parts[0], aliases or {})
    elif len(parts) == 2 and not _is_address("/".join(parts)):
        ref = ModelRef(*parts)
    else:
        raise ModelRefError(f"`{_shown(clean)}` is not of the form `org/repo`", hint=_EXPECTED)
    return _select(ref, selector.strip("/ "))


def _is_address(text: str) -> bool:
    """Whether `org/repo` would read as something else once it is written out."""
    return read_docker(text) is not None or read_address(text) is not None


def _from_alias(text: str, aliases: Mapping[str, str]) -> ModelRef:
    known = aliases.get(text.lower())
    if known is not None:
        return parse(known)
    if problem := _segment_problem(text):
        raise ModelRefError(f"`{_shown(text)}` {problem}", hint=_EXPECTED)
    near = suggest(text, aliases)
    raise ModelNotFoundError(text, near, hint=None if near else _EXPECTED)


def _on_docker_hub(text: str, clean: str) -> ModelRef:
    """The model that a name on Docker Hub means; `latest` is what a name without a tag means."""
    name, _, tag = text.strip("/ ").partition(":")
    parts = name.split("/")
    if len(parts) != 2 or "@" in text or "/" in tag:
        raise ModelRefError(
            f"`{_shown(clean)}` is no model on Docker Hub",
            hint=f"it looks like `{DOCKER}ai/smollm2` or `{DOCKER}ai/smollm2:360M-Q4_K_M`",
        )
    ref = replace(ModelRef(*parts), hub="docker")
    tag = tag.strip()
    if not tag or tag == "latest":
        return ref
    return replace(ref.with_precision(tag), tag=tag)


def _select(ref: ModelRef, selector: str) -> ModelRef:
    if not selector:
        return ref
    if _is_gguf(selector):
        return replace(ref, precision=None, file=selector)
    return ref.with_precision(selector)


def suggest(text: str, aliases: Mapping[str, str]) -> tuple[str, ...]:
    """Up to three aliases that are like `text`, or whose models are, the likest first."""
    # imported here: only an error needs it
    from difflib import SequenceMatcher

    wanted = text.strip().lower()[:64]
    best: dict[str, tuple[float, str]] = {}
    for alias, full in aliases.items():
        name = full.partition(":")[0].lower()
        score = 0.0
        for known in (alias, name, name.partition("/")[2]):
            alike = SequenceMatcher(None, wanted, known).ratio()
            inside = len(wanted) > 2 and wanted in known
            score = max(score, alike, _INSIDE if inside else 0.0)
        best[name] = min((-score, alias), best.get(name, (0.0, "")))
    ranked = sorted(entry for entry in best.values() if -entry[0] >= _ALIKE)
    return tuple(alias for _, alias in ranked[:3])


def check_file_name(name: str) -> None:
    """Raise ModelRefError unless a repo-relative file name is safe to use below a folder."""
    for part in name.split("/"):
        if problem := _file_part_problem(part):
            raise ModelRefError(
                f"file name `{_shown(name)}` {problem}",
                hint="a file name is relative to its repository, such as `Q4_0/model.gguf`",
            )
    if len(name.encode()) > MAX_FILE_NAME:
        raise ModelRefError(
            f"file name `{_shown(name)}` is longer than {MAX_FILE_NAME} bytes",
            hint="not every system can store it",
        )


def storable(name: str) -> str:
    """A repo-relative file name with `_` for what not every file system takes.

    What leads out, or is too long, stays so: `check_file_name` tells.
    """
    return "/".join(map(_storable_part, name.split("/")))


def _storable_part(part: str) -> str:
    if part in ("", ".", ".."):
        return part
    safe = _PERCENT.sub(lambda found: f"_{found[0][1:]}", part)
    safe = "".join("_" if not c.isprintable() or c in _UNSAFE else c for c in safe)
    inner = safe.strip().rstrip(".")
    start = len(safe) - len(safe.lstrip())
    safe = ("_" * start + inner).ljust(len(safe), "_")
    return f"_{safe}" if is_device(safe) else safe


def is_device(part: str) -> bool:
    """Whether a file of that name would be a device on Windows."""
    return part.partition(".")[0].strip().lower() in _DEVICES


def local_path(text: str) -> Path | None:
    """The existing file or folder that `text` means, or None; `~` and `file://` are understood.

    Text that could also be a name counts as a folder only where that folder holds a model.
    Symbolic links are kept.
    """
    for candidate in dict.fromkeys((text, _clean(text))):
        if not candidate.strip():
            continue
        try:
            path = _as_path(candidate)
            if path.is_file() or (path.is_dir() and (_is_path(candidate) or _holds_model(path))):
                return path
        except (OSError, ValueError, RuntimeError):
            # no path at all: a NUL byte, too long, an unknown user after `~`, not readable
            continue
    return None


def _as_path(text: str) -> Path:
    if text.lower().startswith("file://"):
        text = unquote(text[7:])
        # file:///C:/x is how a browser writes a drive
        text = text[1:] if re.match(r"/[A-Za-z]:", text) else text
    return Path(text).expanduser()


def _holds_model(folder: Path) -> bool:
    """Whether a folder holds GGUF files, itself or one level below, or a compiled bundle."""
    if are_bundle({path.name for path in folder.glob("*") if path.is_file()}):
        return True
    return any(_is_gguf(found.name) for depth in ("*", "*/*") for found in folder.glob(depth))


def _is_path(text: str) -> bool:
    """Whether text is written as a path, so that it cannot be a name."""
    if text.lower().startswith("file://"):
        return True
    return bool(_PATH_START.match(text)) or (_is_gguf(text) and ":" not in text)


def _has_stray_slash(text: str, *, paths: bool) -> bool:
    """Whether text is `/org/repo[:selector]` and not a path: nothing is at `/org`."""
    head = text.partition(":")[0]
    org, _, repo = head.strip("/").partition("/")
    stray = text.startswith("/") and bool(repo) and "/" not in repo and not _is_gguf(head)
    return stray and paths and not _is_there(Path("/", org))


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that is too long, a folder that may not be looked into
        return False


def _path_error(text: str, clean: str, *, paths: bool) -> ModelRefError | ModelPathError:
    if paths and local_path(text) is not None:
        return ModelRefError(f"`{_shown(clean)}` is a path here, not a model's name")
    org, _, rest = clean.partition("/")
    repo, _, file = rest.partition("/")
    if file and _SEGMENT.fullmatch(org) and _SEGMENT.fullmatch(repo):
        hint = f"a file of a model is chosen with `{org}/{repo}:{file}`"
        return ModelPathError(_shown(clean), hint=_shown(hint))
    return ModelPathError(_shown(clean))


def _is_gguf(text: str) -> bool:
    return text.lower().endswith(".gguf")


def _segment_problem(part: str) -> str | None:
    """Why an org or repo is refused, or None."""
    if not part:
        return "is not of the form `org/repo`"
    if not _SEGMENT.fullmatch(part):
        return "holds something else than letters, digits, `_`, `-` and `.`, or begins with them"
    if part.endswith(".") or ".." in part:
        return "ends with a dot, or holds two in a row"
    return _common_problem(part)


def _file_part_problem(part: str) -> str | None:
    """Why a folder or file name is refused, or None."""
    if part in ("", ".", ".."):
        return "is not relative to its repository"
    if not part.isprintable() or _UNSAFE & set(part) or _PERCENT.search(part):
        return "holds characters that not every file system takes"
    if part != part.strip() or part.endswith("."):
        return "begins or ends with a space, or ends with a dot"
    return _common_problem(part)


def _common_problem(part: str) -> str | None:
    if is_device(part):
        return "is the name of a device on Windows"
    if len(part.encode()) > _MAX_BYTES:
        return f"is longer than {_MAX_BYTES} bytes"
    return None


def _clean(text: str) -> str:
    """Text without what surrounds a pasted name: spaces, quotes, invisible marks."""
    while True:
        inner = text.strip().strip(_EDGES)
        if len(inner) > 1 and _QUOTES.get(inner[0]) == inner[-1]:
            inner = inner[1:-1]
        if inner == text:
            return text
        text = inner


def _shown(text: str) -> str:
    """Text for a message: short, and without control characters."""
    short = text if len(text) <= 120 else text[:117] + "..."
    return "".join(_escaped(short))


def _escaped(text: str) -> Iterator[str]:
    for character in text:
        yield character if character.isprintable() else f"\\u{ord(character):04x}"
