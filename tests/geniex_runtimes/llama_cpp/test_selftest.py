"""The self-test: asked once a build, survived by us when the child does not survive it."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from geniex_runtimes.llama_cpp import selftest, survival


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder that looks like the package."""
    folder = tmp_path / "site" / "llama_cpp"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "libllama.so").write_bytes(b"build one")
    return folder


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


class Child:
    """A command that leaves a mark each time it runs, then does something."""

    def __init__(self, folder: Path, then: str) -> None:
        self._marks = folder / "marks"
        code = f"open({str(self._marks)!r}, 'a').write('x')\nimport os, signal, sys, time\n{then}"
        self.command = [sys.executable, "-c", code]

    @property
    def runs(self) -> int:
        return len(self._marks.read_text()) if self._marks.exists() else 0


posix = pytest.mark.skipif(sys.platform == "win32", reason="signals end processes on POSIX")


@pytest.mark.parametrize(
    ("then", "passed", "says", "kept"),
    [
        pytest.param("pass", True, "on: self-test passed", True, id="survives"),
        pytest.param(
            "os.kill(os.getpid(), signal.SIGILL)",
            False,
            "off: the test was killed by SIGILL",
            True,
            id="illegal-instruction",
            marks=posix,
        ),
        pytest.param(
            "os.abort()",
            False,
            "off: the test was killed by SIGABRT",
            True,
            id="abort",
            marks=posix,
        ),
        pytest.param("os._exit(3)", False, "off: the test ended with code 3", True, id="code"),
        pytest.param(
            "sys.exit('no module')",
            False,
            "off: the test did not run: no module",
            False,
            id="python",
        ),
        pytest.param(
            "signal.signal(signal.SIGINT, 0); os.kill(os.getpid(), signal.SIGINT)",
            False,
            "off: the test did not run: the test was killed by SIGINT",
            False,
            id="ctrl-c",
            marks=posix,
        ),
        pytest.param("time.sleep(60)", False, "off: no answer within 0.5 s", True, id="hangs"),
    ],
)
def test_outcomes(
    tmp_path: Path, package: Path, data_dir: Path, then: str, passed: bool, says: str, kept: bool
) -> None:
    child = Child(tmp_path, then)
    timeout = 0.5 if "sleep" in then else 30
    for _ in range(2):
        works, result = selftest.probe(
            data_dir, "a CPU", package=package, command=child.command, timeout=timeout
        )
        assert works is passed
        assert says in (result.found or result.reason or "")
    # a failure of Python itself says nothing about the build, and is looked at again
    assert child.runs == (1 if kept else 2)


def test_what_is_known_is_said_to_be(tmp_path: Path, package: Path, data_dir: Path) -> None:
    child = Child(tmp_path, "pass")
    _, first = selftest.probe(data_dir, "a CPU", package=package, command=child.command)
    _, second = selftest.probe(data_dir, "a CPU", package=package, command=child.command)
    assert "tested now" in (first.found or "")
    assert "tested before" in (second.found or "")
    assert [path.name for path in data_dir.iterdir()] == [selftest.FILE]


@pytest.mark.parametrize("change", ["library", "new-library", "cpu", "version"])
def test_another_build_is_tested_again(
    tmp_path: Path, package: Path, data_dir: Path, change: str
) -> None:
    child = Child(tmp_path, "pass")
    selftest.probe(data_dir, "a CPU", package=package, command=child.command)
    cpu = "a CPU"
    if change == "library":
        (package / "lib" / "libllama.so").write_bytes(b"build two, longer")
    elif change == "new-library":
        (package / "lib" / "libggml-cuda.so").write_bytes(b"")
    elif change == "cpu":
        cpu = "another CPU"
    else:
        facts = package.parent / "llama_cpp_python-9.9.9.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text("Name: llama_cpp_python\nVersion: 9.9.9\n")
    selftest.probe(data_dir, cpu, package=package, command=child.command)
    assert child.runs == 2
    # the older result is kept: two environments may share a data folder
    assert len(json.loads((data_dir / selftest.FILE).read_text())["builds"]) == 2


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"builds": []}', '{"builds": {"x": {"passed": 1, "unknown": 2}}}', "\x00"],
)
def test_a_damaged_file_is_replaced(
    tmp_path: Path, package: Path, data_dir: Path, text: str
) -> None:
    data_dir.mkdir()
    (data_dir / selftest.FILE).write_text(text)
    child = Child(tmp_path, "pass")
    for _ in range(2):
        works, _ = selftest.probe(data_dir, "a CPU", package=package, command=child.command)
        assert works
    assert child.runs == 1


def test_a_folder_that_cannot_be_written(tmp_path: Path, package: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    child = Child(tmp_path, "pass")
    works, result = selftest.probe(
        blocked / "data", "a CPU", package=package, command=child.command
    )
    assert works
    assert "not remembered" in (result.found or "")


def test_a_command_that_does_not_start(package: Path, data_dir: Path) -> None:
    works, result = selftest.probe(data_dir, "a CPU", package=package, command=["/nowhere/python"])
    assert not works
    assert "did not start" in (result.reason or "")


def test_without_the_package(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    monkeypatch.setattr(survival, "package_folder", lambda: None)
    works, result = selftest.probe(data_dir, "a CPU")
    assert (works, result.reason) == (False, "llama-cpp-python is not installed")


def test_the_real_thing(data_dir: Path) -> None:
    works, result = selftest.probe(data_dir, "this CPU")
    assert works, result.reason
    started = time.monotonic()
    assert selftest.probe(data_dir, "this CPU")[0]
    assert time.monotonic() - started < 0.5


def test_the_child_refuses_what_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "no.gguf"
    path.write_bytes(b"GGUF")
    command = selftest._command()
    assert command is not None
    outcome, final = survival.run([*command[:-1], str(path)], selftest.TIMEOUT)
    assert (outcome.passed, final) == (False, False)
    assert "does not load" in (outcome.reason or "")


def test_importing_it_loads_no_library() -> None:
    code = (
        f"import sys; sys.path[:0] = {[p for p in sys.path if p]}; "
        "import geniex_runtimes.hardware; print('llama_cpp' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
