"""What of a grammar is too much for llama.cpp, which follows groups and rules by calling itself.

A stack that is used up ends the process, so it is counted before: a grammar comes with a request.
"""

import functools
import re

from geniex_catalogue.errors import UsageError
from geniex_runtimes.llama_cpp import grammar_paths
from geniex_runtimes.llama_cpp.grammar_ways import MOST_NESTED, MOST_WAYS, Ways, count

MAX_TEXT = 1 << 20  # characters
MAX_NESTED = 200  # groups in each other: threads of Windows have a megabyte of stack
MAX_RULES = 20_000
MAX_ALTERNATIVES = 10_000  # they are compared with each other

# texts, characters and comments hold no signs
_SIGNS = re.compile(r'"(?:[^"\\]|\\.)*"?|\[(?:[^\]\\]|\\.)*\]?|#[^\r\n]*|[()|]|::=', re.DOTALL)


def check(grammar: str) -> None:
    """Raise UsageError, with the number that is too large."""
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
    if counts["::="] > MAX_RULES:
        raise _too_much(f"it has more than {MAX_RULES} rules")
    if counts["|"] > MAX_ALTERNATIVES:
        raise _too_much(f"it has more than {MAX_ALTERNATIVES} alternatives")
    ways = _ways(grammar)
    if ways.nested > MOST_NESTED:
        raise _too_much(f"more than {MOST_NESTED} rules begin with each other")
    if ways.most > MOST_WAYS:
        raise _too_much(f"it may go on in more than {MOST_WAYS} ways at one place")


@functools.lru_cache(maxsize=64)
def _ways(grammar: str) -> Ways:
    # the same one comes with each request of a client
    return count(grammar)


@functools.lru_cache(maxsize=64)
def grows(grammar: str) -> bool:
    """Whether one that llama.cpp accepted has too many ways to read a short text."""
    return grammar_paths.grows(grammar)


def _too_much(what: str) -> UsageError:
    return UsageError(f"the grammar is too large: {what}", hint="make it smaller")
