"""What the operator chose for the server, put together by `geniex serve`."""

from dataclasses import dataclass, field
from pathlib import Path

MAX_BODY = 64 << 20  # bytes: a chat of a million tokens, or some pictures


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How to serve.

    `origins` are the web pages that may call (`*`: any). `max_body` is bytes. `grammar_dir` is the
    only folder that `grammar_path` may name (None: none). `grace` is the seconds that running
    answers get to end. `preload` are the models to load at the start; `paths` are the models by
    path that the operator named, so that requests may name them, too.
    """

    api_key: str | None = field(default=None, repr=False)
    origins: tuple[str, ...] = ()
    max_body: int = MAX_BODY
    grammar_dir: Path | None = None
    grace: float = 30.0
    preload: tuple[str, ...] = ()
    paths: frozenset[str] = frozenset()
