"""Flags of `geniex infer` for the answer: what of them reaches the runtime."""

from pathlib import Path

import pytest

from tests.cliharness import Cli
from tests.geniex.cli.infer.recorder import Recorder


class TestSampling:
    def test_unset_is_the_models_choice(self, cli: Cli, runtime: Recorder) -> None:
        cli("infer", "-p", "hi")
        sampling = runtime.request.sampling
        assert sampling.temperature is None and sampling.top_p is None and sampling.seed is None
        assert runtime.request.max_tokens == 2048

    @pytest.mark.parametrize(
        ("flag", "value", "name", "asked"),
        [
            ("--temperature", "0", "temperature", 0.0),
            ("--temperature", "0.7", "temperature", 0.7),
            ("--top-p", "0.5", "top_p", 0.5),
            ("--top-k", "0", "top_k", 0),
            ("--min-p", "0.1", "min_p", 0.1),
            ("--repetition-penalty", "1.1", "repetition_penalty", 1.1),
            ("--presence-penalty", "-0.5", "presence_penalty", -0.5),
            ("--frequency-penalty", "0.5", "frequency_penalty", 0.5),
            ("--seed", "0", "seed", 0),
            ("--grammar-string", 'root ::= "a"', "grammar", 'root ::= "a"'),
        ],
    )
    def test_flags(
        self, cli: Cli, runtime: Recorder, flag: str, value: str, name: str, asked: object
    ) -> None:
        assert cli("infer", "-p", "hi", flag, value).code == 0
        assert getattr(runtime.request.sampling, name) == asked

    @pytest.mark.parametrize(
        "args",
        [
            pytest.param(("--temperature", "nan"), id="nan"),
            pytest.param(("--temperature", "-1"), id="below zero"),
            pytest.param(("--seed", "4294967296"), id="too large a seed"),
            pytest.param(("--temperature", "inf"), id="inf"),
            pytest.param(("--temperature", "hot"), id="not a number"),
            pytest.param(("--top-p", "1.5"), id="top_p"),
            pytest.param(("--top-k", "-1"), id="top_k"),
            pytest.param(("--seed", "-1"), id="seed"),
            pytest.param(("--max-tokens", "-2"), id="max tokens"),
            pytest.param(("--nctx", "0"), id="nctx"),
            pytest.param(("--grammar-path", "/nowhere"), id="grammar file"),
            pytest.param(("--enable-json", "--grammar-string", "x"), id="two grammars"),
            pytest.param(("--stop-file", "/nowhere"), id="stop file"),
            pytest.param(("--compute", "fpga;"), id="compute"),
            pytest.param(("--runtime", "none"), id="runtime"),
            pytest.param(("--log", ""), id="empty log level"),
            pytest.param(("--data-dir", ""), id="empty data folder"),
            pytest.param(("-s", "\udcff"), id="system prompt no text"),
            pytest.param(("--stop", "\udcff"), id="stop no text"),
            pytest.param(("--grammar-string", "\udcff"), id="grammar no text"),
            pytest.param(("-i", "-"), id="stdin as a file"),
            pytest.param(("--spec-type", "draft-mtp", "--draft-model", ""), id="empty draft"),
        ],
    )
    def test_wrong_values(self, cli: Cli, runtime: Recorder, args: tuple[str, ...]) -> None:
        result = cli("infer", "-p", "hi", *args)
        assert (result.code, result.out) == (2, "")
        error, hint = result.err.splitlines()
        assert error.startswith("Error: ") and hint.startswith("hint: ")
        assert not runtime.models

    def test_json_is_forced_by_a_grammar(self, cli: Cli, runtime: Recorder) -> None:
        cli("infer", "-p", "hi", "--enable-json")
        assert "root ::=" in str(runtime.request.sampling.grammar)

    @pytest.mark.parametrize(
        ("args", "told"),
        [
            pytest.param(("--max-tokens", "2"), "the answer is cut: it has the 2 tokens", id="cut"),
            pytest.param(("--nctx", "27"), "the context of 27 tokens is full", id="context"),
            pytest.param(
                ("--enable-json", "--max-tokens", "2"), "does not fit its grammar", id="json"
            ),
            pytest.param(("--max-tokens", "4"), "it has the 4 tokens", id="just as long"),
            pytest.param(("--max-tokens", "9"), "", id="whole"),
            pytest.param(("--max-tokens", "0"), "", id="none wanted"),
        ],
    )
    def test_an_answer_that_is_cut_is_said_so(
        self, cli: Cli, runtime: Recorder, args: tuple[str, ...], told: str
    ) -> None:
        result = cli("infer", "-q", "-p", "hi", *args)
        assert result.code == 0 and result.err.count("\n") == bool(told)
        assert told in result.err

    def test_the_grammars_text_wins_and_says_so(
        self, cli: Cli, runtime: Recorder, tmp_path: Path
    ) -> None:
        file = tmp_path / "g.gbnf"
        file.write_text("from the file")
        cli("infer", "-p", "hi", "--grammar-path", str(file))
        assert runtime.request.sampling.grammar == "from the file"
        result = cli("infer", "-p", "hi", "--grammar-path", str(file), "--grammar-string", "text")
        assert runtime.request.sampling.grammar == "text"
        assert "Warning: `--grammar-string` wins" in result.err

    @pytest.mark.parametrize(
        ("stops", "kept", "out"),
        [
            pytest.param((", w", "x"), "from file\n\n", "Hello\n", id="given"),
            pytest.param(("x", "wör"), "lo\n\n", "Hel\n", id="from the file"),
        ],
    )
    def test_stops(
        self,
        cli: Cli,
        runtime: Recorder,
        tmp_path: Path,
        stops: tuple[str, ...],
        kept: str,
        out: str,
    ) -> None:
        file = tmp_path / "stops"
        file.write_text(kept)
        flags = [word for stop in stops for word in ("--stop", stop)]
        assert cli("infer", "-p", "hi", *flags, "--stop-file", str(file)).out == out

    @pytest.mark.parametrize(("count", "out"), [("2", "Hello, \n"), ("-1", "Hello, wörld!\n")])
    def test_max_tokens(self, cli: Cli, runtime: Recorder, count: str, out: str) -> None:
        assert cli("infer", "-p", "hi", "--max-tokens", count).out == out
