"""A command in surroundings that are broken: it does its work, or says what is missing."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.terminal import environment

pytestmark = pytest.mark.skipif(os.name == "nt", reason="these are surroundings of POSIX")

ASK = ("infer", "tiny", "-p", "What is the capital of France?", "--temperature", "0", "-q")
ANSWER = "The capital of France is Paris.\n"
PATIENCE = 60.0

Prepare = Callable[[], None]


@dataclass(frozen=True)
class Case:
    """Surroundings: variables (None: not there), and what the child does before it begins.

    `missing` is what the command says of them on stderr.
    """

    variables: dict[str, str | None] = field(default_factory=dict)
    prepare: Prepare | None = None
    words: tuple[str, ...] = ASK
    code: int = 0
    out: str | None = ANSWER
    missing: str = ""


def limit(files: int) -> Prepare:
    """At most so many open files."""

    def prepare() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    return prepare


def close(*descriptors: int) -> Prepare:
    """Begin with closed streams."""

    def prepare() -> None:
        for one in descriptors:
            os.close(one)

    return prepare


def full(descriptor: int) -> Prepare:
    """Begin with a stream into a disk that is full."""

    def prepare() -> None:
        os.dup2(os.open("/dev/full", os.O_WRONLY), descriptor)

    return prepare


def mask(bits: int) -> Prepare:
    """Begin with a umask."""

    def prepare() -> None:
        os.umask(bits)

    return prepare


def leave_no_folder() -> None:
    """Begin in a folder that is gone."""
    folder = Path.cwd() / "gone"
    folder.mkdir()
    os.chdir(folder)
    folder.rmdir()


LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no /dev/full")
PULL = ("pull", "local/mine", "--local-path", "MODEL")
CASES = [
    pytest.param(Case({"HOME": None, "USER": None}), id="no-home"),
    pytest.param(Case({"HOME": "/dev/null"}), id="home-is-no-folder"),
    pytest.param(
        Case({"HOME": "/dev/null"}, words=PULL, code=5, out="", missing="cannot be written"),
        id="pull-without-a-home",
    ),
    pytest.param(Case({"HOME": "READ_ONLY"}), id="read-only-home"),
    pytest.param(
        Case({"HOME": "READ_ONLY"}, words=PULL, code=5, out="", missing="cannot be written"),
        id="pull-into-a-read-only-home",
    ),
    pytest.param(Case({"LC_ALL": "C", "LANG": None}), id="LC_ALL=C"),
    pytest.param(
        Case({"PYTHONIOENCODING": "cp1252", "TERM": "dumb"}, mask(0o077)),
        id="cp1252-dumb-terminal-umask-077",
    ),
    pytest.param(
        Case({"TERM": None, "PATH": None, "TMPDIR": "/nonexistent"}, mask(0)),
        id="bare-environment-umask-000",
    ),
    pytest.param(Case({"TMPDIR": "READ_ONLY"}), id="read-only-temporary-folder"),
    pytest.param(Case(prepare=limit(64)), id="few-open-files"),
    pytest.param(Case(prepare=leave_no_folder), id="working-folder-is-gone"),
    pytest.param(Case(prepare=close(2)), id="stderr-closed"),
    pytest.param(Case(prepare=full(2)), id="stderr-full", marks=LINUX),
    pytest.param(
        Case(prepare=close(1), code=1, out="", missing="stdout is closed"), id="stdout-closed"
    ),
    pytest.param(
        Case(prepare=full(1), code=5, out="", missing="No space left"),
        id="stdout-full",
        marks=LINUX,
    ),
    pytest.param(
        Case(words=("list", "--json"), prepare=full(1), code=5, out="", missing="No space left"),
        id="list-into-a-full-disk",
        marks=LINUX,
    ),
    pytest.param(
        Case({"HOME": "dönnées 模型", "LC_ALL": "C"}, words=PULL, out=None), id="letters-in-paths"
    ),
]


@contextmanager
def read_only(folder: Path) -> Iterator[Path]:
    """A folder that nobody can write to; for root that takes a file system of its own."""
    folder.mkdir()
    if os.geteuid() != 0:
        folder.chmod(0o500)
        yield folder
        folder.chmod(0o700)
        return
    mount = ["mount", "-t", "tmpfs", "-o", "ro,size=64k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("root may write anywhere, and nothing can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("case", CASES)
def test_surroundings(case: Case, tmp_path: Path, tiny_chat: Path) -> None:
    variables = dict(case.variables)
    model = tmp_path / "mödel 型.gguf"
    model.symlink_to(tiny_chat)
    words = [str(model) if word == "MODEL" else word for word in case.words]
    with contextlib.ExitStack() as stack:
        for name, value in variables.items():
            if value == "READ_ONLY":
                variables[name] = str(stack.enter_context(read_only(tmp_path / "read-only")))
            elif value is not None and name == "HOME" and not value.startswith("/"):
                variables[name] = str(tmp_path / value)
        given = environment(HOME=str(tmp_path / "home")) | variables
        done = subprocess.run(
            [sys.executable, "-m", "geniex", *words],
            cwd=tmp_path,
            env={name: value for name, value in given.items() if value is not None},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=PATIENCE,
            preexec_fn=case.prepare,
            check=False,
        )
    assert done.returncode == case.code, done.stderr
    if case.out is not None:
        assert done.stdout == case.out
    assert case.missing in done.stderr
    assert "Traceback" not in done.stderr
