"""Every sampling option changes what it names, through the runtime's public door."""

import math

import pytest

from geniex_catalogue.errors import UsageError
from geniex_runtimes.llama_cpp.runtime import LlamaCppModel
from geniex_runtimes.llama_cpp.sampling import model_defaults, native_seed
from geniex_runtimes.options import SamplingOptions
from geniex_runtimes.request import filled
from tests.geniex_runtimes.llama_cpp.answers import answer, turn

QUESTION = turn("Tell me about the owl.")


def sampled(model: LlamaCppModel, **options: object) -> str:
    values = {"temperature": 1.2, "seed": 7, "top_k": 0, "top_p": 1.0, "min_p": 0.0} | options
    return answer(model, QUESTION, sampling=SamplingOptions(**values)).text  # type: ignore[arg-type]


def test_a_seed_gives_the_same_text_and_another_seed_another(tiny: LlamaCppModel) -> None:
    assert sampled(tiny, seed=7) == sampled(tiny, seed=7)
    assert len({sampled(tiny, seed=seed) for seed in range(5)}) > 1


def test_no_seed_is_random(tiny: LlamaCppModel) -> None:
    assert len({sampled(tiny, seed=None, temperature=3.0) for _ in range(4)}) > 1


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"top_k": 1}, id="top-k"),
        pytest.param({"top_p": 0.0}, id="top-p"),
        pytest.param({"min_p": 1.0}, id="min-p"),
        pytest.param({"temperature": 0.0}, id="temperature"),
        pytest.param({"temperature": -1.0}, id="negative-temperature"),
    ],
)
def test_the_narrowest_choice_is_greedy(tiny: LlamaCppModel, options: dict[str, object]) -> None:
    greedy = answer(tiny, QUESTION).text
    assert sampled(tiny, temperature=2.5) != greedy
    assert sampled(tiny, **({"temperature": 2.5} | options)) == greedy


def test_logit_bias_forbids_and_forces(tiny: LlamaCppModel) -> None:
    usual = answer(tiny, QUESTION, logprobs=0, max_tokens=1).logprobs[0].token
    for options in ({"temperature": 0.0}, {"temperature": 0.7, "seed": 1}):
        banned = SamplingOptions(logit_bias=((usual, -100.0),), **options)  # type: ignore[arg-type]
        assert answer(tiny, QUESTION, sampling=banned, logprobs=0).logprobs[0].token != usual
        forced = SamplingOptions(logit_bias=((300, 100.0),), **options)  # type: ignore[arg-type]
        result = answer(tiny, QUESTION, sampling=forced, max_tokens=3, logprobs=0)
        assert [entry.token for entry in result.logprobs] == [300] * 3


def test_bias_on_a_token_that_is_not_there_does_nothing(tiny: LlamaCppModel) -> None:
    options = SamplingOptions(temperature=0, logit_bias=((10**6, 100.0), (-3, 5.0)))
    assert answer(tiny, QUESTION, sampling=options).text == answer(tiny, QUESTION).text


@pytest.mark.parametrize(
    "options",
    [{"presence_penalty": 20.0}, {"frequency_penalty": 20.0}, {"repetition_penalty": 1.8}],
)
def test_penalties_change_a_repeating_answer(
    tiny: LlamaCppModel, options: dict[str, float]
) -> None:
    plain = answer(tiny, QUESTION).text
    greedy = SamplingOptions(temperature=0, **options)  # type: ignore[arg-type]
    assert answer(tiny, QUESTION, sampling=greedy).text != plain


@pytest.mark.parametrize(
    ("grammar", "allowed"),
    [
        pytest.param('root ::= "yes" | "no"', {"yes", "no"}, id="choice"),
        pytest.param("root ::= [0-9] [0-9]", {f"{n:02}" for n in range(100)}, id="digits"),
    ],
)
@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_a_grammar_is_obeyed(
    tiny: LlamaCppModel, grammar: str, allowed: set[str], temperature: float
) -> None:
    options = SamplingOptions(temperature=temperature, seed=3, grammar=grammar)
    result = answer(tiny, QUESTION, sampling=options, max_tokens=20)
    assert result.text in allowed
    assert result.done.finish_reason == "stop"


@pytest.mark.parametrize(
    ("grammar", "reason"),
    [
        pytest.param("", "is empty", id="empty"),
        pytest.param('rot ::= "a"', "does not contain a 'root'", id="no-root"),
        pytest.param('root ::= "a" (', "expecting ')'", id="unclosed"),
        pytest.param("root ::= other", "Undefined rule identifier 'other'", id="undefined-rule"),
        pytest.param('root ::= root "a" | "b"', "left recursion", id="left-recursion"),
        pytest.param('root ::= x\nx ::= root "a" | "b"', "left recursion", id="by-another-rule"),
        pytest.param('root ::= "a"\0', "a NUL", id="nul"),
        pytest.param("{}", "expecting name", id="json"),
    ],
)
def test_a_bad_grammar_is_an_error_before_anything_runs(
    tiny: LlamaCppModel, grammar: str, reason: str
) -> None:
    with pytest.raises(UsageError, match="grammar") as caught:
        answer(tiny, QUESTION, sampling=SamplingOptions(grammar=grammar))
    assert reason in caught.value.message
    assert (reason == "left recursion") == ("begin with itself" in str(caught.value.hint))


def test_logprobs_are_of_the_model_and_one_per_token(tiny: LlamaCppModel) -> None:
    result = answer(tiny, QUESTION, logprobs=3)
    assert len(result.logprobs) == result.done.profile.generated_tokens - 1
    assert b"".join(entry.data for entry in result.logprobs).decode() == result.text
    for entry in result.logprobs:
        assert entry.logprob <= 0 and len(entry.top) == 3
        assert entry.top[0].token == entry.token, "greedy takes the likeliest"
        assert [t.logprob for t in entry.top] == sorted(
            (t.logprob for t in entry.top), reverse=True
        )
    whole = answer(tiny, QUESTION, logprobs=2048, max_tokens=1).logprobs[0]
    assert math.isclose(sum(math.exp(t.logprob) for t in whole.top), 1, rel_tol=1e-6)


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**32 - 2, 2**32 - 1, 2**32, 2**63, -1, -(2**70)])
def test_seeds_of_any_size(seed: int) -> None:
    assert 0 <= native_seed(seed) < 2**32 - 1
    assert native_seed(seed) == native_seed(seed)


def test_big_seeds_differ() -> None:
    seeds = [2**32 + n for n in range(50)] + [-n for n in range(1, 50)]
    assert len({native_seed(seed) for seed in seeds}) == len(seeds)


def test_values_come_from_the_request_then_the_model_then_the_defaults() -> None:
    metadata = {"general.sampling.temp": "0.3", "general.sampling.top_k": "64"}
    defaults = model_defaults(metadata.get)
    assert (defaults.temperature, defaults.top_k, defaults.top_p) == (0.3, 64, 0.95)
    asked = filled(SamplingOptions(temperature=0.0, top_p=0.5), defaults)
    assert (asked.temperature, asked.top_k, asked.top_p, asked.min_p) == (0.0, 64, 0.5, 0.05)


def test_unreadable_model_values_fall_to_the_defaults() -> None:
    assert model_defaults({"general.sampling.temp": "warm"}.get).temperature == 0.8
