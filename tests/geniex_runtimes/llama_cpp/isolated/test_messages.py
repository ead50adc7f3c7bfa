"""Every order and report arrives as it was sent, with all that options and requests can say."""

import typing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from geniex_catalogue import errors as e
from geniex_runtimes import errors as r
from geniex_runtimes.contract import (
    GenerationRequest,
    ModelInfo,
    Profile,
    PromptPiece,
    TokenLogprob,
)
from geniex_runtimes.llama_cpp.isolated import failures, messages
from geniex_runtimes.options import (
    LoadOptions,
    PrefixCache,
    SamplingOptions,
    SpeculativeOptions,
)
from geniex_runtimes.workers.wire import ProtocolError
from tests.geniex_runtimes import models

SAMPLING = SamplingOptions(0.5, 0.9, 40, 0.05, 1.1, 0.1, 0.2, 1 << 40, "root ::= x", ((1, -0.5),))
MTP = SpeculativeOptions(("draft-mtp", "ngram-mod"), 5, 1, 0.25, False, True)
LOGPROB = TokenLogprob(7, b"\xe6\x97", -0.25, (TokenLogprob(7, b"\xe6\x97", -0.25),))
PROFILE = Profile(ttft=0.5, generated_tokens=3, accepted_at=(2, 1), spec_state="reduced")
INFO = ModelInfo(
    name="a",
    runtime="llama_cpp",
    compute="hybrid",
    devices=("HTP0",),
    context_length=1024,
    slots=3,
    chat_template="{{ x }}",
    control_tokens=frozenset({"<s>", "</s>"}),
    end_tokens=frozenset({"</s>"}),
    sampling_defaults=SAMPLING,
    speculation=("draft-mtp",),
    warnings=("told",),
    training_context=None,
)
REQUEST = GenerationRequest((2, 3), SAMPLING, 9, ("a", "\ud800"), 5, False, MTP, True)
PIECES = (PromptPiece("a\ud800"), PromptPiece("日本", literal=True))
MODEL = replace(models.model(), header=None, chat_template="{{ y }}")
# each switch is what it is not by default
SWITCHES: dict[str, Any] = {
    field.name: not field.default for field in fields(LoadOptions) if type(field.default) is bool
}
OPTIONS = LoadOptions(
    compute="gpu",
    devices=("CUDA0", "CUDA1"),
    context_length=4096,
    gpu_layers=12,
    threads=3,
    slots=4,
    speculative=MTP,
    draft=replace(MODEL, name="draft"),
    data_dir=Path("/data"),
    qairt_engine="ort",
    kv_type="q8_0",
    flash_attention="off",
    prefix_cache=PrefixCache(Path("/cache"), 1 << 40, Path("/file")),
    **SWITCHES,
)
MESSAGES: tuple[messages.Message, ...] = (
    messages.Load(1, MODEL, OPTIONS),
    messages.GiveUp(1),
    messages.Generate(1, 2, REQUEST),
    messages.Generate(1, 2, GenerationRequest(PIECES)),
    messages.Generate(1, 2, GenerationRequest(())),
    messages.Cancel(1),
    messages.Tokenize(1, 2, PIECES),
    messages.Detokenize(1, 2, (3, 4)),
    messages.TokenBytes(1, 2, 3),
    messages.Embed(1, 2, ("a", "")),
    messages.Embed(1, 2, None, ((1, 2), ())),
    messages.Free(1, 2, kept=True),
    messages.Close(),
    messages.Progress(1, 0.25),
    messages.Loaded(1, INFO),
    messages.Started(1),
    messages.Piece(1, "日\n", (LOGPROB,), 7),
    messages.Finished(1, "cancelled", PROFILE),
    messages.Tokens(1, (5, 6)),
    messages.Text(1, "text"),
    messages.Bytes(1, b"\xff\x00"),
    messages.Vectors(1, 2, "AAAA", 9),
    messages.Did(1),
    messages.Failed(1, "UsageError", "no", "why", (1, 2)),
    messages.Beat(),
)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_arrives_as_it_was_sent(message: messages.Message) -> None:
    assert messages.WIRE.unpack(messages.WIRE.pack(message)[4:]) == message


def test_none_is_left_out() -> None:
    assert {type(message) for message in MESSAGES} == set(typing.get_args(messages.Message))
    for filled, plain in ((OPTIONS, LoadOptions()), (REQUEST, GenerationRequest(()))):
        same = [
            field.name
            for field in fields(filled)
            if getattr(filled, field.name) == getattr(plain, field.name)
        ]
        assert not same, "say something else in the example above: does it travel?"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'["Generate",[1,2,[[1,"a"],[],null,[],null,true,null]]]', id="mixed-prompt"),
        pytest.param(b'["Load",[1,["a"],[]]]', id="half-a-model"),
    ],
)
def test_what_is_almost_a_message(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        messages.WIRE.unpack(body)


@pytest.mark.parametrize(
    ("error", "as_"),
    [
        pytest.param(e.UsageError("no", hint="so"), e.UsageError, id="usage"),
        pytest.param(e.LoadError("no"), e.LoadError, id="load"),
        pytest.param(r.SpeculativeError("no", hint="so"), r.SpeculativeError, id="speculative"),
        pytest.param(r.ContextLengthError(9, 5), r.ContextLengthError, id="context"),
        pytest.param(
            r.ContextLengthError(9, 5, at_least=True), r.ContextLengthError, id="context-at-least"
        ),
        pytest.param(e.SchemaError("no", "a", "b"), e.UsageError, id="nearest-base"),
        pytest.param(e.GGUFError("a.gguf", "cut"), e.LoadError, id="gguf"),
    ],
)
def test_an_error_arrives_as_what_it_is(error: e.GenieXError, as_: type[e.GenieXError]) -> None:
    failed = failures.told(3, error, loading=True)
    again = failures.error_of(failed)
    assert (type(again), again.message, again.hint) == (as_, error.message, error.hint)
    if isinstance(error, r.ContextLengthError):
        assert vars(again) == vars(error)


def test_a_fault_of_ours_is_named() -> None:
    again = failures.error_of(failures.told(3, ZeroDivisionError("oh")))
    assert isinstance(again, r.GenerationError)
    assert again.message == "the worker failed: ZeroDivisionError: oh"
