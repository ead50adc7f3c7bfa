"""Many clients at random: start, read a while, cancel, drop, time out. Every slot is free after."""

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from geniex_runtimes.contract import Done, GenerationRequest, PromptPiece
from geniex_runtimes.errors import GenerationError
from geniex_runtimes.llama_cpp.runtime import LlamaCppModel
from geniex_runtimes.options import SamplingOptions, SpeculativeOptions
from tests.geniex_runtimes.llama_cpp.answers import GREEDY, answer, load, resolved, turn

SLOTS = 4
QUESTIONS = [
    "What is the capital of France?",
    "Count from 3 to 9.",
    "Tell me about the owl.",
    "Tell me a short story about a fox.",
]
LONG = "".join(turn(question) + "Yes.<turn|>\n" for question in QUESTIONS * 6)
ENDLESS = SamplingOptions(temperature=0.8, logit_bias=tuple((t, -99.0) for t in (1, 9, 16)))


def clients(count: int, act: Callable[[random.Random], None]) -> None:
    """So many threads that act at random; what any of them raises fails the test."""
    errors: list[BaseException] = []

    def run(seed: int) -> None:
        try:
            act(random.Random(seed))
        except BaseException as exc:
            errors.append(exc)

    threads = [threading.Thread(target=run, args=(seed,), daemon=True) for seed in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not any(thread.is_alive() for thread in threads), "somebody still waits"
    assert errors == []


def round_of(model: LlamaCppModel, dice: random.Random, expected: dict[str, str]) -> None:
    """One request: read to the end, or closed somewhere, or dropped."""
    question = dice.choice(QUESTIONS)
    how = dice.choice(("whole", "endless", "prefill", "drop", "at-once"))
    long = how == "prefill" or dice.random() < 0.2
    prompt = [PromptPiece((LONG if long else "") + turn(question))]
    sampling = GREEDY if how == "whole" else ENDLESS
    speculative = dice.choice((None, SpeculativeOptions()))
    request = GenerationRequest(prompt, sampling, speculative=speculative)
    running = model.generate(request)
    if how == "whole":
        *pieces, done = running
        assert isinstance(done, Done) and done.finish_reason == "stop"
        if not long:
            text = "".join(piece.text for piece in pieces if not isinstance(piece, Done))
            assert text == expected[question]
    elif how in ("endless", "drop"):
        for count, _ in enumerate(running):
            if count >= dice.randrange(12):
                break
        if how == "endless":
            running.close()
    else:
        time.sleep(dice.random() * 0.02 if how == "prefill" else 0)
        running.close()


def all_slots_answer(model: LlamaCppModel, expected: dict[str, str]) -> None:
    """As many at once as there are slots, all right: none is lost, none holds another's cells."""

    def ask(dice: random.Random) -> None:
        question = dice.choice(QUESTIONS)
        assert answer(model, turn(question)).text == expected[question]

    clients(SLOTS, ask)


@pytest.mark.parametrize(
    ("speculative", "rounds"),
    [
        pytest.param(False, 8, id="plain"),
        pytest.param(True, 8, id="mtp"),
        pytest.param(False, 30, id="plain-long", marks=pytest.mark.slow),
        pytest.param(True, 20, id="mtp-long", marks=pytest.mark.slow),
    ],
)
def test_random_starts_and_cancels(
    tiny_chat: Path, tiny_chat_draft: Path, speculative: bool, rounds: int
) -> None:
    options: dict[str, object] = {"slots": SLOTS, "context_length": 2048}
    if speculative:
        options["draft"] = resolved(tiny_chat_draft)
        options["speculative"] = SpeculativeOptions(("draft-mtp",), require=True)
    with load(tiny_chat, **options) as model:
        expected = {q: answer(model, turn(q), reuse_prefix=False).text for q in QUESTIONS}

        def client(dice: random.Random) -> None:
            for _ in range(rounds):
                round_of(model, dice, expected)

        clients(2 * SLOTS, client)
        all_slots_answer(model, expected)


@pytest.mark.parametrize("seed", range(3))
def test_closed_in_the_middle_of_it_all(tiny_chat: Path, seed: int) -> None:
    model = load(tiny_chat, slots=SLOTS, context_length=2048)
    busy = threading.Semaphore(0)

    def client(dice: random.Random) -> None:
        try:
            while True:
                prompt = [PromptPiece(turn(dice.choice(QUESTIONS)))]
                for event in model.generate(GenerationRequest(prompt, ENDLESS)):
                    busy.release()
                    if isinstance(event, Done) and event.finish_reason == "cancelled":
                        return
        except GenerationError as exc:
            assert "closed" in exc.message or "unloaded" in exc.message

    def closer() -> None:
        for _ in range(10 * (seed + 1)):
            assert busy.acquire(timeout=30)
        model.close()

    closing = threading.Thread(target=closer)
    closing.start()
    clients(2 * SLOTS, client)
    closing.join(timeout=60)
    assert not closing.is_alive()
