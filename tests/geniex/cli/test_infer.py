"""`geniex infer` with a scripted runtime: what goes where, and what is asked of the runtime."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from geniex_catalogue.errors import GenerationError, LoadError
from geniex_runtimes.contract import GenerationRequest, LoadOptions, PromptPiece
from geniex_runtimes.fake import FakeModel, FakeRuntime, Script
from tests.cliharness import Cli

HELLO = Script(("Hello", ", ", "wörld", "!"))
PROFILE = """\
total time:     0.000000s
ttft:           0.000000s
prompt time:    0.000000s
prompt tokens:  0 token(s)
prompt speed:   0.000000 tok/s
decode time:    0.000000s
decode tokens:  0 token(s)
decode speed:   0.000000 tok/s
stop reason:    eos"""


class Recorder(FakeRuntime):
    """Keeps the models it loads, to be asked what they were told."""

    def __init__(self, *scripts: Script, **how: Any) -> None:
        super().__init__(*(scripts or (HELLO,)), name="llama_cpp", **how)
        self.models: list[FakeModel] = []

    def load(self, *args: Any, **kwargs: Any) -> FakeModel:
        self.models.append(super().load(*args, **kwargs))
        return self.models[-1]

    @property
    def request(self) -> GenerationRequest:
        return self.models[-1].requests[-1]

    @property
    def prompt(self) -> str:
        return "".join(p.text for p in self.request.prompt if isinstance(p, PromptPiece))

    @property
    def options(self) -> LoadOptions:
        return self.loads[-1]


Install = Callable[[FakeRuntime], FakeRuntime]


@pytest.fixture
def runtime(scripted: Install, data_dir: Path) -> Recorder:
    made = Recorder()
    scripted(made)
    return made


def test_stdout_is_the_answer_alone(cli: Cli, runtime: Recorder) -> None:
    result = cli("infer", "-p", "hi")
    assert (result.code, result.out) == (0, "Hello, wörld!\n")
    labels = [line.split(":")[0] for line in result.err.splitlines() if line]
    assert labels == [line.split(":")[0] for line in PROFILE.splitlines()]
    figures = re.sub(r"\d+\.\d{6}|\d+", "0", result.err.strip())
    assert figures == re.sub(r"\d+\.\d{6}|\d+", "0", PROFILE)


def test_quiet_says_nothing_else(cli: Cli, runtime: Recorder) -> None:
    result = cli("infer", "-q", "-p", "hi")
    assert (result.code, result.out, result.err) == (0, "Hello, wörld!\n", "")


def test_the_model_is_closed(cli: Cli, runtime: Recorder) -> None:
    cli("infer", "-p", "hi")
    assert runtime.models[-1].closed


@pytest.mark.parametrize(
    ("args", "stdin", "prompt"),
    [
        pytest.param(("-p", "hi"), b"", "hi", id="flag"),
        pytest.param((), b"hi\n", "hi", id="stdin"),
        pytest.param(("-p", "-"), b"hi", "hi", id="dash"),
        pytest.param(("-p", "sum up"), b"text", "sum up\n\ntext", id="both"),
    ],
)
def test_prompts(
    cli: Cli, runtime: Recorder, args: tuple[str, ...], stdin: bytes, prompt: str
) -> None:
    assert cli("infer", *args, stdin=stdin).out == "Hello, wörld!\n"
    assert runtime.prompt == f"<|user|>{prompt}</s><|assistant|>"


def test_turns_are_one_chat(cli: Cli, runtime: Recorder) -> None:
    result = cli("infer", "-p", "one", "-p", "two", "-s", "be brief")
    assert result.out == "Hello, wörld!\n" * 2
    assert runtime.prompt == (
        "<|system|>be brief</s><|user|>one</s><|assistant|>Hello, wörld!</s>"
        "<|user|>two</s><|assistant|>"
    )


@pytest.mark.parametrize("args", [(), ("--json",), ("-p", "")], ids=["empty", "json", "blank"])
def test_no_prompt_and_nobody_to_ask(cli: Cli, runtime: Recorder, args: tuple[str, ...]) -> None:
    result = cli("infer", *args)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Error: ") and not runtime.models


def test_what_the_user_types_is_text(cli: Cli, runtime: Recorder) -> None:
    cli("infer", "-p", "say </s> now")
    literal = [p.text for p in runtime.request.prompt if isinstance(p, PromptPiece) and p.literal]
    assert any("</s>" in text for text in literal)


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

    def test_stops(self, cli: Cli, runtime: Recorder, tmp_path: Path) -> None:
        file = tmp_path / "stops"
        file.write_text("from file\n\n")
        result = cli("infer", "-p", "hi", "--stop", ", w", "--stop", "x", "--stop-file", str(file))
        assert result.out == "Hello\n"
        assert runtime.request.stop[:3] == ("from file", ", w", "x")

    @pytest.mark.parametrize(("count", "out"), [("2", "Hello, \n"), ("-1", "Hello, wörld!\n")])
    def test_max_tokens(self, cli: Cli, runtime: Recorder, count: str, out: str) -> None:
        assert cli("infer", "-p", "hi", "--max-tokens", count).out == out


class TestThinking:
    @pytest.fixture(autouse=True)
    def _thinker(self, scripted: Install, data_dir: Path) -> None:
        self.runtime = Recorder(
            Script(("<thi", "nk>", "hmm", "</think>", "\n\n", "Yes.")),
            chat_template="{{ messages[-1].content }}|{{ enable_thinking }}|",
        )
        scripted(self.runtime)

    def test_reasoning_is_not_the_answer(self, cli: Cli) -> None:
        result = cli("infer", "-p", "hi")
        assert result.out == "Yes.\n"
        assert result.err.startswith("<think>\nhmm\n</think>\n")

    def test_quiet_hides_it_and_json_has_it(self, cli: Cli) -> None:
        assert cli("infer", "-p", "hi", "-q").err == ""
        found = cli("infer", "-p", "hi", "--json").json
        assert (found["answer"], found["reasoning"]) == ("Yes.", "hmm")

    def test_reasoning_that_leaves_no_answer(self, cli: Cli) -> None:
        result = cli("infer", "-p", "hi", "--max-tokens", "3", "-q")
        assert (result.code, result.out) == (0, "")
        assert "there is no answer, only reasoning: it has the 3 tokens" in result.err

    @pytest.mark.parametrize(
        ("flags", "asked"),
        [
            ((), ""),
            (("--think",), "True"),
            (("--no-think",), "False"),
            (("--think=false",), "False"),
            (("--think=true",), "True"),
            (("--think=0",), "False"),
        ],
    )
    def test_flags(self, cli: Cli, flags: tuple[str, ...], asked: str) -> None:
        assert cli("infer", *flags, "-p", "hi").code == 0
        assert self.runtime.prompt == f"hi|{asked}|"

    def test_a_prompt_may_look_like_the_flag(self, cli: Cli) -> None:
        cli("infer", "-p", "--think=false")
        assert self.runtime.prompt == "--think=false||"


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


class TestLoading:
    def test_flags_reach_the_runtime(self, cli: Cli, runtime: Recorder) -> None:
        cli("infer", "-p", "hi", "--nctx", "512", "--threads", "3", "-c", "cpu", "-n", "0")
        options = runtime.options
        assert (options.context_length, options.threads, options.compute) == (512, 3, "cpu")

    def test_more_threads_than_the_machine_has(self, cli: Cli, runtime: Recorder) -> None:
        result = cli("infer", "-q", "-p", "hi", "--threads", "1000")
        assert runtime.options.threads == 8 and result.code == 0
        assert "Warning: `--threads 1000` is more than" in result.err

    def test_variables_reach_the_runtime(
        self, cli: Cli, runtime: Recorder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GENIEX_NCTX", "640")
        cli("infer", "-p", "hi")
        assert runtime.options.context_length == 640

    def test_the_configured_model_is_the_default(
        self, cli: Cli, runtime: Recorder, tiny_chat: Path
    ) -> None:
        assert cli("config", "set", "model", str(tiny_chat)).code == 0
        assert cli("infer", "-p", "hi", "--json").json["model"] == str(tiny_chat)

    def test_verbose_says_what_is_loaded(self, cli: Cli, runtime: Recorder) -> None:
        err = cli("infer", "--verbose", "-p", "hi", "--nctx", "512").err
        assert "Model loaded: runtime=llama_cpp compute=cpu" in err and "nctx=512" in err

    def test_an_unmet_wish_is_an_error(self, cli: Cli, runtime: Recorder) -> None:
        result = cli("infer", "-p", "hi", "--compute", "gpu")
        assert (result.code, result.out) == (1, "")
        assert "gpu" in result.err.lower()

    @pytest.mark.parametrize(
        ("name", "code"),
        [
            pytest.param("./missing.gguf", 3, id="path"),
            pytest.param("a/b/c/d", 2, id="no name"),
            pytest.param("", 2, id="empty"),
            pytest.param("tiny-chatt", 3, id="near an alias"),
            pytest.param("geniex/tiny-chat:Q2_K", 3, id="precision"),
        ],
    )
    def test_names_that_are_nothing(
        self, cli: Cli, runtime: Recorder, name: str, code: int
    ) -> None:
        result = cli("infer", name, "-p", "hi")
        assert (result.code, result.out) == (code, "")
        assert result.err.startswith("Error: ") and "Traceback" not in result.err


@pytest.mark.parametrize(
    ("script", "how", "code", "out"),
    [
        pytest.param(HELLO, {"load_error": LoadError("broken")}, 1, "", id="load"),
        pytest.param(Script(prefill_error=GenerationError("bad")), {}, 1, "", id="prefill"),
        pytest.param(
            Script(("so", "far"), error=GenerationError("bad"), error_after=1),
            {},
            1,
            "so\n",
            id="decode",
        ),
        pytest.param(HELLO, {"context_length": 4}, 1, "", id="context"),
    ],
)
def test_failures(
    cli: Cli,
    scripted: Install,
    data_dir: Path,
    script: Script,
    how: dict[str, Any],
    code: int,
    out: str,
) -> None:
    scripted(Recorder(script, **how))
    args = ("--nctx", "4") if "context_length" in how else ()
    result = cli("infer", "-p", "hello", *args)
    assert (result.code, result.out) == (code, out)
    assert "Error: " in result.err and "Traceback" not in result.err
