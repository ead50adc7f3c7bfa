"""The models of a store that change while it is served, and what they were at any time."""

import hashlib
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from geniex_catalogue.hubs.localfs import import_path
from geniex_catalogue.names import parse
from geniex_catalogue.store import Store

GONE = "gone"  # in the place of a digest: the store has the model, the disk has not
_PATIENCE = 120.0


@dataclass(frozen=True)
class Version:
    """What a name meant, from the moment at which that began to come; None is nothing."""

    since: float
    digest: str | None
    settled: float  # from here on it is this one for sure


def digest_of(file: Path) -> str:
    """What tells the bytes of a model."""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12]


class Shelf:
    """The store in a data folder. Usable from any thread."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self._lock = threading.Lock()
        self._versions: dict[str, list[Version]] = {}

    def put(self, name: str, file: Path) -> None:
        """A model that is here from the beginning."""
        import_path(parse(name), file, Store(self.data_dir))
        self._versions[name] = [Version(0.0, digest_of(file), 0.0)]

    def pull(self, name: str, file: Path) -> None:
        """Other bytes under the same name, by `geniex pull`."""
        with self._changing(name, digest_of(file)):
            self.geniex("pull", name, "--local-path", str(file))

    def rename_over(self, name: str, file: Path) -> None:
        """Other bytes in the place of the model's file, by a rename behind our back."""
        with self._changing(name, digest_of(file)):
            there = self._file(name)
            beside = there.with_name("beside.tmp")
            shutil.copyfile(file, beside)
            beside.replace(there)

    def remove(self, name: str) -> None:
        """Remove a model by `geniex remove`."""
        with self._changing(name, None):
            self.geniex("remove", name, "--yes")

    def unlink(self, name: str) -> None:
        """Delete the file of a model behind geniex's back."""
        with self._changing(name, GONE):
            self._file(name).unlink()

    def meant(self, name: str, since: float, until: float) -> set[str | None]:
        """What a name may have meant between two times of the monotonic clock."""
        with self._lock:
            known = list(self._versions[name])
        ends = [*(after.settled for after in known[1:]), float("inf")]
        return {
            one.digest
            for one, end in zip(known, ends, strict=True)
            if one.since <= until and since <= end
        }

    def names(self) -> list[str]:
        """All names, those of what is gone too."""
        return list(self._versions)

    def geniex(self, *words: str, code: int = 0) -> str:
        """Run a command on the store; its output. Raises RuntimeError for another exit code."""
        done = subprocess.run(
            [sys.executable, "-m", "geniex", *words, "--data-dir", str(self.data_dir)],
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode != code:
            raise RuntimeError(f"geniex {' '.join(words)}: {done.returncode}, {done.stderr}")
        return done.stdout + done.stderr

    def _file(self, name: str) -> Path:
        [file] = Store(self.data_dir).folder(parse(name)).glob("*.gguf")
        return file

    @contextmanager
    def _changing(self, name: str, digest: str | None) -> Iterator[None]:
        began = time.monotonic()
        with self._lock:
            self._versions[name].append(Version(began, digest, float("inf")))
        try:
            yield
        finally:
            with self._lock:
                self._versions[name][-1] = Version(began, digest, time.monotonic())
