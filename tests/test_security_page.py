"""SECURITY.md: every test that it names is there, and so is every command."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
TESTS = sorted(set(re.findall(r"`(tests/[\w./-]+)`", PAGE)))
MODULES = sorted(set(re.findall(r"`python -m ([\w.]+)", PAGE)))


@pytest.mark.parametrize("place", TESTS)
def test_a_test_that_it_names_is_there(place: str) -> None:
    path = ROOT / place
    files = [path] if path.is_file() else list(path.rglob("*.py"))
    assert any("def test_" in f.read_text("utf-8") or f.name == "attacks.py" for f in files)


@pytest.mark.parametrize("module", MODULES)
def test_a_command_that_it_names_is_there(module: str) -> None:
    assert importlib.util.find_spec(module) is not None


def test_every_promise_is_shown_by_something() -> None:
    table = PAGE.partition("## What is promised")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 15
    assert all("`" in row.rstrip(" |").rpartition("|")[2] for row in rows)
