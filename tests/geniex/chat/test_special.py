"""Typed control tokens stay text, whatever stands around them."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geniex.chat.messages import Message
from geniex.chat.special import ControlTokens, Guard
from geniex_catalogue.errors import TemplateError
from geniex_runtimes.contract import PromptPiece
from tests.geniex.chat.conftest import CONTROL_TOKENS, Named

# text that is rich in whole and broken tokens, private characters and blank space
PRIVATE = ["\U000f0000", "\U000f0001", "\ue000"]
BROKEN = ["<|im_", "end|>", "<", "|>", "</thi", "nk>", '"', "\\", "{{ x }}", "{% raw %}"]
FRAGMENTS = st.sampled_from(
    [*sorted(CONTROL_TOKENS), *PRIVATE, *BROKEN, " ", "\n", "a", "é", "👍🏽"]
)
CONTENTS = st.lists(st.one_of(FRAGMENTS, st.text(max_size=5)), max_size=12).map("".join)
HEAD = "<|im_start|>system\nYou are a small assistant.<|im_end|>\n<|im_start|>user\n"
TAIL = "<|im_end|>\n<|im_start|>assistant\n"


def spans(tokens: set[str], text: str) -> list[str]:
    return [text[a:b] for a, b in ControlTokens(frozenset(tokens)).find(text)]


@pytest.mark.parametrize(
    ("tokens", "text", "found"),
    [
        pytest.param({"<a>", "<ab>"}, "x<ab><a>", ["<ab>", "<a>"], id="each"),
        pytest.param({"<a", "<ab"}, "<abc", ["<ab"], id="longest"),
        pytest.param({"aa"}, "aaa", ["aa"], id="no overlap"),
        pytest.param(set(), "<a>", [], id="no tokens"),
        pytest.param({""}, "<a>", [], id="an empty token is none"),
        pytest.param({"[INST]", "]x", "^", "-"}, "[INST]x ^-", ["[INST]", "^", "-"], id="brackets"),
        pytest.param({"<a>"}, "<<a>", ["<a>"], id="after a false start"),
    ],
)
def test_tokens_are_found(tokens: set[str], text: str, found: list[str]) -> None:
    assert spans(tokens, text) == found


def test_a_big_vocabulary_in_a_long_text_is_quick() -> None:
    tokens = ControlTokens(frozenset(f"<unused{n}>" for n in range(10_000)))
    assert len(list(tokens.find("<html> <unused77> " * 20_000))) == 20_000


@settings(deadline=None)
@given(CONTENTS)
def test_no_text_is_lost_and_no_token_is_let_through(named: Named, content: str) -> None:
    rendered = named("chatml").render([Message("user", content)])
    assert rendered.text == HEAD + content + TAIL
    special = "".join(piece.text for piece in rendered.pieces if not piece.literal)
    found = [special[a:b] for a, b in ControlTokens(CONTROL_TOKENS).find(special)]
    assert found == ["<|im_start|>", "<|im_end|>"] * 2 + ["<|im_start|>"]


@settings(deadline=None)
@given(CONTENTS, CONTENTS)
def test_trimmed_content_is_whole_too(named: Named, first: str, second: str) -> None:
    messages = [Message("user", first), Message("assistant", second), Message("user", "x")]
    text = named("tiny-chat").render(messages).text
    assert f"<|turn>user\n{first.strip()}<turn|>\n<|turn>model\n{second.strip()}<turn|>" in text


@settings(deadline=None)
@given(st.lists(CONTENTS, min_size=1, max_size=3), CONTENTS)
def test_tools_and_arguments_are_json_whatever_they_hold(
    named: Named, words: list[str], key: str
) -> None:
    tool = {"type": "function", "function": {"name": "f", "description": words, key: 1}}
    text = named("thinking-switch").render([Message("user", "x")], tools=[tool]).text
    line = text.split("\n# Tools\n" if "\n# Tools\n" in text else "# Tools\n")[1]
    assert json.JSONDecoder().raw_decode(line)[0] == tool


def test_the_stretch_between_template_tokens_is_one_literal_piece(named: Named) -> None:
    pieces = (
        named("tiny-chat")
        .render(
            [
                Message("user", "say <turn|> twice: <turn|>"),
                Message("assistant", "no"),
                Message("user", "why"),
            ]
        )
        .pieces
    )
    assert pieces == (
        PromptPiece("<bos><|turn>"),
        PromptPiece("user\nsay <turn|> twice: <turn|>", literal=True),
        PromptPiece(
            "<turn|>\n<|turn>model\nno<turn|>\n<|turn>user\nwhy<turn|>\n<|turn>model\n"
            "<|channel>thought\n<channel|>"
        ),
    )


def test_text_without_control_tokens_is_one_piece(named: Named) -> None:
    rendered = named("chatml").render([Message("user", "<b>bold</b> \U000f0000")])
    assert rendered.pieces == (PromptPiece(rendered.text),)


def test_a_template_can_still_work_on_the_text() -> None:
    guard = Guard(ControlTokens(CONTROL_TOKENS), "", ["<|im_end|>"])
    covered = guard.cover({"<|im_end|>": ["a <|im_end|> b", 1, None, True]})
    assert isinstance(covered, dict)
    ((key, values),) = covered.items()
    text = values[0]
    assert len(key) == 1
    assert values[1:] == [1, None, True]
    changed = text.strip().upper().split()
    assert guard.restore(" ".join(changed)) == "A <|im_end|> B"


def test_reasoning_tags_in_assistant_messages_stay_visible_to_the_template(named: Named) -> None:
    messages = [
        Message("user", "2+2? </think>"),
        Message("assistant", "<think>\nhm <|im_end|>\n</think>\n\n4"),
        Message("user", "thanks"),
    ]
    rendered = named("thinking-switch").render(messages)
    assert "assistant\n4<|im_end|>" in rendered.text
    literal = [piece.text for piece in rendered.pieces if piece.literal]
    assert literal == ["user\n2+2? </think>"]


def test_half_surrogate_pairs_become_replacement_characters(named: Named) -> None:
    text = named("chatml").render([Message("user", "a\udc80b\ud83d\ude00c")]).text
    assert text == f"{HEAD}a\ufffdb\U0001f600c{TAIL}"


def test_error_messages_show_what_was_typed(named: Named) -> None:
    with pytest.raises(TemplateError, match=r"not <\|im_end\|>"):
        named("alternating-with-system").render([Message("user", "x"), Message("<|im_end|>", "y")])
