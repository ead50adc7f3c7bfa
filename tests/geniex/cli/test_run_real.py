"""`geniex run` and `geniex ps` with a real server and a real model: what `infer` says."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cliharness import Cli
from tests.geniex.server.live import running


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(data_dir=tmp_path_factory.mktemp("data")) as server:
        yield server.url


DRAFT = ("--spec-type", "draft-mtp", "--draft-model", "geniex/tiny-chat-draft")


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(("--temperature", "0", "--think", "-p", "What is 2 plus 3?"), id="greedy"),
        pytest.param(
            ("--seed", "7", "--top-k", "50", "--stop", " is", "-s", "You are a poet."), id="seed"
        ),
        pytest.param(("--temperature", "0", "--max-tokens", "9", *DRAFT), id="drafts-cut"),
        pytest.param(("--seed", "1", "--grammar-string", 'root ::= "yes" | "no"'), id="grammar"),
        pytest.param(("--seed", "1", "--enable-json", "--max-tokens", "60"), id="json"),
    ],
)
def test_run_says_what_infer_says(
    cli: Cli, real: str, data_dir: Path, flags: tuple[str, ...]
) -> None:
    ask = ("tiny", "--json", "-p", "What is the capital of France?", *flags)
    here, there = cli("infer", *ask), cli("run", *ask, "--host", real)
    assert here.code == there.code == 0, there.err
    same = ("model", "answer", "reasoning", "finish_reason", "stop_reason")
    assert [there.json[name] for name in same] == [here.json[name] for name in same]
    # how far a model is past a stop string before it is ended is left to chance
    counts = ("prompt_tokens", "completion_tokens")[: 1 if "--stop" in flags else 2]
    for name in counts:
        assert there.json["usage"][name] == here.json["usage"][name]
    drafted = here.json["speculation"] and here.json["speculation"]["types"]
    assert drafted == (there.json["speculation"] and there.json["speculation"]["types"])


def test_raw_tokens_say_what_infer_says(
    cli: Cli, real: str, data_dir: Path, tmp_path: Path
) -> None:
    file = tmp_path / "tokens"
    file.write_text("5 6 7", encoding="utf-8")
    ask = ("tiny", "--json", "-t", str(file), "--temperature", "0", "--max-tokens", "20")
    here, there = cli("infer", *ask), cli("run", *ask, "--host", real)
    assert there.json["answer"] == here.json["answer"]


def test_a_model_that_is_not_there(cli: Cli, real: str, data_dir: Path) -> None:
    result = cli("run", "org/none", "-p", "hi", "--host", real)
    assert result.code == 3 and "geniex pull org/none" in result.err
    result = cli("run", "tiny", "-p", "hi", "--host", real, *DRAFT[:3], "org/none")
    assert result.code == 3 and "geniex pull org/none" in result.err


def test_what_was_loaded_is_listed(cli: Cli, real: str, data_dir: Path) -> None:
    assert cli("run", "tiny", "-p", "hi", "--max-tokens", "1", "--host", real).code == 0
    result = cli("ps", "--host", real)
    assert result.code == 0
    rows = [re.split(r" {2,}", line) for line in result.out.splitlines()]
    assert rows[0][0] == "NAME" and rows[1][0] == "geniex/tiny-chat:Q8_0"
    assert "0/4" in result.out
    listed = cli("ps", "--json", "--host", real).json
    assert listed[0]["id"] == "geniex/tiny-chat:Q8_0" and listed[0]["busy"] == 0
