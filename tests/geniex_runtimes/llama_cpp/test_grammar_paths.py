"""Grammars whose ways grow with each character are told from those that only look large."""

import pytest

from geniex.chat.json_schema import schema_grammar
from geniex.grammar import JSON_GRAMMAR
from geniex_runtimes.llama_cpp.grammar_paths import grows


def choices(name: str, count: int) -> str:
    """A rule that reads a character in several ways, and remembers which it was."""
    ways = " | ".join(f'c {name} "{n}"' for n in range(count))
    return f'{name} ::= {ways} | "x"\nc ::= [^z\\n]'


@pytest.mark.parametrize(
    "grammar",
    [
        pytest.param("root ::= " + "[a-z ]* " * 3000, id="one after the other"),
        pytest.param("root ::= " + "x " * 200 + "\nx ::= [^.]*", id="by a rule"),
        pytest.param("root ::= " + "(.{0,9}) " * 200, id="counted"),
        pytest.param(choices("root", 20), id="pending ends"),
        pytest.param('root ::= "a long beginning" b\n' + choices("b", 4), id="further on"),
        pytest.param('root ::= "' + "a" * 50 + '" (b)*\n' + choices("b", 4), id="in a group"),
    ],
)
def test_too_many_ways(grammar: str) -> None:
    assert grows(grammar)


@pytest.mark.parametrize(
    "grammar",
    [
        pytest.param(JSON_GRAMMAR, id="json"),
        pytest.param('root ::= ([ \\t]+)* "a"? [0-9a-fA-F]{1,8} ("," [^,]*)*', id="a line"),
        pytest.param("root ::= " + "|".join(f'"value {n}"' for n in range(9999)), id="values"),
        pytest.param('root ::= "a" root | "a" root "b" | "\\U00110000"', id="two ways, one kept"),
        pytest.param("::= ) | ( * {2 \n <1> ! %", id="nonsense"),
        pytest.param(
            schema_grammar(
                {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(100)}}
            ),
            id="a schema with much that may be left out",
        ),
        pytest.param(
            schema_grammar(
                {
                    "type": "object",
                    "additionalProperties": {"type": ["number", "string", "null"]},
                    "properties": {
                        "when": {"type": "string", "format": "date-time"},
                        "words": {"type": "string", "pattern": "^[a-z]{1,30}( [a-z]{1,30}){0,9}$"},
                        "count": {"type": "integer", "minimum": -123456, "maximum": 98765432},
                    },
                }
            ),
            id="a schema",
        ),
    ],
)
def test_few_ways(grammar: str) -> None:
    assert not grows(grammar)
