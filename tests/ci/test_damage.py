"""Damaged models in short: none ends what loads it, each gives one clear error or an answer."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci.damage.cases import ALL, BUILTIN, Case, case
from ci.damage.doors import Commands, Result, Server
from ci.damage.parts import take_apart
from ci.damage.trying import Verdict, try_case
from ci.geniex_server import running
from geniex_catalogue.errors import GGUFError
from geniex_catalogue.gguf import read_header
from geniex_runtimes.llama_cpp import soundness

SEED = 8
# those that our own checks refuse take milliseconds, the others a process each
REFUSED, TRIED = 54, 6


def is_refused(one: Case, folder: Path) -> bool:
    """Whether our own checks see the damage."""
    for name, data in one.files.items():
        (folder / name).write_bytes(data)
    try:
        for name in one.files:
            soundness.check(folder / name, read_header(folder / name))
    except GGUFError:
        return True
    return len(one.files) == 1 and "-of-" in next(iter(one.files))


def sample(folder: Path) -> Iterator[Case]:
    """Of each kind of case so many, in their order."""
    left = {True: REFUSED, False: TRIED}
    for number in itertools.count():
        one = case(SEED, number, [BUILTIN])
        refused = is_refused(one, folder)
        if left[refused]:
            left[refused] -= 1
            yield one
        if not any(left.values()):
            return


def test_sixty_damaged_models(tmp_path: Path) -> None:
    with running() as server, Commands(server.data_dir) as commands:
        door = Server(server.url)
        verdicts = [try_case(one, server.data_dir, commands, door) for one in sample(tmp_path)]
    assert len(verdicts) == REFUSED + TRIED
    assert [(v.case.title, v.faults) for v in verdicts if v.faults] == []
    assert {"header", "works"} <= {v.how for v in verdicts}


def test_a_model_that_is_whole(tmp_path: Path) -> None:
    # what is taken apart is put together as it was: the damage is all that is wrong
    data = BUILTIN.read_bytes()
    assert take_apart(data).pack() == data


def test_the_same_number_is_the_same_damage() -> None:
    assert case(1, 7, [BUILTIN]) == case(1, 7, [BUILTIN])
    assert case(1, 7, [BUILTIN]) != case(2, 7, [BUILTIN])
    assert len(ALL) > 50


@pytest.mark.parametrize(
    ("infer", "chat", "fault"),
    [
        pytest.param(Result(0, "", "Error: x"), Result(200, ""), "1 errors", id="both"),
        pytest.param(Result(134, "", ""), Result(200, ""), "exit code 134", id="code"),
        pytest.param(Result(1, "", "Error: a\nError: b"), Result(500, "{}"), "2 errors", id="two"),
        pytest.param(
            Result(1, "", "Error: unexpected KeyError: x"), Result(500, "{}"), "KeyError", id="ours"
        ),
        pytest.param(Result(1, "", "Error: \x1b[2J"), Result(500, "{}"), "commands", id="escapes"),
        pytest.param(
            Result(1, "", "Error: x"),
            Result(500, '{"error": {"code": "internal_error", "message": "x"}}'),
            "status 500",
            id="internal",
        ),
        pytest.param(Result(1, "", "Error: x"), Result(200, ""), "infer: Error: x", id="differ"),
    ],
)
def test_what_is_a_fault(tmp_path: Path, infer: Result, chat: Result, fault: str) -> None:
    class Told:
        def run(self, command: str, *_: str) -> Result:
            return Result(0, "damaged/case-0") if command == "list" else infer

        def models(self) -> Result:
            return Result(200, "damaged/case-0")

        def chat(self, name: str) -> Result:
            return chat

    told = Told()
    one = Case(0, "x", "y", {"a.gguf": b""})
    verdict: Verdict = try_case(one, tmp_path, told, told)  # type: ignore[arg-type]
    assert verdict.how == "fault"
    assert any(fault in text for text in verdict.faults), verdict.faults
