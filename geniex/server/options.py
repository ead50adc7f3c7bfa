"""What the operator chose for the server, put together by `geniex serve`."""

from dataclasses import dataclass
from pathlib import Path

from geniex.api_keys import KeyRing
from geniex.keys import LOOPBACK

MAX_BODY = 64 << 20  # bytes: a chat of a million tokens, or some pictures
MAX_CONNECTIONS = 512  # half of the files that a process may have open on most systems


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How to serve.

    `keys` are what clients must send one of (None: nothing). `allowed_hosts` are names by which the
    server may be called beside those of the machine, `origins` the web pages that may call
    (`loopback`: those of this machine; `*`: any). `max_body` is bytes, `max_connections` how many
    clients may be connected. `grammar_dir` is the only folder that `grammar_path` may name (None:
    none). `grace` is the seconds that running answers get to end. `preload` are the models to load
    at the start; `paths` are the models by path that the operator named, so that requests may name
    them, too.
    """

    keys: KeyRing | None = None
    allowed_hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = (LOOPBACK,)
    max_body: int = MAX_BODY
    max_connections: int = MAX_CONNECTIONS
    grammar_dir: Path | None = None
    grace: float = 30.0
    preload: tuple[str, ...] = ()
    paths: frozenset[str] = frozenset()
