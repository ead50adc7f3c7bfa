"""What of a grammar is too much for llama.cpp, which follows groups and rules by calling itself.

A stack that is used up ends the process, so it is counted before: a grammar comes with a request.
"""

import functools
import re

from geniex_catalogue.errors import UsageError
from geniex_runtimes.llama_cpp import grammar_paths, grammar_rules
from geniex_runtimes.llama_cpp.grammar_ways import MOST_NESTED, MOST_WAYS, count

MAX_TEXT = 1 << 20  # characters
MAX_NESTED = 200  # groups in each other: threads of Windows have a megabyte of stack
MAX_RULES = 20_000
MAX_ALTERNATIVES = 10_000  # they are compared with each other
MAX_GROUPS = 50_000  # reading as many takes two seconds, and others wait
MAX_SIGNS = 200_000

_BLANK = r"(?:\s|#[^\r\n]*+)*+"  # nothing of it is tried twice: the text may be anybody's
# texts, characters, tokens and comments hold no signs
_SIGNS = re.compile(
    r'"(?:[^"\\]|\\.)*"?|\[(?:[^\]\\]|\\.)*\]?|<[^>]*>?|#[^\r\n]*|[()|]|::='
    rf"|\{{{_BLANK}(?P<least>[0-9]+){_BLANK}(?:,{_BLANK}(?P<most>[0-9]+))?",
    re.DOTALL,
)
_MOST_DIGITS = 19  # what has more is no number for llama.cpp


@functools.lru_cache(maxsize=64)
def check(grammar: str) -> None:
    """Raise UsageError, with the number that is too large."""
    # cached: the same one comes with each request of a client
    if len(grammar) > MAX_TEXT:
        raise _too_much(f"it has more than {MAX_TEXT} characters")
    depth, counts = 0, {"(": 0, "|": 0, "::=": 0}
    for found in _SIGNS.finditer(grammar):
        sign = found[0]
        if sign in counts:
            counts[sign] += 1
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if depth > MAX_NESTED:
            raise _too_much(f"more than {MAX_NESTED} groups stand in each other")
        if found["least"] is not None:
            _check_count(found["least"], found["most"])
    if counts["::="] > MAX_RULES:
        raise _too_much(f"it has more than {MAX_RULES} rules")
    if counts["|"] > MAX_ALTERNATIVES:
        raise _too_much(f"it has more than {MAX_ALTERNATIVES} alternatives")
    if counts["("] > MAX_GROUPS:
        raise _too_much(f"it has more than {MAX_GROUPS} groups")
    if len(grammar_rules.signs(grammar)) > MAX_SIGNS:
        raise _too_much(f"it has more than {MAX_SIGNS} words and signs")
    ways = count(grammar)
    if ways.nested > MOST_NESTED:
        raise _too_much(f"more than {MOST_NESTED} rules begin with each other")
    if ways.most > MOST_WAYS:
        raise _too_much(f"it may go on in more than {MOST_WAYS} ways at one place")


def _check_count(least: str, most: str | None) -> None:
    """Raise UsageError for `{m,n}` that ends before it begins: llama.cpp repeats without end."""
    if max(len(least), len(most or "")) > _MOST_DIGITS:
        raise _too_much("it counts further than there are numbers")
    if most is not None and int(most) < int(least):
        raise UsageError(
            f"the grammar repeats at least {least} and at most {most} times",
            hint="of `{m,n}` the first number is the smaller one",
        )


@functools.lru_cache(maxsize=64)
def grows(grammar: str) -> bool:
    """Whether one that llama.cpp accepted has too many ways to read a short text."""
    return grammar_paths.grows(grammar)


def _too_much(what: str) -> UsageError:
    return UsageError(f"the grammar is too large: {what}", hint="make it smaller")
