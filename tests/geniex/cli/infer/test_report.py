"""`geniex infer --json`: one object for all turns."""

from pathlib import Path
from typing import cast

import pytest

from geniex_runtimes.errors import GenerationError
from geniex_runtimes.fake import Script
from tests.cliharness import Cli
from tests.geniex.cli.infer.recorder import HELLO, Install, Recorder


class TestJson:
    def test_one_object(self, cli: Cli, runtime: Recorder) -> None:
        result = cli("infer", "-p", "one", "-p", "two", "--json")
        found = result.json
        assert result.err == ""
        assert found["model"] == "geniex/tiny-chat:Q8_0"
        assert found["answer"] == "Hello, wörld!" and found["finish_reason"] == "stop"
        assert [turn["prompt"] for turn in found["turns"]] == ["one", "two"]
        assert found["plan"]["runtime"] == "llama_cpp" and found["plan"]["compute"] == "cpu"
        assert found["warnings"] == []

    def test_the_second_turn_reads_the_new_tokens_only(self, cli: Cli, runtime: Recorder) -> None:
        first, second = cli("infer", "-p", "one", "-p", "two", "--json").json["turns"]
        used = second["usage"]
        assert first["usage"]["cached_tokens"] == 0
        assert used["cached_tokens"] == first["usage"]["prompt_tokens"]
        assert used["prefilled_tokens"] == used["prompt_tokens"] - used["cached_tokens"]
        assert used["completion_tokens"] == 4

    def test_answers_before_a_failed_turn_are_not_lost(
        self, cli: Cli, scripted: Install, data_dir: Path
    ) -> None:
        scripted(Recorder(HELLO, Script(error=GenerationError("bad"))))
        result = cli("infer", "-p", "one", "-p", "two", "-p", "three", "--json")
        assert result.code == 1 and "Error: bad" in result.err
        assert [turn["prompt"] for turn in result.json["turns"]] == ["one"]
        assert result.json["answer"] == "Hello, wörld!" and result.json["error"] == "bad"
        first = cli("infer", "-p", "one", "--json")
        assert first.json["error"] is None
        scripted(Recorder(Script(error=GenerationError("bad"))))
        assert cli("infer", "-p", "one", "--json").out == ""

    @pytest.mark.parametrize("turns", [("-p", "one"), ("--token-file",)], ids=["chat", "tokens"])
    def test_what_was_heard_before_an_error_is_not_lost(
        self, cli: Cli, scripted: Install, tmp_path: Path, turns: tuple[str, ...]
    ) -> None:
        (file := tmp_path / "tokens").write_text("104 105")
        ask = turns if len(turns) > 1 else (*turns, str(file))
        scripted(Recorder(Script(HELLO.pieces, error=GenerationError("it died"), error_after=2)))
        result = cli("infer", *ask, "--json")
        assert result.code == 1 and "Error: it died" in result.err
        assert [turn["answer"] for turn in result.json["turns"]] == ["Hello, "]
        assert (result.json["answer"], result.json["finish_reason"]) == ("Hello, ", "error")
        assert result.json["error"] == "it died" and result.json["usage"] is None

    @pytest.mark.parametrize(("after", "heard"), [(0, ""), (2, "Hello, ")])
    def test_what_was_heard_before_ctrl_c_is_not_lost(
        self, cli: Cli, scripted: Install, data_dir: Path, after: int, heard: str
    ) -> None:
        stopped = cast(GenerationError, KeyboardInterrupt())
        scripted(Recorder(HELLO, Script(HELLO.pieces, error=stopped, error_after=after)))
        result = cli("infer", "-p", "one", "-p", "two", "-p", "three", "--json")
        assert result.code == 130
        assert [turn["answer"] for turn in result.json["turns"]] == ["Hello, wörld!", heard]
        assert (result.json["answer"], result.json["finish_reason"]) == (heard, "cancelled")
        assert result.json["error"] == "interrupted" and result.json["usage"] is None

    def test_token_files(self, cli: Cli, runtime: Recorder, tmp_path: Path) -> None:
        file = tmp_path / "tokens"
        file.write_text("104 105")
        result = cli("infer", "-t", str(file), "--json")
        assert result.json["turns"][0]["prompt"] is None
        assert list(runtime.request.prompt) == [104, 105]
        assert "Using token IDs from file" in result.err

    @pytest.mark.parametrize("more", [("-s", "be brief"), ("--think",), ("--no-think",)])
    def test_token_files_drop_no_wish(
        self, cli: Cli, runtime: Recorder, tmp_path: Path, more: tuple[str, ...]
    ) -> None:
        file = tmp_path / "tokens"
        file.write_text("104 105")
        result = cli("infer", "-t", str(file), *more)
        assert result.code == 2 and "without a template" in result.err and not runtime.models
