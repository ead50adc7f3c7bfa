"""Patterns and formats as grammars: llama.cpp lets through what Python's `re` finds."""

import json
import re
import uuid
from datetime import date, datetime, time

import pytest

from geniex.chat.gbnf.formats import FORMATS
from geniex.chat.gbnf.notation import GEMMA, JSON
from geniex.chat.gbnf.patterns import PatternError, pattern
from geniex.chat.gbnf.rules import Rules, text_until, word_but
from tests.geniex.judge import Judge


def grammar(source: str) -> str:
    rules = Rules()
    return rules.text(f'"\\"" {pattern(source, JSON, rules)} "\\""')


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        pytest.param("^abc$", ["abc", "ab", "abcd", "xabc"], id="whole"),
        pytest.param("b", ["b", "abc", "ac", ""], id="anywhere"),
        pytest.param("^b", ["bc", "ab"], id="at the start"),
        pytest.param("b$", ["ab", "ba"], id="at the end"),
        pytest.param("^a|b$", ["ax", "xb", "xax", "bx"], id="ends of alternatives"),
        pytest.param("^(a|bc)+$", ["abca", "b", ""], id="group"),
        pytest.param("^(?:a|(?<n>b))?$", ["a", "b", "", "ab"], id="other groups"),
        pytest.param("^a{2}b{1,3}c{0,}$", ["aab", "aabbbcc", "ab", "aabbbb"], id="counts"),
        pytest.param("^[a-c_-]*?$", ["a_-c", "d", ""], id="class, lazy"),
        pytest.param("^[^a-c]$", ["d", "a", "é", '"', "\\"], id="negated class"),
        pytest.param(r"^\d+\.\d$", ["12.5", "12x5", ".5"], id="digits"),
        pytest.param(r"^[^\w][^\d]$", ["- ", "é ", "-٣", "-x"], id="sets and other alphabets"),
        pytest.param(r"^\w\W\s\S$", ["a- b", "a-  ", "aab b"], id="sets"),
        pytest.param(r"^\"\\\/$", ['"\\/', '"/'], id="escapes"),
        pytest.param(r"^\x41\u00e9$", ["Aé", "A"], id="numbered"),
        pytest.param("^.$", ["x", "é", "xx", '"'], id="any"),
        pytest.param("^a b$", ["a b", "ab"], id="a blank"),
        pytest.param("^a\\tb$", ["a\tb", "a b"], id="a tab is escaped"),
        pytest.param("^[]a]$", None, id="an empty class, as in JavaScript, is not matched"),
    ],
)
def test_texts_that_match_pass(judge: Judge, source: str, texts: list[str] | None) -> None:
    if texts is None:
        with pytest.raises(PatternError):
            grammar(source)
        return
    for text in texts:
        found = re.search(source.replace("?<", "?P<"), text) is not None
        assert judge.accepts(grammar(source), json.dumps(text, ensure_ascii=False)) == found, text


@pytest.mark.parametrize(
    "source",
    [
        *(
            r"\bx",
            r"(a)\1",
            "(?=a)b",
            "(?!a)b",
            "(?i)a",
            "a**",
            "a{3,2}",
            "a{5000}",
            "a{99999999}",
            "(a*)*",
        ),
        *("(a", "[a", "a)", "*a", "(^a)", "(a$)", "a^b", r"\p{L}", "[b-a]", r"[\d-z]x{1}{2}", "\\"),
        "(" * 200 + ")" * 200,
    ],
)
def test_what_is_outside_the_subset_is_refused(source: str) -> None:
    with pytest.raises(PatternError):
        grammar(source)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date", ["2024-02-28", "1999-12-31"], ["2024-02-30", "2024-13-01", "24-01-01"]),
        ("time", ["23:59:59Z", "00:00:00.5+01:30"], ["24:00:00Z", "10:00:00", "10:60:00Z"]),
        ("date-time", ["2024-02-28T10:00:00Z"], ["2024-02-28 10:00:00Z", "2024-02-28"]),
        ("uuid", ["123e4567-e89b-12d3-a456-426614174000"], ["123e4567e89b12d3a456426614174000"]),
        ("email", ["ada.l+x@example.co.uk"], ["ada@", "@x.de", "ada@x", "a..b@x.de"]),
        ("uri", ["https://a-b.example.com:80/x/y.html", "http://x.de"], ["x.de", "ftp://x.de"]),
        ("duration", ["P3DT4H", "PT90S", "PT1H30M"], ["P", "3D", "PT"]),
        ("ipv4", ["0.0.0.0", "255.10.199.1"], ["256.1.1.1", "1.2.3", "01.2.3.4"]),
    ],
)
def test_formats(judge: Judge, name: str, good: list[str], bad: list[str]) -> None:
    made = grammar(FORMATS[name])
    assert [judge.accepts(made, f'"{text}"') for text in good] == [True] * len(good)
    assert [judge.accepts(made, f'"{text}"') for text in bad] == [False] * len(bad)
    readers = {
        "date": date.fromisoformat,
        "time": time.fromisoformat,
        "date-time": datetime.fromisoformat,
        "uuid": uuid.UUID,
    }
    for text in good:
        readers.get(name, str)(text)


@pytest.mark.parametrize("mark", ["</think>", "<<a", "aabaaab", "|>"])
def test_text_up_to_a_mark(judge: Judge, mark: str) -> None:
    rules = Rules()
    made = rules.text(text_until(rules, mark))
    for text in ("", "abc", mark[:-1], mark[0] * 3, mark[:2] + mark[:2], "<" + mark[:3]):
        assert judge.accepts(made, text + mark) == (mark not in (text + mark)[:-1])
        assert judge.accepts(made, text) == (0 <= text.find(mark) == len(text) - len(mark))
        assert not judge.accepts(made, f"{text}{mark}x")


@pytest.mark.parametrize("notation", [JSON, GEMMA], ids=["json", "gemma"])
def test_other_keys(judge: Judge, notation: object) -> None:
    rules = Rules()
    assert notation in (JSON, GEMMA)
    names = ["ab", "abc", "b", 'q"x']
    made = rules.text((JSON if notation is JSON else GEMMA).other_key(rules, names))
    quotes = '"' if notation is JSON else ""
    for key in ("a", "abd", "bb", "x", "abcd"):
        assert judge.accepts(made, f"{quotes}{key}{quotes}"), key
    for key in names[:3]:
        assert not judge.accepts(made, f"{quotes}{key}{quotes}"), key


def test_a_word_that_is_none_of_many(judge: Judge) -> None:
    rules = Rules()
    made = rules.text(word_but(rules, [f"name{n}" for n in range(300)], [(0, 31)]))
    assert judge.accepts(made, "name300") and judge.accepts(made, "")
    assert not judge.accepts(made, "name299")
