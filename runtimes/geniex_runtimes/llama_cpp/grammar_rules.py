"""A grammar's rules as far as they tell how many ways there are through it.

Read is what may be a grammar; what is wrong with one llama.cpp says itself.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

# what is never closed goes to the end: else the search for it would begin again at each character
_TOKENS = re.compile(
    r'"(?:[^"\\]|\\.)*"?|\[(?:[^\]\\]|\\.)*\]?|#[^\r\n]*|!?<[^>]*>?|::=|[A-Za-z0-9_-]+|\{[^}]*\}?'
    r"|[()|.*+?]",
    re.DOTALL,
)
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPE = re.compile(r"\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}|\\.|.", re.DOTALL)
_PLAIN = {"n": 10, "r": 13, "t": 9}
_TOP = 0x110000  # behind the last character

Spans: TypeAlias = tuple[tuple[int, int], ...]  # characters, ends not among them
Text: TypeAlias = tuple[Spans, ...]  # characters, one after the other
Bodies: TypeAlias = list[list["Item"]]  # alternatives, each the items that follow one another


@dataclass(slots=True)
class Item:
    """What stands in a rule: the name of another (a group has one, too), or a text."""

    what: str | Text
    optional: bool = False  # it may be left out
    repeated: bool = False  # it may come several times

    @property
    def rule(self) -> str | None:
        """The rule that it names; None for a text."""
        return self.what if isinstance(self.what, str) else None


def signs(grammar: str) -> list[str]:
    """The words, texts and signs of a grammar, without its comments."""
    return [found[0] for found in _TOKENS.finditer(grammar) if found[0][0] != "#"]


def read(grammar: str) -> dict[str, Bodies]:
    """The alternatives of each rule and group."""
    tokens = signs(grammar)
    rules: dict[str, Bodies] = {}
    outer: list[Bodies] = []
    body: Bodies = [[]]
    for index, token in enumerate(tokens):
        if token == "::=":
            continue
        if tokens[index + 1 : index + 2] == ["::="]:
            outer, body = [], [[]]
            rules[token] = body
        elif token == "(":
            outer.append(body)
            body[-1].append(Item(f"({index}"))
            body = rules[f"({index}"] = [[]]
        elif token == ")":
            body = outer.pop() if outer else body
        elif token == "|":
            body.append([])
        elif token in "*+?" or token[0] == "{":
            if body[-1]:
                body[-1][-1].optional, body[-1][-1].repeated = _times(token)
        elif _NAME.fullmatch(token):
            body[-1].append(Item(token))
        elif text := _text(token):
            body[-1].append(Item(text))
    return rules


def _times(token: str) -> tuple[bool, bool]:
    """Whether an item may be left out, and whether it may come several times."""
    if token[0] != "{":
        return token in "*?", token in "*+"
    numbers = [int(number) for number in re.findall(r"\d+", token)]
    return numbers[:1] == [0], "," in token and numbers[-1:] != [1]


def _text(token: str) -> Text:
    """The characters that a token of a grammar stands for, one after the other."""
    if token == ".":
        return (((0, _TOP),),)
    if token[0] in "<!":
        return (((0, _TOP),),)  # a token of the model may be any text
    if token[0] == '"':
        return tuple(((code, code + 1),) for code in _codes(token[1:].removesuffix('"')))
    return (_class(token[1:].removesuffix("]")),)


def _class(inside: str) -> Spans:
    codes = list(_codes(inside.removeprefix("^")))
    spans, at = [], 0
    while at < len(codes):
        is_range = codes[at + 1 : at + 2] == [ord("-")] and at + 2 < len(codes)
        last = codes[at + 2] if is_range else codes[at]
        spans.append((codes[at], max(codes[at], last) + 1))
        at += 3 if is_range else 1
    if not inside.startswith("^"):
        return tuple(spans)
    others, begin = [], 0
    for first, end in sorted(spans):
        if first > begin:
            others.append((begin, first))
        begin = max(begin, end)
    return (*others, (begin, _TOP))


def _codes(text: str) -> Iterator[int]:
    for found in _ESCAPE.finditer(text):
        one = found[0]
        if one[0] != "\\" or len(one) == 1:
            yield ord(one)
        elif one[1] in "xuU" and len(one) > 2:
            yield min(int(one[2:], 16), _TOP - 1)
        else:
            yield _PLAIN.get(one[1], ord(one[1]))
