"""Clients that come, ask right and wrong, and go at any moment, while models change under them."""

import time
from pathlib import Path

import pytest

from ci.soaking.clients import Soak
from ci.soaking.kinds import KINDS
from ci.soaking.questions import Book, Question, read
from ci.soaking.scene import models, soak
from ci.soaking.shelf import Shelf, digest_of
from ci.soaking.watch import Sample, growth, leaks

SECONDS, PHASE = 9.0, 3.0


@pytest.mark.slow
def test_a_short_soak() -> None:
    told: list[str] = []
    with models(None) as more:
        outcome = soak(SECONDS, more, seed=4, tell=told.append, phase=PHASE)
    assert outcome.problems == [], told
    assert sum(outcome.report.compared.values()) > 5


def test_a_server_that_fails_is_found_out() -> None:
    soaking = Soak("http://127.0.0.1:1", seed=1)
    soaking.run(2, rounds=6)
    assert len(soaking.report.faults) == 6
    assert {kind for kind, _ in soaking.report.done} <= set(KINDS)


def test_another_answer_is_found_out() -> None:
    question = Question("tokens", "/tokenize", {}, streams=False)
    book = Book()
    book.fill("bytes", "model", (question,), lambda path, body: [1, 2])
    assert book.knows("bytes", question, [1, 2])
    assert not book.knows("bytes", question, [1, 3])


def test_an_answer_is_read_whole_or_streamed() -> None:
    whole = b'{"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}'
    stream = (
        b'data: {"choices": [{"delta": {"role": "assistant"}, "finish_reason": null}]}\n\n'
        b'data: {"choices": [{"delta": {"content": "Hel"}, "finish_reason": null}]}\n\n'
        b'data: {"choices": [{"delta": {"content": "lo"}, "finish_reason": "stop"}]}\n\n'
        b"data: [DONE]\n\n"
    )
    path = "/v1/chat/completions"
    assert read(path, whole) == read(path, stream) == ["Hello", "stop"]
    with pytest.raises(ValueError, match="an error in a stream"):
        read(path, b'data: {"error": {"message": "no"}}\n\n')


def test_what_a_name_meant(tmp_path: Path, tiny_chat: Path, tiny_chat_draft: Path) -> None:
    shelf, start = Shelf(tmp_path), time.monotonic()
    shelf.put("soak/one", tiny_chat)
    old, new = digest_of(tiny_chat), digest_of(tiny_chat_draft)
    shelf.rename_over("soak/one", tiny_chat_draft)
    assert shelf.meant("soak/one", start, start) == {old}
    assert shelf.meant("soak/one", start, time.monotonic()) == {old, new}
    now = time.monotonic()
    assert shelf.meant("soak/one", now, now) == {new}


def test_growth_is_of_the_memory_after_the_warm_up() -> None:
    assert growth([100, 100, 101, 100, 102, 101, 100, 110, 99, 101]) == pytest.approx(0.0, abs=0.01)
    assert growth([100, 102, 104, 106, 108, 110, 112, 114, 116, 118]) > 0.1


def test_leaks_are_found_out() -> None:
    steady = [Sample(100, 9, 6 + number % 2, 0) for number in range(10)]
    assert leaks(steady) == []
    growing = [Sample(100 + 2 * number, 9 + number, 6, 0) for number in range(10)]
    assert leaks(growing) == ["memory grew by 15.8%", "files grew from 9 to 18"]
