"""The wheel of llama-cpp-python: flags, folder, command, and what is said without a compiler."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ci import llama_wheel
from ci.llama_wheel import BASE_FLAGS, NO_AMX, BuildError

VERSION = "1.2.3"


def fake_build(monkeypatch: pytest.MonkeyPatch, returncode: int = 0) -> list[list[str]]:
    """Let pip 'build' an empty wheel; the commands that were run."""
    commands: list[list[str]] = []

    class Finished:
        def __init__(self) -> None:
            self.returncode = returncode

    def run(command: list[str], **_: object) -> Finished:
        commands.append(command)
        if returncode == 0:
            folder = Path(command[command.index("--wheel-dir") + 1])
            (folder / f"llama_cpp_python-{VERSION}-py3-none-any.whl").touch()
        return Finished()

    monkeypatch.setattr(llama_wheel, "require_compiler", lambda: None)
    # fixed, since `accepts` runs the compiler through the same door
    monkeypatch.setattr(llama_wheel, "cmake_args", lambda environ=None: "-DFIXED=ON")
    monkeypatch.setattr(subprocess, "run", run)
    return commands


@pytest.mark.parametrize("known", [True, False], ids=["knows-amx", "refuses-amx"])
def test_amx_is_switched_off_where_the_compiler_knows_it(
    known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(llama_wheel, "c_compiler", lambda environ: "cc")
    monkeypatch.setattr(llama_wheel, "accepts", lambda compiler, flags: known)
    args = llama_wheel.cmake_args({})
    assert args.startswith(" ".join(BASE_FLAGS))
    assert (" ".join(NO_AMX) in args) is known


def test_windows_gets_no_flags_of_gcc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert llama_wheel.cmake_args({}) == " ".join(BASE_FLAGS)


def test_the_users_own_flags_come_last() -> None:
    assert llama_wheel.cmake_args({"CMAKE_ARGS": "-DGGML_CUDA=ON"}).endswith(" -DGGML_CUDA=ON")


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler here")
def test_a_real_compiler_is_asked() -> None:
    assert llama_wheel.accepts("cc", ("-O2",))
    assert not llama_wheel.accepts("cc", ("-mno-such-thing",))


def test_other_flags_another_cpu_and_another_version_have_their_own_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folders = {
        llama_wheel.wheel_folder(VERSION, {}),
        llama_wheel.wheel_folder("1.2.4", {}),
        llama_wheel.wheel_folder(VERSION, {"CMAKE_ARGS": "-DGGML_CUDA=ON"}),
    }
    monkeypatch.setattr(llama_wheel, "cpu_fingerprint", lambda: "avx512f")
    folders.add(llama_wheel.wheel_folder(VERSION, {}))
    assert len(folders) == 4
    assert llama_wheel.wheel_folder(VERSION, {}) == llama_wheel.wheel_folder(VERSION, {})


def test_the_cache_follows_the_platforms_custom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert llama_wheel.cache_root({"XDG_CACHE_HOME": "/c"}) == Path("/c/geniex-build")
    assert llama_wheel.cache_root({}) == Path.home() / ".cache" / "geniex-build"
    monkeypatch.setattr(sys, "platform", "win32")
    assert llama_wheel.cache_root({"LOCALAPPDATA": "/l"}) == Path("/l/geniex-build")


def test_a_wheel_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = fake_build(monkeypatch)
    wheel = llama_wheel.ensure_wheel(Path("python"), VERSION)
    assert wheel.is_file()
    assert wheel.parent == llama_wheel.wheel_folder(VERSION)
    assert llama_wheel.ensure_wheel(Path("python"), VERSION) == wheel
    (command,) = commands
    # pip's own cache would hand out a wheel that was built with other flags
    assert {"--no-cache-dir", "--no-deps", f"llama-cpp-python=={VERSION}"} <= set(command)
    assert command[command.index("--no-binary") + 1] == "llama-cpp-python"


def test_a_broken_off_build_leaves_no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_build(monkeypatch, returncode=1)
    with pytest.raises(BuildError, match=r"1\.2\.3 did not compile"):
        llama_wheel.ensure_wheel(Path("python"), VERSION)
    assert not list(llama_wheel.cache_root().rglob("*.whl"))
    assert list((llama_wheel.cache_root() / "wheels").iterdir()) == []


def test_every_core_builds_unless_the_user_says_otherwise() -> None:
    assert int(llama_wheel.build_environment({})["CMAKE_BUILD_PARALLEL_LEVEL"]) >= 1
    chosen = llama_wheel.build_environment({"CMAKE_BUILD_PARALLEL_LEVEL": "3", "PATH": "/bin"})
    assert chosen["CMAKE_BUILD_PARALLEL_LEVEL"] == "3"
    assert chosen["PATH"] == "/bin"


@pytest.mark.parametrize(
    ("platform", "tool", "advice"),
    [
        pytest.param("linux", "apt-get", "sudo apt-get install build-essential", id="debian"),
        pytest.param("linux", "dnf", "sudo dnf install gcc gcc-c++", id="fedora"),
        pytest.param("darwin", "", "xcode-select --install", id="mac"),
        pytest.param("win32", "", "winget install Microsoft.VisualStudio", id="windows"),
    ],
)
def test_without_a_compiler_the_command_that_helps_is_told(
    platform: str, tool: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(shutil, "which", lambda name: name if name == tool else None)
    with pytest.raises(BuildError, match="no C\\+\\+ compiler") as caught:
        llama_wheel.require_compiler({})
    assert advice in str(caught.value)
