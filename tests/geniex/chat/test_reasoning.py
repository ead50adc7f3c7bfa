"""The reasoning splitter: every way of marking, cut anywhere."""

from itertools import groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geniex.chat.reasoning import (
    FORMATS,
    THINK,
    ReasoningSplitter,
    formats_in,
    open_format,
)

ANALYSIS = "<|channel|>analysis<|message|>"
FINAL = "<|start|>assistant<|channel|>final<|message|>"
CALL = "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}"


def split(pieces: list[str], *, open: bool = False) -> list[tuple[str, str]]:
    """The parts of an answer, those of one kind that follow each other joined."""
    splitter = ReasoningSplitter(open)
    parts = [part for piece in pieces for part in splitter.feed(piece)] + splitter.finish()
    assert all(part.text for part in parts)
    assert all("".join(pieces).startswith(part.text, part.at) for part in parts)
    return [
        (kind, "".join(part.text for part in run))
        for kind, run in groupby(parts, key=lambda part: part.kind)
    ]


CASES = [
    # the answer, whether the prompt left reasoning open, reasoning, content
    pytest.param("", False, "", "", id="nothing"),
    pytest.param("Paris.", False, "", "Paris.", id="plain"),
    pytest.param("\n\n  Paris.\n", False, "", "\n\n  Paris.\n", id="plain with blank lines"),
    pytest.param(" \n ", False, "", " \n ", id="blank"),
    pytest.param("<think>hmm 2+2</think>4", False, "hmm 2+2", "4", id="think"),
    pytest.param("<think>\nhmm\n\nso\n</think>\n\n4\n", False, "hmm\n\nso", "4\n", id="lines"),
    pytest.param("\n <think>a</think>b", False, "a", "b", id="blank before"),
    pytest.param("<think>\n\n</think>\n\nb", False, "", "b", id="empty block"),
    pytest.param("<think>a</think>\n\n    code", False, "a", "    code", id="indent kept"),
    pytest.param("<think>a</think> b", False, "a", " b", id="one space kept"),
    pytest.param("<think>a</think>\n<think>b</think>c", False, "ab", "c", id="two blocks"),
    pytest.param("<think>still going", False, "still going", "", id="never closed"),
    pytest.param("<think>a</thi", False, "a</thi", "", id="broken closing tag"),
    pytest.param("<thin", False, "", "<thin", id="broken opening tag"),
    pytest.param("<think>a</think>", False, "a", "", id="nothing after"),
    pytest.param("<think>a</think>\n\n ", False, "a", "", id="blank after"),
    pytest.param("<think>a <think> b</think>c", False, "a <think> b", "c", id="nested is text"),
    pytest.param("a</think>b", False, "", "a</think>b", id="lone closing tag"),
    pytest.param(
        "Use `<think>` and `</think>`.", False, "", "Use `<think>` and `</think>`.", id="t"
    ),
    pytest.param("I say <think>no</think>", False, "", "I say <think>no</think>", id="too late"),
    pytest.param("hm\n</think>\n\n4", True, "hm", "4", id="open prompt"),
    pytest.param("hm", True, "hm", "", id="open prompt, never closed"),
    pytest.param("</think>4", True, "", "4", id="open prompt, closed at once"),
    pytest.param("<think>hm</think>4", True, "<think>hm", "4", id="open prompt, tag again"),
    pytest.param("<|channel>thought\nhm\n<channel|>reply", False, "hm", "reply", id="gemma"),
    pytest.param("<|channel>thought\n<channel|>reply", False, "", "reply", id="gemma empty"),
    pytest.param("[THINK]hm[/THINK]4", False, "hm", "4", id="mistral"),
    pytest.param("◁think▷hm◁/think▷4", False, "hm", "4", id="kimi"),
    pytest.param("<seed:think>hm</seed:think>4", False, "hm", "4", id="seed"),
    pytest.param(
        "<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>4<|END_RESPONSE|>",
        False,
        "hm",
        "4",
        id="command",
    ),
    pytest.param(f"{ANALYSIS}reason<|end|>{FINAL}answer", False, "reason", "answer", id="gpt-oss"),
    pytest.param(f"{FINAL}answer<|end|>", False, "", "answer", id="gpt-oss without reasoning"),
    pytest.param(f"{ANALYSIS}reason", False, "reason", "", id="gpt-oss never closed"),
    pytest.param(
        f"{ANALYSIS}a<|end|><|start|>assistant{ANALYSIS}b<|end|>{FINAL}c",
        False,
        "ab",
        "c",
        id="gpt-oss twice",
    ),
    pytest.param(f"{ANALYSIS}a<|end|>{CALL}", False, "a", CALL, id="gpt-oss tool call"),
    pytest.param(
        f"<|channel|>commentary<|message|>First.<|end|>{FINAL}Then.",
        False,
        "",
        "First.Then.",
        id="gpt-oss preamble",
    ),
]


