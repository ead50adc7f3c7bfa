"""The commands, flags, files and examples of the README and of the pages in docs are real."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from ci.llama_wheel import BASE_FLAGS, NO_AMX
from geniex.cli.app import app

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SERVER = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")
SNAPDRAGON = (ROOT / "docs" / "snapdragon.md").read_text(encoding="utf-8")
PERFORMANCE = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
HUBS = (ROOT / "docs" / "hubs.md").read_text(encoding="utf-8")
PULLING = (ROOT / "docs" / "pulling.md").read_text(encoding="utf-8")


def blocks(page: str) -> list[tuple[str, str]]:
    """The code in a page: its language and its text."""
    return re.findall(r"^```(\w+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


BLOCKS = blocks(README)
SHELL_LINES = [
    line
    for kind, text in (
        *BLOCKS,
        *blocks(SERVER),
        *blocks(SNAPDRAGON),
        *blocks(HUBS),
        *blocks(PULLING),
        *blocks(PERFORMANCE),
    )
    if kind == "sh"
    for line in text.replace("\\\n", " ").splitlines()
    if line
]
PYTHON_BLOCKS = [text for kind, text in BLOCKS if kind == "python"]
CALLS = [
    words
    for line in SHELL_LINES
    for part in line.split(" | ")
    if (words := shlex.split(part, comments=True)) and words[0] == "geniex"
]


def unknown_words(words: list[str]) -> list[str]:
    """What of a `geniex` call the command line does not know: the command, or flags."""
    command: Any = typer.main.get_command(app)
    rest = words[1:]
    while isinstance(command, TyperGroup):
        found = command.commands.get(rest[0])
        if found is None:
            return [rest[0]]
        command, rest = found, rest[1:]
    known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    return [word for word in rest if re.match(r"--?[a-z]", word) and word not in known]


@pytest.mark.parametrize("words", CALLS, ids=lambda words: " ".join(words))
def test_a_call_in_the_readme_is_one_the_command_line_knows(words: list[str]) -> None:
    assert unknown_words(words) == []


def test_the_check_of_the_calls_sees_what_is_wrong() -> None:
    assert len(CALLS) > 10
    assert unknown_words(["geniex", "infer", "tiny", "--no-such-flag", "-p", "x"]) == [
        "--no-such-flag"
    ]
    assert unknown_words(["geniex", "no-such-command"]) == ["no-such-command"]


@pytest.mark.parametrize("script", sorted(set(re.findall(r"ci/\w+\.py", README))))
def test_a_script_in_the_readme_is_there(script: str) -> None:
    assert (ROOT / script).is_file()


@pytest.mark.parametrize(
    ("folder", "target"),
    [
        pytest.param(folder, target, id=target)
        for folder, page in (
            (ROOT, README),
            (ROOT / "docs", SERVER),
            (ROOT / "docs", HUBS),
            (ROOT / "docs", PULLING),
        )
        for target in re.findall(r"\]\(([^)#]+)", page)
    ],
)
def test_a_link_leads_somewhere(folder: Path, target: str) -> None:
    assert target.startswith("https://") or (folder / target).exists()


def test_the_servers_flags_and_fields_in_its_page_are_real() -> None:
    """Every flag of a table's first column is one of `geniex serve`."""
    command: Any = typer.main.get_command(app)
    serve = command.commands["serve"]
    known = {name for param in serve.params for name in (*param.opts, *param.secondary_opts)}
    running = SERVER.partition("## Running it")[2]
    rows = re.findall(r"^\| (`--[^|]*)\|", running, re.MULTILINE)
    named = {flag for row in rows for flag in re.findall(r"`(--[a-z-]+)`", row)}
    assert len(named) > 15 and named <= known


def test_the_build_flags_in_the_readme_are_those_of_the_build() -> None:
    assert " ".join(BASE_FLAGS) in README
    assert " ".join(NO_AMX) in README


@pytest.mark.parametrize("source", PYTHON_BLOCKS)
def test_the_python_example_runs(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(source, "README.md", "exec"), {})
    out = capsys.readouterr().out
    assert "The capital of France is Paris." in out
    assert "3, 4, 5, 6, 7, 8, 9." in out
