"""Grammars as `llguidance` follows them: the texts are those that llama.cpp lets through."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geniex_catalogue.errors import UsageError
from geniex_runtimes.errors import GenerationError, RuntimeNotInstalledError
from geniex_runtimes.qairt.grammar import GrammarMatcher, Grammars
from tests.geniex.judge import Judge

# bytes, some tokens of several, and two that end an answer
PIECES = [bytes([byte]) for byte in range(256)] + [
    b"<think>",
    b"ab",
    "é".encode(),
    b"",
    b"</s>",
    b"<e>",
]
THINK, AB, ACUTE, EMPTY, END, OTHER_END = range(256, 262)


@pytest.fixture(scope="module")
def judge(tiny_chat: Path) -> Iterator[Judge]:
    """llama.cpp's grammar engine; it asserts that ours says the same."""
    engine = Judge(tiny_chat)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def grammars() -> Grammars:
    return Grammars(PIECES, (END, OTHER_END))


TEXTS = [
    pytest.param('root ::= "yes" | "no"', ["yes", "no"], ["", "y", "yesno", "Yes"], id="choice"),
    pytest.param(
        "root ::= [a-c]+ [^a-c]", ["abcd", "a\n", "aé"], ["abc", "d", "abcde"], id="class"
    ),
    pytest.param("root ::= . .", ["ab", "é\n", "😀x"], ["", "a", "abc"], id="dot"),
    pytest.param(
        'root ::= "a"{2} "b"{1,} "c"{0,2}', ["aab", "aabbcc"], ["ab", "aabccc"], id="counts"
    ),
    pytest.param(
        'root ::= "ab"* "c"?', ["", "abab", "abc"], ["a", "aba", "cab"], id="literal-again"
    ),
    pytest.param(
        'root ::= ("a" | "b" "c")+ # end', ["a", "bca"], ["b", ""], id="group-and-comment"
    ),
    pytest.param('root ::=\n  "a" |\n  ("b"\n | "c")\n', ["a", "b", "c"], ["ab"], id="lines"),
    pytest.param('root ::= "a"?? "b"{0}', ["", "a"], ["b", "aa"], id="repeated-repetition"),
    pytest.param(
        'root ::= "\\x41\\u00e9\\U0001F600\\"\\\\\\n"', ['Aé😀"\\\n'], ["A"], id="escapes"
    ),
    pytest.param("root ::= [\\]\\[az^-]+", ["[a]", "-^z"], ["b"], id="marks-in-a-class"),
    pytest.param('root ::= x\nx ::= "a"\nx ::= "b"', ["b"], ["a"], id="the-last-definition"),
    pytest.param('root ::= | "a"', ["", "a"], ["aa"], id="empty-way"),
    # what cutting into the longest lexemes would get wrong
    pytest.param('root ::= word "b"\nword ::= [a-z]+', ["ab", "bbb"], ["b", "a"], id="greedy-rule"),
    pytest.param(
        'root ::= ("a" | "ab") "bc" | "(" root ")"', ["abc", "(abbc)"], ["ab"], id="prefix"
    ),
    pytest.param('root ::= [a-z]* "end" | "(" root ")"', ["end", "(endend)"], ["(end"], id="tail"),
    # recursion: a loop, two that lead into each other, and nesting that is none
    pytest.param('root ::= "a" root | "b"', ["b", "aaab"], ["", "aa"], id="loop"),
    pytest.param(
        'root ::= [^<] root | "<" x\nx ::= [^</] root | "<" x | "/"',
        ["</", "a<b<</", "</"],
        ["<", "<a", "</a"],
        id="two-loops",
    ),
    pytest.param(
        'root ::= "a" (root | x)?\nx ::= "b" root?', ["a", "abaab"], ["b", "abb"], id="tails"
    ),
    pytest.param('root ::= "a" root?', ["a", "aaaa"], [""], id="optional-loop"),
    pytest.param('root ::= "a" root? | "b"', ["a", "aab", "b"], ["ba"], id="two-ends"),
    pytest.param('root ::= "(" root ")" | "x"', ["x", "((x))"], ["((x)", "()"], id="nesting"),
    pytest.param(
        'root ::= e\ne ::= t ("+" t)*\nt ::= [0-9]+ | "(" e ")"',
        ["1", "(1+22)+3"],
        ["1+", "(1", "+1"],
        id="sums",
    ),
    pytest.param(
        'root ::= v\nv ::= "{" (p ("," p)*)? "}" | s\np ::= s ":" v\ns ::= "\\"" [^"]* "\\""',
        ['{"a":{"b":"c"},"":"{"}'],
        ['{"a"}', '{"a":"b",}'],
        id="objects",
    ),
]


