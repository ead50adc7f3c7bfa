"""Files that other programs have fetched: the cache of `huggingface_hub`, which is only read.

Its layout: `<cache>/models--org--repo/blobs/<name>`, where the name of a large file's blob is its
sha256. The blob may be a link into a store of blobs that several repositories share.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from geniex_catalogue.hubs.transfer import Fetch


def folder() -> Path | None:
    """The cache's folder, as `huggingface_hub` finds it; None where there is none."""
    environ = os.environ
    try:
        home = Path(
            environ.get("HF_HOME")
            or Path(environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
        )
        named = environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE")
        found = Path(os.path.expandvars(named or home / "hub")).expanduser()
        return found if found.is_dir() else None
    except (OSError, RuntimeError):
        # no home folder, or one that cannot be read: no cache
        return None


def find_all(repo: str, jobs: Iterable[Fetch]) -> dict[str, Path]:
    """Where files of a repository are in the cache already, by their names in the jobs.

    Only what has the right name and size; the bytes are not looked at here.
    """
    cache = folder()
    if cache is None:
        return {}
    blobs = cache / f"models--{repo.replace('/', '--')}" / "blobs"
    found = {job.name: _blob(blobs, job) for job in jobs}
    return {name: path for name, path in found.items() if path is not None}


def _blob(blobs: Path, job: Fetch) -> Path | None:
    if job.sha256 is None or job.size is None:
        return None
    try:
        path = (blobs / job.sha256.lower()).resolve(strict=True)
        good = path.is_file() and path.stat().st_size == job.size and os.access(path, os.R_OK)
    except (OSError, RuntimeError):
        return None
    return path if good else None


def can_link(path: Path, target: Path) -> bool:
    """Whether a hard link to a file can be made where `target` is or will be."""
    try:
        place = next(found for found in (target, *target.parents) if found.exists())
        return path.stat().st_dev == place.stat().st_dev
    except OSError:
        return False
