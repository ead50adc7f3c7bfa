"""An answer's parts: reasoning, content and calls with their log probabilities, cut anywhere."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geniex.chat.flow import Flow
from geniex.chat.reasoning import Part, ReasoningSplitter
from geniex.chat.tool_calls.families import FAMILIES
from geniex.chat.tool_calls.reader import CallReader
from geniex.chat.tools import Tool, ToolCallPart
from geniex_runtimes.contract import Done, Event, Profile, TextEvent, TokenLogprob

NOW = '{"name": "now", "arguments": {}}'
CALL = f"<tool_call>{NOW}</tool_call>"
THOUGHT = f"<think>\n{CALL}? </think>\n\n"


class Scripted:
    """A generation of pieces of text; `stopped` and `closed` tell what was done to it."""

    def __init__(self, *events: Event) -> None:
        self._events = iter(events)
        self.stopped = self.closed = False

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if self.stopped:
            self._events = iter(())
            self.stopped = False
            return Done("cancelled", Profile())
        return next(self._events)

    def stop(self) -> None:
        self.stopped = True

    def close(self) -> None:
        self.closed = True


def generation(pieces: list[str]) -> Scripted:
    return Scripted(*(TextEvent(piece) for piece in pieces), Done("stop", Profile()))


def flow(
    *, inline: bool = False, tools: bool = True, parallel: bool = True, stop: Sequence[str] = ()
) -> Flow:
    reader = CallReader([Tool("now")], FAMILIES, parallel=parallel) if tools else None
    return Flow(ReasoningSplitter(), reader, inline=inline, stop=stop)


def told(parts: list[Part | ToolCallPart | Done]) -> tuple[str, str, int]:
    """Reasoning, content, and how many calls."""
    texts = {
        kind: "".join(p.text for p in parts if isinstance(p, Part) and p.kind == kind)
        for kind in ("reasoning", "content")
    }
    calls = sum(isinstance(p, ToolCallPart) and p.id is not None for p in parts)
    return texts["reasoning"], texts["content"], calls


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        pytest.param("Hi", {}, ("", "Hi", 0), id="plain"),
        pytest.param(f"{THOUGHT}Hi", {}, (f"{CALL}?", "Hi", 0), id="a thought is no call"),
        pytest.param(f"{THOUGHT}{CALL}", {}, (f"{CALL}?", "", 1), id="thought, then called"),
        pytest.param(CALL, {"tools": False}, ("", CALL, 0), id="no tools"),
        pytest.param(f"{THOUGHT}Hi", {"inline": True}, ("", f"{THOUGHT}Hi", 0), id="inline"),
        pytest.param(
            f"{THOUGHT}Hi{CALL}", {"inline": True}, ("", f"{THOUGHT}Hi", 1), id="inline and called"
        ),
        pytest.param("<think>\nhm ", {"inline": True}, ("", "<think>\nhm ", 0), id="inline, cut"),
        pytest.param(
            f"<think>a</think>{CALL}",
            {"inline": True, "tools": False},
            ("", f"<think>a</think>{CALL}", 0),
            id="inline without tools",
        ),
    ],
)
def test_what_goes_where(
    text: str, options: dict[str, Any], expected: tuple[str, str, int]
) -> None:
    for pieces in ([text], list(text)):
        source = generation(pieces)
        *parts, done = flow(**options).parts(source)
        assert told(parts) == expected
        assert done == Done("stop", Profile()) and source.closed


FRAGMENTS = st.sampled_from(
    [
        "<think>",
        "</think>",
        "[THINK]",
        "[/THINK]",
        CALL,
        CALL[:20],
        "<|channel>thought",
        "<channel|>",
        *("\n", " ", "a", "bé"),
    ]
)


@settings(deadline=None)
@given(
    st.lists(FRAGMENTS, max_size=10).map("".join),
    st.fixed_dictionaries(
        {"inline": st.booleans(), "tools": st.booleans(), "parallel": st.booleans()}
    ),
    st.sampled_from([(), ("a",), (">",), ("no", "]"), ("abé", "b"), ("é\n", "a a"), ("<to", "aa")]),
    st.data(),
)
def test_how_it_is_cut_never_matters(
    text: str, options: dict[str, Any], stop: Sequence[str], data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=12)) | {0, len(text)})
    pieces = [text[a:b] for a, b in pairwise(cuts)]
    whole = told(list(flow(**options, stop=stop).parts(generation([text]))))
    assert told(list(flow(**options, stop=stop).parts(generation(pieces)))) == whole
    if options["inline"]:
        assert stop or options["tools"] or whole == ("", text, 0)
    else:
        assert not any(text in whole[1] for text in stop)


@pytest.mark.parametrize(
    ("text", "stop", "options", "expected"),
    [
        pytest.param(f"{THOUGHT}Hi> x", [">"], {}, (f"{CALL}?", "Hi", 0), id="marks of reasoning"),
        pytest.param(f"{THOUGHT}Hi. No", ["now", "."], {}, (f"{CALL}?", "Hi", 0), id="thoughts"),
        pytest.param(f"Hi{CALL} on", ["now", ">", "o"], {}, ("", "Hi ", 1), id="calls"),
        pytest.param(CALL, [">"], {"tools": False}, ("", CALL[:10], 0), id="no call without tools"),
        pytest.param("one stop two", ["e s", "two"], {}, ("", "on", 0), id="over several pieces"),
        pytest.param("one stop", ["stop", "e stop"], {}, ("", "on", 0), id="the longer of two"),
        pytest.param("one stop", ["ne stop", "e s"], {}, ("", "on", 0), id="whole first"),
        pytest.param("one", ["", "e"], {}, ("", "on", 0), id="an empty one is none"),
        pytest.param(
            f"{THOUGHT}Hi> x", [">"], {"inline": True}, ("", f"{THOUGHT}Hi", 0), id="inline"
        ),
        pytest.param("Hi<thi", ["<"], {}, ("", "Hi", 0), id="in what may yet be a mark"),
    ],
)
def test_stop_strings_end_the_content(
    text: str, stop: list[str], options: dict[str, Any], expected: tuple[str, str, int]
) -> None:
    for pieces in ([text, "no"], [*text, "no"]):
        *parts, done = flow(**options, stop=stop).parts(generation(pieces))
        assert told(parts) == expected
        assert done == Done("stop", Profile(stop_reason="stop"))


@pytest.mark.parametrize(
    ("text", "stop", "expected"),
    [
        pytest.param("one st", ["stop"], ("", "one st", 0), id="only begun"),
        pytest.param("a[THINK]b[/THINK]c", ["ac", "b"], ("b", "ac", 0), id="never across"),
        pytest.param(f"a{CALL}b", ["ab", "now"], ("", "ab", 1), id="never across a call"),
        pytest.param("<think>so. ", ["."], ("so.", "", 0), id="reasoning alone"),
    ],
)
def test_stop_strings_that_are_none(
    text: str, stop: list[str], expected: tuple[str, str, int]
) -> None:
    for pieces in ([text], list(text)):
        *parts, done = flow(stop=stop).parts(generation(pieces))
        assert told(parts) == expected
        assert done == Done("stop", Profile())


def test_what_is_sure_to_be_no_stop_is_not_held_back() -> None:
    parts = flow(tools=False, stop=["stop"]).parts(generation(["a st", "ep, s", "top"]))
    assert [part.text for part in parts if isinstance(part, Part)] == ["a ", "st", "ep, "]


@pytest.mark.parametrize("together", [1, 2, 9])
def test_tokens_of_a_stop_are_no_content(together: int) -> None:
    tokens = [b"<think>", b"a b", b"</think>", b"Yes", b" a", b" c", b" a", b" b", b" d"]
    parts = flow(tools=False, stop=["a b"]).parts(with_tokens(*tokens, together=together))
    said = [part for part in parts if isinstance(part, Part) and part.kind == "content"]
    assert "".join(part.text for part in said) == "Yes a c "
    assert [entry.data for part in said for entry in part.logprobs] == [b"Yes", b" a", b" c"]


@pytest.mark.parametrize("reason", ["cancelled", "stop", "length"])
@pytest.mark.parametrize(
    ("pieces", "options", "tokens"),
    [
        pytest.param(["one", " st", "op", " t", "wo"], {"stop": ["stop"]}, 3, id="stop"),
        pytest.param([CALL, "\n", "and on"], {"parallel": False}, 1, id="one call"),
        pytest.param(["one", " two"], {"stop": ["x"]}, 9, id="to its end"),
    ],
)
def test_tokens_are_counted_up_to_the_stop(
    pieces: list[str], options: dict[str, Any], tokens: int, reason: Any
) -> None:
    events = [TextEvent(piece, tokens=index) for index, piece in enumerate(pieces, 1)]
    source = Scripted(*events, Done(reason, Profile(generated_tokens=9)))
    source.stop = lambda: None  # type: ignore[method-assign]
    made = flow(**options)
    *_, done = made.parts(source)
    assert made.may_stop and isinstance(done, Done)
    assert done.profile.generated_tokens == tokens


def test_only_what_may_stop_has_its_tokens_counted() -> None:
    assert not flow().may_stop


def test_one_call_stops_the_generation() -> None:
    source = generation([CALL, " and on", CALL])
    *parts, done = flow(parallel=False).parts(source)
    assert told(parts) == ("", "", 1)
    assert done == Done("stop", Profile(stop_reason="stop"))
    assert list(source) == []


def test_closing_reaches_the_generation() -> None:
    source = generation(["a", "b"])
    parts = flow().parts(source)
    assert next(parts) == Part("content", "a")
    parts.close()  # type: ignore[attr-defined]
    assert source.closed


def entry(data: bytes) -> TokenLogprob:
    return TokenLogprob(0, data, -1.0)


def with_tokens(*tokens: bytes, together: int = 1) -> Scripted:
    """A generation of tokens with entries, as many in one event as `together`."""
    events: list[Event] = []
    for at in range(0, len(tokens), together):
        some = tokens[at : at + together]
        entries = tuple(entry(data) for data in some)
        events.append(TextEvent(b"".join(some).decode(), entries))
    return Scripted(*events, Done("stop", Profile()))


@pytest.mark.parametrize("together", [1, 2, 9])
@pytest.mark.parametrize("inline", [True, False])
def test_tokens_go_with_the_text_that_they_end_in(together: int, inline: bool) -> None:
    tokens = [b"<think>", b"hm", b" so", b"</think>", b"\n\n", b"Yes", b", ", b"two"]
    source = with_tokens(*tokens, together=together)
    parts = [p for p in flow(inline=inline, tools=False).parts(source) if isinstance(p, Part)]
    noted = {
        kind: [e.data for p in parts for e in p.logprobs if p.kind == kind]
        for kind in ("reasoning", "content")
    }
    if inline:
        assert noted == {"reasoning": [], "content": tokens}
    else:
        assert noted == {"reasoning": [b"hm", b" so"], "content": [b"Yes", b", ", b"two"]}
    for part in parts:
        assert part.text.endswith(b"".join(e.data for e in part.logprobs).decode())


def test_halves_of_a_character_go_with_it() -> None:
    halves = [b"a", b"\xc3", b"\xa9"]
    entries = [entry(half) for half in halves]
    source = Scripted(
        TextEvent("a", (entries[0],)),
        TextEvent("é", (entries[1], entries[2])),
        Done("stop", Profile()),
    )
    parts = [p for p in flow(tools=False).parts(source) if isinstance(p, Part)]
    assert [(p.text, [e.data for e in p.logprobs]) for p in parts] == [
        ("a", [b"a"]),
        ("é", [b"\xc3", b"\xa9"]),
    ]


def test_the_tokens_of_a_call_are_no_content() -> None:
    source = with_tokens(b"Look", b" ", b"<tool_call>", NOW.encode(), b"</tool_call>", b"\n", b"x")
    parts = [p for p in flow().parts(source) if isinstance(p, Part)]
    assert [(p.text, [e.data for e in p.logprobs]) for p in parts] == [
        ("Look", [b"Look"]),
        ("\n", [b"\n"]),
        ("x", [b"x"]),
    ]