@pytest.mark.parametrize(("grammar", "good", "bad"), TEXTS)
def test_the_same_texts_pass_as_in_llama_cpp(
    judge: Judge, grammar: str, good: list[str], bad: list[str]
) -> None:
    assert [text for text in good if not judge.accepts(grammar, text)] == []
    assert [text for text in bad if judge.accepts(grammar, text)] == []


symbols = st.sampled_from(
    ['"a"', '"b"', '"ab"', "[ab]", "[^a]", ".", "x", "y", "(x | y)", '("a" y)']
)
repeated = st.builds(str.__add__, symbols, st.sampled_from(["", "", "?", "+", "{0,2}", "{2}"]))
bodies = st.lists(st.lists(repeated, max_size=3).map(" ".join), min_size=1, max_size=3)

texts = st.lists(st.text("abc", max_size=6), max_size=4)


@settings(max_examples=60, deadline=None)
@given(bodies=st.tuples(bodies, bodies, bodies), texts=texts)
def test_any_grammar_means_the_same(
    judge: Judge, bodies: tuple[list[str], ...], texts: list[str]
) -> None:
    rules = zip(("root", "x", "y"), bodies, strict=True)
    # each rule begins with a letter of its own, or it is refused most of the time
    grammar = "\n".join(
        f"{name} ::= " + " | ".join(f'"{"abc"[at]}" {way}'.strip() for way in ways)
        for at, (name, ways) in enumerate(rules)
    )
    for text in texts:
        judge.accepts(grammar, text)


@pytest.mark.parametrize(
    ("grammar", "reason"),
    [
        pytest.param("", "is empty", id="empty"),
        pytest.param(" \n", "is empty", id="blank"),
        pytest.param('rot ::= "a"', "does not contain a `root`", id="no-root"),
        pytest.param('root ::= "a" (', "expecting `)` at line 1, column 15", id="unclosed"),
        pytest.param('root ::= "a" )', "a newline or the end at line 1, column 14", id="unopened"),
        pytest.param("root ::= other", "the rule `other` is not defined", id="undefined-rule"),
        pytest.param('root ::= root "a" | "b"', "left recursion", id="left-recursion"),
        pytest.param('root ::= x\nx ::= root "a" | "b"', "left recursion", id="by-another-rule"),
        pytest.param('root ::= "a"? root | "b"', "left recursion", id="behind-what-may-be-empty"),
        pytest.param('root ::= ("a"?)*', "left recursion", id="endless-emptiness"),
        pytest.param('root ::= "a" "b"*+', "left recursion", id="endless-emptiness-further-on"),
        pytest.param('root ::= "a"\0', "a NUL", id="nul"),
        pytest.param("{}", "expecting a name at line 1, column 1", id="json"),
        pytest.param("root = [a]", "expecting `::=`", id="no-rule"),
        pytest.param("root ::= *", "something before a repetition", id="nothing-to-repeat"),
        pytest.param('root ::= "a', "expecting a closing quote", id="open-quote"),
        pytest.param("root ::= [a", "expecting `]`", id="open-class"),
        pytest.param("root ::= [z-a]", "ends before it begins", id="range-backwards"),
        pytest.param('root ::= "\\q"', "unknown escape", id="escape"),
        pytest.param('root ::= "a"{2001}', "more than 2000 times", id="too-often"),
        pytest.param('root ::= "a"{3,2}', "3 to 2 times", id="count-backwards"),
        pytest.param('root ::= "a"{x}', "`{m}`, `{m,}` or `{m,n}`", id="no-count"),
        pytest.param("root ::= <[12]>", "tokens by name or number", id="token"),
        pytest.param("root ::= []", "no characters", id="empty-class"),
        pytest.param("root ::= " + "(" * 3000 + '"a"' + ")" * 3000, "1000 deep", id="deep"),
    ],
)
def test_a_bad_grammar_is_an_error_that_says_where(
    grammars: Grammars, grammar: str, reason: str
) -> None:
    with pytest.raises(UsageError, match="grammar") as caught:
        grammars.matcher(grammar)
    assert reason in caught.value.message and "\n" not in caught.value.message
    assert (reason == "left recursion") == ("begin with itself" in str(caught.value.hint))


def followed(matcher: GrammarMatcher, *tokens: int) -> GrammarMatcher:
    for token in tokens:
        assert matcher.allows(token), token
        matcher.accept(token)
    return matcher


