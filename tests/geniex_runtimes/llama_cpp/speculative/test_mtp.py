"""Speculation changes how fast tokens come, never which: the three modes against plain decoding."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from geniex_runtimes.contract import Done, GenerationRequest, Profile, PromptPiece
from geniex_runtimes.llama_cpp import engine
from geniex_runtimes.llama_cpp.context import Context
from geniex_runtimes.llama_cpp.runtime import LlamaCppModel, LlamaCppRuntime
from geniex_runtimes.options import LoadOptions, SamplingOptions, SpeculativeOptions
from tests.geniex_runtimes.llama_cpp.answers import GREEDY, answer, resolved, turn

PLAIN = SpeculativeOptions()
SEEDED = SamplingOptions(temperature=0.9, seed=11)
# (target, draft, whether drafts are often right)
PAIRS = {
    "shared": ("g4-markov-target.gguf", "g4-markov-draft.gguf", True),
    "shared-never-right": ("g4-random-target.gguf", "g4-random-draft.gguf", False),
    "own": ("q35-mix.gguf", None, True),
    "chained": ("mimo-mix.gguf", None, True),
}


@dataclass(frozen=True)
class Run:
    tokens: tuple[int, ...]
    text: str
    done: Done

    @property
    def profile(self) -> Profile:
        return self.done.profile


Plainly = Callable[[tuple[int, ...], SamplingOptions, int], Run]


def fixed(n_max: int = 3, **fields: object) -> SpeculativeOptions:
    return SpeculativeOptions(("draft-mtp",), n_max, adapt=False, **fields)  # type: ignore[arg-type]


def load_pair(
    target: Path, draft: Path | None, n_max: int = 6, slots: int = 1, context: int = 1024
) -> LlamaCppModel:
    options = LoadOptions(
        threads=1,
        context_length=context,
        slots=slots,
        speculative=fixed(n_max, require=True),
        draft=resolved(draft) if draft is not None else None,
    )
    model = LlamaCppRuntime().load(resolved(target), options)
    assert isinstance(model, LlamaCppModel)
    return model


def run(model: LlamaCppModel, prompt: list[int], **fields: object) -> Run:
    settings = {"sampling": GREEDY, "max_tokens": 200, "logprobs": 0} | fields
    result = answer(model, prompt, **settings)
    tokens = tuple(entry.token for entry in result.logprobs)
    return Run(tokens, result.text, result.done)


def asked(model: LlamaCppModel, question: str) -> list[int]:
    return model.tokenize([PromptPiece(turn(question))])


def prompts(count: int, seed: int = 5, longest: int = 90) -> list[list[int]]:
    random = np.random.default_rng(seed)
    return [
        [2, *random.integers(20, 500, int(random.integers(3, longest))).tolist()]
        for _ in range(count)
    ]


@pytest.fixture(scope="module", params=PAIRS)
def pair(request: pytest.FixtureRequest, toys: Path) -> Iterator[tuple[LlamaCppModel, bool]]:
    target, draft, often = PAIRS[request.param]
    with load_pair(toys / target, toys / draft if draft else None) as model:
        yield model, often


@pytest.fixture(scope="module")
def plainly(pair: tuple[LlamaCppModel, bool]) -> Plainly:
    """What the pair's target says without drafts, asked for once: the same for all drafts."""

    @cache
    def get(prompt: tuple[int, ...], sampling: SamplingOptions, length: int) -> Run:
        fields = {"sampling": sampling, "max_tokens": length, "reuse_prefix": False}
        return run(pair[0], list(prompt), speculative=PLAIN, **fields)

    return get


@pytest.fixture(scope="module")
def tiny_pair(tiny_chat: Path, tiny_chat_draft: Path) -> Iterator[LlamaCppModel]:
    with load_pair(tiny_chat, tiny_chat_draft, slots=2) as model:
        yield model


@pytest.mark.parametrize(
    ("n_max", "size"),
    [
        *(pytest.param(n, (3, 80), id=f"{n}-few") for n in (1, 3, 6)),
        *(pytest.param(n, (20, 200), id=f"{n}-many", marks=pytest.mark.slow) for n in range(1, 7)),
    ],
)
@pytest.mark.parametrize("sampling", [GREEDY, SEEDED], ids=["greedy", "seeded"])
def test_the_same_tokens_as_plain(
    pair: tuple[LlamaCppModel, bool],
    plainly: Plainly,
    n_max: int,
    sampling: SamplingOptions,
    size: tuple[int, int],
) -> None:
    model, often = pair
    proposed = accepted = 0
    count, length = size
    # where every draft is wrong, an answer is a step a token: a few say as much as many
    for prompt in prompts(count if often else min(count, 5)):
        fields = {"sampling": sampling, "max_tokens": length, "reuse_prefix": False}
        plain = plainly(tuple(prompt), sampling, length)
        drafted = run(model, prompt, speculative=fixed(n_max), **fields)
        assert drafted.tokens == plain.tokens
        assert drafted.text == plain.text
        assert drafted.done.finish_reason == plain.done.finish_reason
        assert drafted.profile.generated_tokens == plain.profile.generated_tokens
        assert plain.profile.draft_proposed == 0 and plain.profile.spec_state is None
        proposed += drafted.profile.draft_proposed
        accepted += drafted.profile.draft_accepted
        assert sum(drafted.profile.accepted_at) == drafted.profile.draft_accepted
    assert proposed > 0
    assert accepted > 0.2 * proposed if often else accepted < 0.05 * proposed


