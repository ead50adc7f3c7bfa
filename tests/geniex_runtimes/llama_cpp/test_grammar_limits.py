"""Grammars that would use up the stack of llama.cpp, and so end the process, are refused."""

import pytest

from geniex_catalogue.errors import UsageError
from geniex_runtimes.llama_cpp.grammar_limits import (
    MAX_ALTERNATIVES,
    MAX_NESTED,
    MAX_RULES,
    MAX_TEXT,
    check,
)


@pytest.mark.parametrize(
    ("grammar", "told"),
    [
        pytest.param(
            "root ::= " + "(" * 20_000 + '"a"' + ")" * 20_000, "in each other", id="nested groups"
        ),
        pytest.param("root ::= " + "(" * (MAX_NESTED + 1), "in each other", id="never closed"),
        pytest.param(
            "".join(f"r{n} ::= r{n + 1}\n" for n in range(MAX_RULES + 1)), "rules", id="a chain"
        ),
        pytest.param(
            "root ::= " + " | ".join(['"a"'] * (MAX_ALTERNATIVES + 2)), "alternatives", id="ways"
        ),
        pytest.param('root ::= "' + "a" * MAX_TEXT + '"', "characters", id="long"),
    ],
)
def test_too_much(grammar: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        check(grammar)


@pytest.mark.parametrize(
    "grammar",
    [
        pytest.param("root ::= " + "(" * MAX_NESTED + '"a"' + ")" * MAX_NESTED, id="as deep"),
        pytest.param('root ::= "' + "(" * 1000 + '"', id="signs in a text"),
        pytest.param("root ::= [" + "(" * 1000 + "]", id="signs among characters"),
        pytest.param(r'root ::= "\"' + "(" * 1000 + '"', id="behind an escape"),
        pytest.param('root ::= "a" # ' + "(" * 1000, id="signs in a comment"),
        pytest.param('root ::= ("a") ' * 1000, id="one after the other"),
    ],
)
def test_not_too_much(grammar: str) -> None:
    check(grammar)