@pytest.mark.parametrize(
    ("grammar", "before", "expected"),
    [
        pytest.param('root ::= "a"', (), {97}, id="a-byte"),
        pytest.param('root ::= "ab" | "ac"', (), {97, AB}, id="a-token-of-two"),
        pytest.param('root ::= "ab"?', (AB,), {END, OTHER_END}, id="at-the-end"),
        pytest.param('root ::= "ab"?', (), {97, AB, END, OTHER_END}, id="it-may-end"),
        pytest.param('root ::= "é"', (0xC3,), {0xA9}, id="half-a-character"),
        pytest.param('root ::= "é" | "e" root "e"', (), {0xC3, ACUTE, 101}, id="bytes-of-one"),
        pytest.param('root ::= "<think>"', (), {60, THINK}, id="a-special-token-by-its-text"),
        pytest.param('root ::= "</s>"', (), {60}, id="but-not-one-that-ends"),
    ],
)
def test_which_tokens_may_come_next(
    grammars: Grammars, grammar: str, before: tuple[int, ...], expected: set[int]
) -> None:
    matcher = followed(grammars.matcher(grammar), *before)
    assert {token for token in range(len(PIECES)) if matcher.allows(token)} == expected
    for size in (len(PIECES), len(PIECES) + 50, 262, 64):  # a row may be longer, or shorter
        allowed = set(np.flatnonzero(matcher.allowed(size)).tolist())
        assert allowed == {token for token in expected if token < size}


def test_tokens_that_do_not_exist_are_not_allowed(grammars: Grammars) -> None:
    matcher = grammars.matcher("root ::= .*")
    assert not matcher.allows(EMPTY)
    assert not matcher.allows(len(PIECES)) and not matcher.allows(10**6)
    assert matcher.allows(97)


def test_matchers_of_one_vocabulary_do_not_know_each_other(grammars: Grammars) -> None:
    one, other = grammars.matcher('root ::= "ab"'), grammars.matcher('root ::= "ab"')
    followed(one, 97, 98)
    assert one.allows(END) and not other.allows(END)


@pytest.mark.parametrize(
    ("grammar", "text"),
    [
        pytest.param('root ::= "a" root', "aaa", id="a-loop"),
        pytest.param(
            'root ::= "x" | "a" y\ny ::= "b" z\nz ::= "c" y', "abcb", id="behind-a-way-out"
        ),
        pytest.param('root ::= "(" root ")"', "((", id="nesting"),
        pytest.param('root ::= "a" root | "b" x\nx ::= "c" x', "aabccc", id="a-loop-into-another"),
    ],
)
def test_what_never_ends_goes_on(grammars: Grammars, grammar: str, text: str) -> None:
    matcher = followed(grammars.matcher(grammar), *text.encode())
    assert not matcher.allows(END)
    assert matcher.allowed(len(PIECES)).any()


def test_long_loops_stay_quick(grammars: Grammars) -> None:
    """Rules that come back to themselves at their end do not pile up."""
    grammar = 'root ::= text "(" root? ")"\ntext ::= [^<] text | "<" mark\nmark ::= "/" | [^/] text'
    matcher = grammars.matcher(grammar)
    followed(matcher, *b"x" * 3000, *b"</(", *b"y" * 3000, *b"</()", *b")", END)


def test_what_grows_without_bounds_ends_with_an_error(
    grammars: Grammars, monkeypatch: pytest.MonkeyPatch
) -> None:
    import llguidance

    made = llguidance.LLParserLimits
    small: Any = lambda **limits: made(**limits | {"step_max_items": 20})  # noqa: E731
    monkeypatch.setattr(llguidance, "LLParserLimits", small)
    matcher = grammars.matcher('root ::= a "x"\na ::= "(" a ")" | [a-z]+ | [a-m]+ [a-z]+')
    with pytest.raises(GenerationError, match="cannot be followed any further"):
        for byte in b"((((aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa":
            matcher.accept(byte)
            matcher.allowed(len(PIECES))


def test_without_the_package_a_grammar_is_an_error_with_the_command(
    grammars: Grammars, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(RuntimeNotInstalledError, match="llguidance") as caught:
        grammars.matcher('root ::= "a"')
    assert "pip install" in str(caught.value.hint)


def test_a_vocabulary_without_an_end_is_refused() -> None:
    with pytest.raises(UsageError, match="no token that ends"):
        Grammars(PIECES, ()).matcher('root ::= "a"')
