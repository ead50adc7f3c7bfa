"""The optional packages and the command that installs them."""

import os
import sys
import tomllib
from pathlib import Path

import pytest

from geniex_catalogue import extras

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_they_are_those_of_the_project() -> None:
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    named = {
        extra: tuple(text.partition(";")[0].strip() for text in packages)
        for extra, packages in project["optional-dependencies"].items()
    }
    assert named == extras.EXTRAS


@pytest.mark.parametrize(
    ("place", "called"),
    [
        pytest.param("bin/python", "python", id="on the path"),
        pytest.param("here/venv/python", str(Path("venv") / "python"), id="below here"),
        pytest.param("there/python", "{root}there/python", id="elsewhere"),
        pytest.param("a b/python", '"{root}a b/python"', id="a space"),
    ],
)
def test_the_command_is_for_the_python_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, called: str
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    on_path = str(tmp_path / "bin/python")
    monkeypatch.setattr("shutil.which", lambda name: on_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / place))
    python = called.format(root=f"{tmp_path}{os.sep}")
    packages = '"qai-hub>=0.56,<1"'
    assert extras.install("aihub") == f"run `{python} -m pip install {packages}`"
    again = extras.install("aihub", again=True)
    assert again == f"run `{python} -m pip install --force-reinstall {packages}`"
