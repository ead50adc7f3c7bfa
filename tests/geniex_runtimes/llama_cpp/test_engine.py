"""Slots, prefix reuse and cancelling, seen from outside on the built-in tiny model."""

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from geniex_runtimes.contract import Done, GenerationRequest, PromptPiece, TextEvent
from geniex_runtimes.llama_cpp.runtime import LlamaCppModel
from geniex_runtimes.options import SamplingOptions
from tests.geniex_runtimes.llama_cpp.answers import GREEDY, answer, load, turn

QUESTIONS = [
    "What is the capital of France?",
    "Count from 3 to 9.",
    "Tell me about the owl.",
    "What is speculative decoding?",
    "Tell me a short story about a fox.",
    "Name three fruits.",
]


def test_a_second_turn_evaluates_only_what_is_new(tiny: LlamaCppModel) -> None:
    for question in QUESTIONS:
        first = turn(question)
        said = answer(tiny, first, reuse_prefix=False)
        second = f"{first}{said.text}<turn|>\n{turn('What is 7 plus 5?')}"
        cached = answer(tiny, second)
        anew = answer(tiny, second, reuse_prefix=False)
        profile = cached.done.profile
        held = said.done.profile.prompt_tokens + said.done.profile.generated_tokens - 1
        assert profile.cached_tokens == held, question
        assert profile.prefilled_tokens == profile.prompt_tokens - held
        assert anew.done.profile.cached_tokens == 0
        assert cached.text == anew.text, question


def test_a_chat_that_goes_back_is_cut_to_what_it_shares(tiny: LlamaCppModel) -> None:
    first = turn("Tell me about the owl.")
    expected = answer(tiny, first, reuse_prefix=False).text
    answer(tiny, turn("Tell me about the cat."), max_tokens=40)
    again = answer(tiny, first)
    assert again.text == expected
    assert 0 < again.done.profile.cached_tokens < again.done.profile.prompt_tokens


def test_a_short_chat_goes_on_in_its_slot(tiny_slots: LlamaCppModel) -> None:
    # the prompt is a few tokens, the answer longer, and the next prompt does not repeat all of it
    first = turn("Tell me about the owl.")
    held = answer(tiny_slots, first, reuse_prefix=False).done.profile
    repeated = first[: first.index("<|channel>")]
    shared = len(tiny_slots.tokenize([PromptPiece(repeated)]))
    assert shared < 16 and shared * 2 < held.prompt_tokens + held.generated_tokens
    second = answer(tiny_slots, f"{repeated}It hoots.<turn|>\n{turn('Why?')}")
    assert second.done.profile.cached_tokens == shared


def test_a_prompt_held_whole_evaluates_its_last_token_again(tiny: LlamaCppModel) -> None:
    prompt = turn("Name three fruits.")
    first = answer(tiny, prompt, reuse_prefix=False)
    second = answer(tiny, prompt)
    assert second.text == first.text
    assert second.done.profile.prefilled_tokens == 1


def test_prompts_longer_than_a_batch(tiny: LlamaCppModel) -> None:
    filler = "".join(turn(question) + "Yes.<turn|>\n" for question in QUESTIONS * 5)
    prompt = filler + turn("What is 7 plus 5?")
    result = answer(tiny, prompt, max_tokens=8)
    assert result.done.profile.prompt_tokens > 600
    assert result.text == answer(tiny, prompt, max_tokens=8, reuse_prefix=False).text


def test_many_at_once_answer_as_each_alone(tiny_slots: LlamaCppModel, tiny: LlamaCppModel) -> None:
    alone = [answer(tiny, turn(q), reuse_prefix=False).text for q in QUESTIONS]
    with ThreadPoolExecutor(len(QUESTIONS)) as pool:
        together = list(pool.map(lambda q: answer(tiny_slots, turn(q)).text, QUESTIONS))
    assert together == alone


def test_seeded_answers_do_not_depend_on_neighbours(tiny_slots: LlamaCppModel) -> None:
    def seeded(seed: int) -> str:
        options = SamplingOptions(temperature=3.0, top_k=0, min_p=0.0, top_p=1.0, seed=seed)
        return answer(tiny_slots, turn("Tell me about the owl."), sampling=options).text

    alone = [seeded(seed) for seed in range(6)]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(seeded, range(6))) == alone
    assert len(set(alone)) > 1


