"""The set-up of the clone: what is installed when, and what is left alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from ci import environment, locked
from ci.environment import prepare
from ci.llama_wheel import BuildError


class Clone:
    """A clone whose commands are noted instead of run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.commands: list[list[str]] = []
        self.version = "1.0"
        self.config: dict[str, Any] = {
            "project": {"dependencies": ["numpy>=2", "llama-cpp-python==0.3.36"]},
            "build-system": {},
            "dependency-groups": {"dev": ["pytest>=9"], "bench": ["xllamacpp==1"]},
            "tool": {"hatch": {}},
        }

    def installs(self) -> list[list[str]]:
        """What pip was asked to install since the last call, without its switches."""
        words = [
            [word for word in command[command.index("install") + 1 :] if not word.startswith("--")]
            for command in self.commands
            if "install" in command
        ]
        self.commands.clear()
        return words


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clone:
    clone = Clone(tmp_path)
    venv = tmp_path / ".venv"
    venv.mkdir()
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setattr(environment, "VENV", venv)
    monkeypatch.setattr(environment, "STAMP", venv / "geniex-ready.json")
    monkeypatch.setattr(environment, "works", lambda python: True)
    monkeypatch.setattr(environment, "project", lambda: clone.config)
    monkeypatch.setattr(environment, "ensure_wheel", lambda python, version: Path(f"{version}.whl"))
    monkeypatch.setattr(
        environment, "run", lambda command: clone.commands.append([str(word) for word in command])
    )
    return clone


def test_first_the_wheel_then_the_project_then_nothing(clone: Clone) -> None:
    python = prepare(["dev"])
    assert clone.installs() == [["0.3.36.whl"], [str(clone.root), "pytest>=9"]]
    assert prepare(["dev"]) == python
    assert prepare() == python
    assert clone.installs() == []


def test_a_group_is_added_without_the_others(clone: Clone) -> None:
    prepare(["dev"])
    clone.installs()
    prepare(["bench"])
    assert clone.installs() == [[str(clone.root), "xllamacpp==1"]]
    prepare(["dev"])
    assert clone.installs() == []


def test_a_new_dependency_is_installed_and_the_wheel_is_not(clone: Clone) -> None:
    prepare()
    clone.installs()
    clone.config["project"]["dependencies"].append("rich>=14")
    prepare()
    assert clone.installs() == [[str(clone.root)]]


def test_other_build_flags_bring_another_wheel(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare()
    clone.installs()
    monkeypatch.setattr(environment, "wheel_folder", lambda version: Path("other-flags"))
    prepare()
    assert clone.installs()[0] == ["0.3.36.whl"]


def test_a_set_up_that_fails_is_tried_again(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(command: object) -> None:
        raise BuildError("no network")

    with monkeypatch.context() as broken:
        broken.setattr(environment, "run", fail)
        with pytest.raises(BuildError, match="no network"):
            prepare()
    prepare()
    assert len(clone.installs()) == 2
    assert json.loads(environment.STAMP.read_text(encoding="utf-8"))


def test_a_loose_pin_is_refused(clone: Clone) -> None:
    clone.config["project"]["dependencies"] = ["llama-cpp-python>=0.3"]
    with pytest.raises(BuildError, match="does not pin"):
        prepare()


def test_the_real_project_pins_llama_cpp_python() -> None:
    version = environment.llama_version(environment.project())
    assert tuple(int(part) for part in version.split(".")) >= (0, 3, 36)


def commands_of(clone: Clone) -> list[str]:
    """The commands of pip, as one text each; forgotten afterwards."""
    said = [" ".join(command[command.index("install") :]) for command in clone.commands]
    clone.commands.clear()
    return said


def test_what_is_locked_is_installed_by_its_hashes(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locked, "fits", lambda config, group: True)
    prepare(["dev"])
    _, packages, project = commands_of(clone)
    assert packages.endswith(f"--no-deps --require-hashes --requirement {locked.lock_file('dev')}")
    assert project.endswith(f"--no-deps --no-build-isolation --editable {clone.root}")
    prepare()
    assert commands_of(clone) == []


def test_a_new_lock_is_installed(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locked, "fits", lambda config, group: True)
    prepare()
    clone.commands.clear()
    monkeypatch.setattr(locked, "digest", lambda group: "another")
    prepare()
    assert [command for command in commands_of(clone) if "project.lock" in command]


@pytest.mark.parametrize("why", ["stale", "unwanted"])
def test_without_the_lock_it_says_so(
    clone: Clone, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], why: str
) -> None:
    monkeypatch.setattr(locked, "fits", lambda config, group: why != "stale")
    if why == "unwanted":
        monkeypatch.setenv("GENIEX_NO_LOCK", "1")
    prepare(["dev"])
    assert clone.installs()[-1] == [str(clone.root), "pytest>=9"]
    said = capsys.readouterr().out
    assert "not the locked ones" in said
    assert ("python3 ci/lock.py" if why == "stale" else "GENIEX_NO_LOCK") in said