@pytest.mark.parametrize("n_max", [1, 3, 5])
def test_a_broken_accept_rule_is_noticed(
    toys: Path, n_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, draft, _ = PAIRS["shared"]
    # takes whatever was drafted for what was drawn
    monkeypatch.setattr(engine, "_agrees", lambda draft, place, token: place < len(draft))
    with load_pair(toys / target, toys / str(draft)) as model:
        differs = 0
        for prompt in prompts(6):
            plain = run(model, prompt, speculative=PLAIN, reuse_prefix=False)
            drafted = run(model, prompt, speculative=fixed(n_max), reuse_prefix=False)
            differs += drafted.tokens != plain.tokens
    assert differs > 0


def test_slots_prefill_and_plain_requests_in_one_batch(toys: Path) -> None:
    for target, draft, _ in PAIRS.values():
        with load_pair(toys / target, toys / draft if draft else None, slots=4) as model:
            given = prompts(8, seed=9, longest=400)
            alone = [
                run(model, p, speculative=PLAIN, reuse_prefix=False, max_tokens=80).tokens
                for p in given
            ]
            options = [PLAIN if i % 3 == 0 else fixed(1 + i % 6) for i in range(len(given))]
            with ThreadPoolExecutor(8) as pool:
                running = [
                    pool.submit(run, model, prompt, speculative=one, max_tokens=80)
                    for prompt, one in zip(given, options, strict=True)
                ]
                assert [future.result().tokens for future in running] == alone


@pytest.mark.slow
def test_two_thousand_tokens(toys: Path) -> None:
    for target, draft, _ in (PAIRS[kind] for kind in ("shared", "own", "chained")):
        with load_pair(toys / target, toys / draft if draft else None, context=4096) as model:
            prompt = prompts(1)[0]
            bias = SamplingOptions(temperature=0, logit_bias=((1, -1e9), (2, -1e9)))
            plain = run(model, prompt, sampling=bias, speculative=PLAIN, max_tokens=2000)
            drafted = run(
                model, prompt, sampling=bias, speculative=fixed(), max_tokens=2000,
                reuse_prefix=False,
            )  # fmt: skip
            assert drafted.tokens == plain.tokens


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"max_tokens": 7}, id="max-tokens"),
        pytest.param({"max_tokens": 1}, id="one-token"),
        pytest.param({"max_tokens": 0}, id="no-token"),
        pytest.param({"stop": ("mice",)}, id="stop-inside-a-burst"),
        pytest.param({"stop": ("s and it h",)}, id="stop-across-tokens"),
        pytest.param({"stop": ("owlet. And",)}, id="half-a-stop"),
        pytest.param({"sampling": SamplingOptions(temperature=0, repetition_penalty=1.6)},
                     id="repetition"),
        pytest.param({"sampling": SamplingOptions(temperature=0, presence_penalty=9.0)},
                     id="presence"),
        pytest.param({"sampling": SamplingOptions(temperature=0, logit_bias=((300, 8.0),)),
                      "max_tokens": 60}, id="bias"),
        pytest.param({"sampling": SamplingOptions(temperature=0.8, seed=7)}, id="seeded"),
        pytest.param({"sampling": SamplingOptions(
            temperature=0, grammar='root ::= "An owl " [a-z ]+ "." " It has " [a-z]+ " legs."')},
            id="grammar"),
        pytest.param({"logprobs": 3}, id="logprobs"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("n_max", [2, 3, 6])
def test_everything_acts_per_token(
    tiny_pair: LlamaCppModel, fields: dict[str, object], n_max: int
) -> None:
    prompt = asked(tiny_pair, "Tell me about the owl.")
    plain = run(tiny_pair, prompt, speculative=PLAIN, reuse_prefix=False, **fields)
    drafted = run(tiny_pair, prompt, speculative=fixed(n_max), reuse_prefix=False, **fields)
    assert (drafted.tokens, drafted.text) == (plain.tokens, plain.text)
    assert drafted.done.finish_reason == plain.done.finish_reason
    assert drafted.profile.stop_reason == plain.profile.stop_reason
    assert drafted.profile.generated_tokens == plain.profile.generated_tokens


def test_a_chat_from_the_cache(tiny_pair: LlamaCppModel) -> None:
    history = ""
    for question in ("Tell me about the owl.", "What is 7 plus 5?", "Name three fruits."):
        prompt = tiny_pair.tokenize([PromptPiece(history + turn(question))])
        cached = run(tiny_pair, prompt, speculative=fixed())
        anew = run(tiny_pair, prompt, speculative=PLAIN, reuse_prefix=False)
        assert cached.text == anew.text
        history += f"{turn(question)}{cached.text}<turn|>\n"
    assert cached.profile.cached_tokens > 0 and cached.profile.draft_accepted > 0


def test_a_context_that_fills(toys: Path) -> None:
    for target, draft, _ in PAIRS.values():
        for extra in range(1, 9):
            prompt = prompts(1, longest=40)[0]
            with load_pair(
                toys / target, toys / draft if draft else None, context=len(prompt) + extra
            ) as model:
                plain = run(model, prompt, speculative=PLAIN, reuse_prefix=False)
                drafted = run(model, prompt, speculative=fixed(), reuse_prefix=False)
                assert drafted.tokens == plain.tokens
                assert drafted.profile.stop_reason == plain.profile.stop_reason


def test_cancelling_in_a_burst_leaves_the_slot_usable(tiny_pair: LlamaCppModel) -> None:
    prompt = asked(tiny_pair, "Tell me a short story about a fox.")
    expected = run(tiny_pair, prompt, speculative=PLAIN, reuse_prefix=False).text
    for count in range(1, 12, 3):
        generation = tiny_pair.generate(GenerationRequest(prompt, GREEDY, speculative=fixed()))
        for _ in range(count):
            next(generation)
        generation.close()
        assert run(tiny_pair, prompt, speculative=fixed()).text == expected


def test_fewer_than_n_min_are_dropped_and_p_min_shortens(tiny_pair: LlamaCppModel) -> None:
    prompt = asked(tiny_pair, "Tell me about the owl.")
    usual = run(tiny_pair, prompt, speculative=fixed(6)).profile
    sure = run(tiny_pair, prompt, speculative=fixed(6, p_min=0.95)).profile
    assert sure.draft_proposed < usual.draft_proposed
    assert sure.draft_accepted / sure.draft_proposed > usual.draft_accepted / usual.draft_proposed
    whole = run(tiny_pair, prompt, speculative=fixed(6, n_min=6, p_min=0.95)).profile
    assert whole.draft_proposed == 6 * whole.draft_steps
    never = run(tiny_pair, prompt, speculative=fixed(2, n_min=3)).profile
    assert (never.draft_proposed, never.draft_steps) == (0, 0)


def test_counts(tiny_pair: LlamaCppModel) -> None:
    prompt = asked(tiny_pair, "Tell me about the owl.")
    profile = run(tiny_pair, prompt, speculative=fixed(3)).profile
    assert profile.spec_state == "on"
    assert profile.draft_steps > 0 and profile.draft_time > 0 and profile.verify_time > 0
    assert 0.5 < profile.draft_accepted / profile.draft_proposed < 1
    assert list(profile.accepted_at) == sorted(profile.accepted_at, reverse=True)


def test_every_slot_accepts_alike(toys: Path) -> None:
    for target, draft, often in PAIRS.values():
        with load_pair(toys / target, toys / draft if draft else None, slots=4) as model:
            prompt = prompts(1)[0]
            with ThreadPoolExecutor(4) as pool:
                futures = [
                    pool.submit(run, model, prompt, speculative=fixed(), reuse_prefix=False)
                    for _ in range(4)
                ]
                profiles = [future.result().profile for future in futures]
        counts = {(p.draft_proposed, p.draft_accepted) for p in profiles}
        assert len(counts) == 1, "equal prompts, equal drafts, whatever the slot"
        assert (profiles[0].draft_accepted > 10) == often


def test_a_state_that_cannot_be_cut_back_is_saved_and_restored(
    toys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Context.__init__

    def without_rollback(self, library, weights, options, target=None):  # type: ignore[no-untyped-def]
        original(self, library, weights, replace(options, rollback=0), target)
        self.needs_saving = options.rollback > 0

    monkeypatch.setattr(Context, "__init__", without_rollback)
    target, draft, _ = PAIRS["own"]
    assert draft is None
    with load_pair(toys / target, None, slots=3) as model:
        given = prompts(6)
        alone = [run(model, p, speculative=PLAIN, reuse_prefix=False).tokens for p in given]
        drafted = [run(model, p, speculative=fixed(), reuse_prefix=False) for p in given]
        assert [one.tokens for one in drafted] == alone
        assert sum(one.profile.draft_accepted for one in drafted) > 50
        with ThreadPoolExecutor(3) as pool:
            futures = [pool.submit(run, model, p, speculative=fixed()) for p in given]
            assert [future.result().tokens for future in futures] == alone
        longer = [*given[0], *alone[0], 40, 41]
        cached = run(model, longer, speculative=fixed())
        assert cached.tokens == run(model, longer, speculative=PLAIN, reuse_prefix=False).tokens