@pytest.mark.parametrize(("answer", "open", "reasoning", "content"), CASES)
def test_reasoning_and_content_are_parted(
    answer: str, open: bool, reasoning: str, content: str
) -> None:
    expected = [("reasoning", reasoning), ("content", content)]
    expected = [part for part in expected if part[1]]
    assert split([answer], open=open) == expected
    assert split(list(answer), open=open) == expected


MARKS = [mark for form in FORMATS for mark in (*form.opens, *form.closes, *form.drops)]
ANSWERS = st.lists(
    st.one_of(
        st.sampled_from([*MARKS, *(mark[:-2] for mark in MARKS), " ", "\n", "<", "a", "é"]),
        st.text(max_size=4),
    ),
    max_size=12,
).map("".join)


@given(ANSWERS, st.booleans(), st.data())
def test_how_the_text_is_cut_never_matters(answer: str, open: bool, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(answer)), max_size=20)) | {0, len(answer)})
    pieces = [answer[a:b] for a, b in pairwise(cuts)]
    assert split(pieces, open=open) == split([answer], open=open)


@given(st.text().filter(lambda text: not any(mark in text for mark in MARKS)))
def test_an_answer_without_tags_is_unchanged(answer: str) -> None:
    assert split(list(answer)) == ([("content", answer)] if answer else [])


@given(ANSWERS)
def test_no_word_is_lost(answer: str) -> None:
    words = "".join(text for _, text in split([answer]))
    kept = iter(words)
    without_marks = answer
    for mark in sorted(MARKS, key=len, reverse=True):
        without_marks = without_marks.replace(mark, "\x00")
    outside = [char for char in without_marks if not char.isspace() and char != "\x00"]
    assert all(any(char == other for other in kept) for char in outside)


@given(ANSWERS)
def test_only_blank_space_and_beginnings_of_tags_are_held_back(answer: str) -> None:
    splitter = ReasoningSplitter()
    for char in answer:
        splitter.feed(char)
        held = splitter._buffer.strip()
        assert not held or any(mark.startswith(held) for mark in MARKS)


def test_no_tag_is_the_beginning_of_another() -> None:
    # else the shorter one would be taken before the longer one can arrive
    marks = set(MARKS)
    assert not [(a, b) for a in marks for b in marks if a != b and b.startswith(a)]


@pytest.mark.parametrize(
    ("source", "opens"),
    [
        pytest.param(None, ["<think>"], id="no template"),
        pytest.param("{{ '<|channel>thought' }}", ["<think>", "<|channel>thought"], id="gemma"),
        pytest.param("{{ '<|end|>' }}", ["<think>"], id="phi has <|end|> but no channels"),
    ],
)
def test_a_template_shows_which_formats_to_expect(source: str | None, opens: list[str]) -> None:
    assert [form.opens[0] for form in formats_in(source)] == opens


@pytest.mark.parametrize(
    ("prompt", "form"),
    [
        pytest.param("<|im_start|>assistant\n<think>\n", THINK, id="open"),
        pytest.param("<think>\n\n</think>\n\n", None, id="closed"),
        pytest.param("<think> about it", None, id="not at the end"),
        pytest.param("", None, id="empty"),
    ],
)
def test_an_open_prompt_is_seen(prompt: str, form: object) -> None:
    assert open_format(prompt, FORMATS) is form
