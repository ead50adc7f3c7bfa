"""What is remembered of prompts is bounded in bytes, however long each of them is."""

import sys
import threading
from collections.abc import Callable

import pytest

from geniex_runtimes.llama_cpp.remembered import Remembered

Find = Callable[[str, bool], list[int]]


def finder(asked: list[str]) -> Find:
    """A tokenizer of code points that notes what it was asked."""

    def find(text: str, special: bool) -> list[int]:
        asked.append(text)
        return [int(special), *map(ord, text)]

    return find


def test_a_text_is_asked_for_once_and_as_special_once_more() -> None:
    asked: list[str] = []
    some, find = Remembered(), finder(asked)
    for _ in range(3):
        assert list(some.tokens("é", True, find)) == [1, 233]
        assert list(some.tokens("é", False, find)) == [0, 233]
    assert asked == ["é", "é"]


@pytest.mark.parametrize("length", [0, 1, 100, 16_000], ids="{} characters".format)
def test_any_number_of_texts_takes_no_more_than_allowed(length: int) -> None:
    most = 200_000
    some, find = Remembered(most), finder([])
    for number in range(3 * most // (length + 300)):
        text = f"{number:07}" + "x" * length
        assert len(some.tokens(text, False, find)) == len(text) + 1
        assert some.size <= most
    assert some.size > most / 2


def test_what_was_used_least_recently_goes_first() -> None:
    asked: list[str] = []
    some, find = Remembered(8000), finder(asked)
    for number in range(100):
        some.tokens("the system prompt", False, find)
        some.tokens(f"question {number}", False, find)
    assert asked.count("the system prompt") == 1
    some.tokens("question 0", False, find)
    assert asked.count("question 0") == 2


def test_a_text_that_is_larger_than_all_is_not_kept() -> None:
    some, text = Remembered(100), "x" * 1000
    assert len(some.tokens(text, False, finder([]))) == 1001
    assert some.size == 0 < sys.getsizeof(text)


def test_threads_that_ask_for_the_same_leave_the_size_right() -> None:
    some, wait = Remembered(20_000), threading.Barrier(8)

    def find(text: str, special: bool) -> list[int]:
        wait.wait(30)  # all of them have missed
        return [1, 2, 3]

    threads = [threading.Thread(target=some.tokens, args=("a", False, find)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = Remembered(20_000)
    alone.tokens("a", False, lambda text, special: [1, 2, 3])
    assert some.size == alone.size
