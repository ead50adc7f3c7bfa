"""Grammars that would use up the stack of llama.cpp, and so end the process, are refused."""

import contextlib

import pytest

from geniex.grammar import JSON_GRAMMAR
from geniex_catalogue.errors import UsageError
from geniex_runtimes.llama_cpp.grammar_limits import (
    MAX_ALTERNATIVES,
    MAX_GROUPS,
    MAX_NESTED,
    MAX_RULES,
    MAX_SIGNS,
    MAX_TEXT,
    check,
)


def doubling(root: str) -> str:
    """Rules of which each has twice the ways of the next."""
    rules = "".join(f'r{n} ::= r{n + 1} | r{n + 1} "a"\n' for n in range(30))
    return f'{root}{rules}r30 ::= "a"'


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
            "".join(f"r{n} ::= r{n + 1}\n" for n in range(1100)) + 'r1100 ::= "a"',
            "begin with each other",
            id="a shorter chain",
        ),
        pytest.param(
            "".join(f"r{n} ::= r{n + 1}?\n" for n in range(1100)) + 'r1100 ::= "a"',
            "begin with each other",
            id="a chain of what may be left out",
        ),
        pytest.param(
            doubling("root ::= r0\n"), "20000 ways", id="twice as many ways with each rule"
        ),
        pytest.param(doubling('root ::= "x" ["] r0 # "\n'), "20000 ways", id="further on"),
        pytest.param(doubling('root ::= ("x" | r0)*\n'), "20000 ways", id="in a group"),
        pytest.param(doubling('root ::= ""? "a"? r0{0,3}\n'), "20000 ways", id="left out"),
        pytest.param(
            "root ::= " + " | ".join(['"a"'] * (MAX_ALTERNATIVES + 2)), "alternatives", id="ways"
        ),
        pytest.param('root ::= "' + "a" * MAX_TEXT + '"', "characters", id="long"),
        pytest.param("root ::= " + "()" * (MAX_GROUPS + 1), "groups", id="groups in a row"),
        pytest.param("root ::= " + "." * (MAX_SIGNS + 1), "words and signs", id="signs in a row"),
        pytest.param('root ::= "a"{5,2}', "at least 5 and at most 2", id="ends before it begins"),
        pytest.param('root ::= "a"{1,0}', "at least 1 and at most 0", id="ends at none"),
        pytest.param(
            'root ::= ( "{" [{] <{> "a"{ # {1,2}\n 3 # }\n,\t\n# 4\n2 } )',
            "at most 2",
            id="in pieces",
        ),
        pytest.param('root ::= "a"{' + "9" * 5000 + "}", "further than", id="a long number"),
        pytest.param('root ::= "a"{1,' + "9" * 5000 + "}", "further than", id="and at its end"),
    ],
)
def test_too_much(grammar: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        check(grammar)


@pytest.mark.parametrize("text", ["<", "!<", "{", "{#", "{1 ", "[", '"', '"\\', "{ \n"])
def test_what_is_never_closed_is_read_in_a_moment(text: str) -> None:
    # looked for again from each character, the end would be found in hours
    grammar = f"root ::= {text * 300_000}"
    with contextlib.suppress(UsageError):
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
        pytest.param('root ::= "a" root | "b" root | "c"', id="a rule that ends with itself"),
        pytest.param("root ::= " + "a " * 5000 + "\na ::= [a-z]*", id="much that may be left out"),
        pytest.param('root ::= root "a" | "b"', id="what llama.cpp refuses itself"),
        pytest.param("::= ) | ( * {2 \n <1> ! %", id="nonsense"),
        pytest.param('root ::= "{5,2}" [{5,2}] "a"{2,5} "b"{3,3} "c"{4,} # {5,2}', id="counts"),
        pytest.param(JSON_GRAMMAR, id="our own"),
    ],
)
def test_not_too_much(grammar: str) -> None:
    check(grammar)
