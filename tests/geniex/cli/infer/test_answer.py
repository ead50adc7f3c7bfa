"""`geniex infer` with a scripted runtime: which prompts are asked, and what goes where."""

import re
from pathlib import Path
from typing import Any

import pytest

from geniex_catalogue.errors import LoadError
from geniex_runtimes.contract import PromptPiece
from geniex_runtimes.errors import GenerationError
from geniex_runtimes.fake import Script
from tests.cliharness import Cli
from tests.geniex.cli.infer.recorder import HELLO, Install, Recorder

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
