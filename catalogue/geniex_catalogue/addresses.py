"""Addresses as they are pasted from a browser or another tool, read as a model's name.

    https://huggingface.co/org/repo[/tree/REV[/folder]]     also http, www., hf.co, no scheme at all
    https://huggingface.co/org/repo/{blob,resolve,raw}/REV/file.gguf[?download=true]
    https://huggingface.co/org/repo?show_file_info=file.gguf
    hf://org/repo[/file.gguf]   hf:org/repo   hf.co/org/repo:Q4_K_M
    https://aihub.qualcomm.com/[compute/]models/name        -> qualcomm/name
    docker.io/org/repo[:tag]    https://hub.docker.com/r/org/repo[/tags]     also without a scheme

A revision in an address is not part of a name, and is left out. A folder named after a precision
is read as that precision.
"""

import re
from urllib.parse import parse_qs, unquote

from geniex_catalogue import precision
from geniex_catalogue.errors import ModelRefError

HUGGING_FACE_HOSTS = frozenset(
    {"huggingface.co", "www.huggingface.co", "hf.co", "www.hf.co", "hf-mirror.com"}
)
AI_HUB_HOSTS = frozenset({"aihub.qualcomm.com", "www.aihub.qualcomm.com", "app.aihub.qualcomm.com"})
HOSTS = HUGGING_FACE_HOSTS | AI_HUB_HOSTS

DOCKER = "docker.io/"
_DOCKER = re.compile(
    r"(?:(?:https?://)?(?:docker\.io|index\.docker\.io|registry-1\.docker\.io)/"
    r"|(?:https?://)?hub\.docker\.com/(?:r|layers|repository/docker)/)(.*)",
    re.IGNORECASE,
)
# what Docker Hub's pages have after a repository's name
_DOCKER_PAGE = re.compile(r"/(?:tags|general|builds)(?:[/?#].*)?$|[?#].*$")
_SCHEME = re.compile(r"(?:(https?|hf|huggingface)://|(hf|huggingface):)(.*)", re.IGNORECASE)
# two letters at least: `C://` is a drive
_OTHER_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_SHOWN = 120
_WITH_REVISION = frozenset({"blob", "resolve", "raw", "tree", "blame", "commits", "edit"})
# first segments of Hugging Face pages that are not models
_NOT_MODELS = frozenset(
    {"blog", "buckets", "chat", "collections", "datasets", "docs", "join", "learn"}
)
_NOT_MODELS |= {"login", "models", "new", "organizations", "papers", "posts", "settings", "spaces"}
_EXPECTED = "an address looks like `https://huggingface.co/org/repo`"


def read_address(text: str) -> str | None:
    """The name in an address, as `org/repo[:selector]` (not yet checked), or None for other text.

    Raises ModelRefError for an address of something else than a model.
    """
    scheme, rest, host = "", text, ""
    shown = text[:_SHOWN]
    if match := _SCHEME.fullmatch(text):
        scheme, rest = (match.group(1) or match.group(2)).lower(), match.group(3)
    elif _OTHER_SCHEME.match(text) and not text.lower().startswith("file:"):
        raise ModelRefError(f"`{shown}` is not an address of a known hub", hint=_EXPECTED)
    if scheme in ("", "http", "https"):
        host, _, rest = rest.partition("/")
        # without a user before and a port behind
        host = host.rpartition("@")[2].partition(":")[0].lower()
        if host not in HOSTS:
            if not scheme:
                return None
            raise ModelRefError(f"`{shown}` is not an address of a known hub", hint=_EXPECTED)
    rest, _, query = rest.partition("#")[0].partition("?")
    if ":" in rest:
        return rest
    segments = [unquote(part) for part in rest.split("/") if part.strip()]
    if host in AI_HUB_HOSTS:
        return _ai_hub(shown, segments)
    return _hugging_face(shown, segments, query)


def read_docker(text: str) -> str | None:
    """The `org/repo[:tag]` in a name or address of Docker Hub, or None for other text."""
    found = _DOCKER.fullmatch(text)
    return _DOCKER_PAGE.sub("", found[1]) if found is not None else None


def _ai_hub(shown: str, segments: list[str]) -> str:
    if "models" not in segments[:-1]:
        raise ModelRefError(
            f"`{shown}` is not the address of a model",
            hint="an address looks like `https://aihub.qualcomm.com/models/name`",
        )
    return f"qualcomm/{segments[segments.index('models') + 1]}"


def _hugging_face(shown: str, segments: list[str], query: str) -> str:
    if segments[:2] == ["api", "models"]:
        segments = segments[2:]
    if len(segments) < 2 or segments[0].lower() in _NOT_MODELS:
        raise ModelRefError(f"`{shown}` is not the address of a model", hint=_EXPECTED)
    org, repo = segments[0], segments[1].partition("@")[0]
    selector = _selector(segments[2:])
    for shown in parse_qs(query).get("show_file_info", ()):
        selector = selector or (shown if shown.lower().endswith(".gguf") else None)
    return f"{org}/{repo}:{selector}" if selector else f"{org}/{repo}"


def _selector(rest: list[str]) -> str | None:
    """What the part of an address after the repository chooses: a file, a precision, or nothing."""
    if rest and rest[0] in _WITH_REVISION:
        # `refs/pr/1` is a revision of three segments
        rest = rest[4:] if rest[1:2] == ["refs"] else rest[2:]
    path = "/".join(rest)
    if path.lower().endswith(".gguf"):
        return path
    return precision.label_of(f"{path}/_") if path else None
