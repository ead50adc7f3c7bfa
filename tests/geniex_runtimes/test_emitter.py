"""Whole characters, and never a stop string, however the bytes arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geniex_runtimes.contract import TokenLogprob
from geniex_runtimes.emitter import Emitter


def run(pieces: list[bytes], stop: tuple[str, ...] = ()) -> tuple[list[str], bool]:
    emitter = Emitter(stop)
    out: list[str] = []
    for piece in pieces:
        event = emitter.feed(piece)
        out += [event.text] if event else []
        if emitter.stopped:
            break
    last = emitter.finish()
    return out + ([last.text] if last else []), emitter.stopped


@pytest.mark.parametrize(
    ("pieces", "stop", "text", "stopped"),
    [
        pytest.param([b"Par", b"is"], (), "Paris", False, id="plain"),
        pytest.param(["é".encode()[:1], "é".encode()[1:]], (), "é", False, id="split-character"),
        pytest.param(["😀".encode()[:3]], (), "\ufffd", False, id="never-completed"),
        pytest.param([b"a\xff", b"b"], (), "a\ufffdb", False, id="invalid-does-not-stall"),
        pytest.param([b"one", b" END", b" two"], ("END",), "one ", True, id="stop-whole"),
        pytest.param([b"one E", b"N", b"D two"], ("END",), "one ", True, id="stop-split"),
        pytest.param([b"one E", b"N"], ("END",), "one EN", False, id="half-a-stop-is-text"),
        pytest.param([b"aab"], ("ab",), "a", True, id="overlapping-start"),
        pytest.param([b"xyz"], ("z", "y"), "x", True, id="earliest-of-two"),
        pytest.param([b"abc"], ("",), "abc", False, id="empty-stop-matches-nothing"),
        pytest.param([b"", b"a"], ("b",), "a", False, id="empty-piece"),
    ],
)
def test_text(pieces: list[bytes], stop: tuple[str, ...], text: str, stopped: bool) -> None:
    out, ended = run(pieces, stop)
    assert ("".join(out), ended) == (text, stopped)


def test_text_leaves_as_soon_as_it_may() -> None:
    emitter = Emitter(("STOP",))
    first = emitter.feed(b"hello S")
    assert first is not None and first.text == "hello "
    second = emitter.feed(b"un")
    assert second is not None and second.text == "Sun"


@given(
    st.text(alphabet="abé😀\n", max_size=40),
    st.lists(st.text(alphabet="abé😀", min_size=1, max_size=4), max_size=3),
    st.lists(st.integers(1, 3), min_size=1, max_size=200),
)
def test_chunks_do_not_matter(text: str, stop: list[str], sizes: list[int]) -> None:
    data, pieces, at = text.encode(), [], 0
    for size in sizes:
        pieces.append(data[at : at + size])
        at += size
    pieces.append(data[at:])
    found = [where for word in stop if (where := text.find(word)) >= 0]
    expected = text[: min(found)] if found else text
    out, stopped = run(pieces, tuple(stop))
    if found:
        # the match that completes first wins, so a longer earlier one may come too late
        assert stopped and expected.startswith("".join(out)[: len(expected)])
        assert not any(word in "".join(out) for word in stop)
    else:
        assert "".join(out) == expected and not stopped


def test_logprobs_come_with_the_text_they_belong_to() -> None:
    emitter = Emitter(("XY",))
    entries = [TokenLogprob(i, b"", -0.1) for i in range(4)]
    assert emitter.feed(b"a", entries[0]) is not None
    assert emitter.feed(b"X", entries[1]) is None
    event = emitter.feed(b"b", entries[2])
    assert event is not None and event.text == "Xb" and event.logprobs == (entries[1], entries[2])
    assert emitter.feed(b"XY", entries[3]) is None and emitter.stopped
