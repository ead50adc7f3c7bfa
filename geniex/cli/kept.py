"""The flags for what is kept on disk of chats and prompts, and the server's folder for them."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from geniex.config import Settings
from geniex_catalogue.errors import UsageError
from geniex_catalogue.sizes import size_text
from geniex_runtimes.options import PrefixCache

CacheDir = Annotated[
    Path | None,
    typer.Option(
        "--cache-dir",
        help="Keep long prompts here, to go on from after a restart: private text [default: none]",
    ),
]
CacheSize = Annotated[
    str | None,
    typer.Option("--cache-size", metavar="SIZE", help="What may be kept there [default: 4G]"),
]

SaveSession = Annotated[
    Path | None,
    typer.Option(
        "--save-session",
        metavar="FILE",
        help="Go on with the chat in this file, and keep it there: private text",
    ),
]


def with_cache(settings: Settings, *, sized: bool) -> Settings:
    """The settings with the cache that they ask for; `sized`: a flag says its size.

    Raises UsageError for a folder that cannot be made or written to.
    """
    if settings.cache_dir is None:
        if sized:
            raise UsageError("`--cache-size` does nothing alone", hint="add `--cache-dir DIR`")
        return settings
    folder = Path(settings.cache_dir).expanduser().absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise UsageError(f"`{folder}` cannot be a cache: {exc.strerror}") from exc
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"`{folder}` cannot be written to", hint="name another `--cache-dir`")
    return replace(settings, prefix_cache=PrefixCache(folder=folder, size=settings.cache_size))


def told(cache: PrefixCache) -> str:
    """What the operator is told."""
    size = size_text(cache.size)
    return f"Long prompts are kept in {cache.folder}, {size} at most: private text of all clients"