def test_two_chats_keep_their_own_slots(tiny_chat: Path) -> None:
    with load(tiny_chat, slots=2) as model:
        histories = [turn(QUESTIONS[2]), turn(QUESTIONS[4])]
        for round_ in range(3):
            for index in (0, 1):
                result = answer(model, histories[index])
                if round_:
                    assert result.done.profile.prefilled_tokens < 40
                histories[index] += f"{result.text}<turn|>\n{turn(QUESTIONS[round_])}"


def test_waiting_requests_are_served_in_turn(tiny: LlamaCppModel) -> None:
    running = [
        tiny.generate(GenerationRequest([PromptPiece(turn(q))], SamplingOptions(temperature=0)))
        for q in QUESTIONS
    ]
    for generation in running:
        assert list(generation)


def test_a_cancelled_waiting_request_never_runs(tiny: LlamaCppModel) -> None:
    prompt = [PromptPiece(turn(QUESTIONS[4]))]
    first = tiny.generate(GenerationRequest(prompt, SamplingOptions(temperature=0)))
    second = tiny.generate(GenerationRequest(prompt, SamplingOptions(temperature=0)))
    second.close()
    assert len(list(first)) > 5
    assert list(second) == []


@pytest.mark.parametrize("pause", [0.0, 0.02, 0.2])
def test_cancelling_a_prefill_is_quick_and_harmless(
    tiny_chat: Path, pause: float, caplog: pytest.LogCaptureFixture
) -> None:
    with load(tiny_chat, context_length=4096) as model:
        expected = answer(model, turn(QUESTIONS[0])).text
        long = [2, *([300, 301, 302, 303] * 1000)]
        running = model.generate(GenerationRequest(long))
        time.sleep(pause)
        running.close()
        started = time.monotonic()
        assert answer(model, turn(QUESTIONS[0])).text == expected
        assert time.monotonic() - started < 5
    # what was stopped on purpose is nobody's error
    assert [one.message for one in caplog.records if one.levelno >= logging.ERROR] == []


def test_an_abandoned_generation_stops(tiny: LlamaCppModel) -> None:
    def begin() -> None:
        forever = SamplingOptions(temperature=0, logit_bias=tuple((t, -99.0) for t in (1, 9, 16)))
        next(tiny.generate(GenerationRequest([PromptPiece("Once")], forever)))

    begin()  # the iterator is dropped here
    assert answer(tiny, turn(QUESTIONS[0])).text


def test_many_threads_share_one_model(tiny_slots: LlamaCppModel) -> None:
    errors: list[BaseException] = []

    def client(index: int) -> None:
        try:
            for step in range(6):
                question = QUESTIONS[(index + step) % len(QUESTIONS)]
                generation = tiny_slots.generate(
                    GenerationRequest([PromptPiece(turn(question))], SamplingOptions(seed=step))
                )
                for count, _ in enumerate(generation):
                    if step % 3 == 0 and count == 3:
                        generation.close()
        except BaseException as exc:
            errors.append(exc)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not errors and not any(thread.is_alive() for thread in threads)


def test_who_reads_slowly_gets_more_at_once_and_misses_nothing(tiny: LlamaCppModel) -> None:
    prompt = turn("Tell me a short story about a fox.")
    expected = answer(tiny, prompt)
    generation = tiny.generate(GenerationRequest([PromptPiece(prompt)], sampling=GREEDY))
    answer(tiny, turn("Name three fruits."))  # it is over before it is read
    *texts, done = generation
    assert isinstance(done, Done)
    assert "".join(text.text for text in texts if isinstance(text, TextEvent)) == expected.text
    assert done.profile.generated_tokens == expected.done.profile.generated_tokens
    tokens = expected.done.profile.generated_tokens
    assert tokens // 4 <= len(texts) < tokens


@pytest.mark.parametrize("fields", [{"logprobs": 1}, {"stop": ("zzz",)}], ids=["logprobs", "stop"])
def test_what_belongs_to_tokens_comes_token_by_token_to_slow_readers(
    tiny: LlamaCppModel, fields: dict[str, Any]
) -> None:
    prompt = turn("Name three fruits.")
    expected = answer(tiny, prompt, **fields)
    request = GenerationRequest([PromptPiece(prompt)], sampling=GREEDY, **fields)
    generation = tiny.generate(request)
    answer(tiny, turn("Tell me about the owl."))
    texts = [event.text for event in generation if isinstance(event, TextEvent)]
    assert tuple(texts) == expected.pieces
