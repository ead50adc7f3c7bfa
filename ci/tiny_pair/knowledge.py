"""The tables of `knowledge.toml`, and how their words are put into a sentence."""

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

_TABLES: dict[str, Any] = tomllib.loads(
    (Path(__file__).parent / "knowledge.toml").read_text(encoding="utf-8")
)


class Animal(NamedTuple):
    """What there is to say about an animal."""

    kind: str
    legs: int
    sound: str
    home: str
    food: str
    young: str


class Snippet(NamedTuple):
    """A small Python function: what it does, and its parts; `body` is unindented lines."""

    does: str
    name: str
    arguments: str
    body: str


DAYS: list[str] = _TABLES["days"]
MONTHS: list[str] = _TABLES["months"]
SEASONS: list[str] = _TABLES["seasons"]
NAMES: list[str] = _TABLES["names"]
PLACES: list[str] = _TABLES["places"]
ADJECTIVES: list[str] = _TABLES["adjectives"]
THINGS: list[str] = _TABLES["things"]
WEATHER: list[str] = _TABLES["weather"]
HEROES: list[str] = _TABLES["heroes"]
WORDS: list[str] = _TABLES["words"]
STRANGE_TOPICS: list[str] = _TABLES["strange_topics"]
MIX: list[tuple[tuple[str, str], str]] = [((a, b), c) for a, b, c in _TABLES["mix"]]
SNIPPETS: list[Snippet] = [Snippet(*entry) for entry in _TABLES["code"]]
CAPITALS: dict[str, str] = _TABLES["capitals"]
CONTINENTS: dict[str, str] = {
    country: continent
    for continent, countries in _TABLES["continents"].items()
    for country in countries
}
COLOURS: dict[str, str] = _TABLES["colours"]
ANIMALS: dict[str, Animal] = {name: Animal(*facts) for name, facts in _TABLES["animals"].items()}
OPPOSITES: dict[str, str] = _TABLES["opposites"]
PYTHON_KEYWORDS: dict[str, str] = _TABLES["python_keywords"]
GLOSSARY: dict[str, str] = _TABLES["glossary"]
HOW_TO: dict[str, list[str]] = _TABLES["how_to"]
LISTS: dict[str, list[str]] = _TABLES["lists"]
SYSTEM_PROMPTS: dict[str, list[str]] = _TABLES["system_prompts"]

_UNITS = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
    *("eighteen", "nineteen"),
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def in_words(number: int) -> str:
    """A number from 0 to 199 in words."""
    if number < 20:
        return _UNITS[number]
    if number < 100:
        tens, units = divmod(number, 10)
        return _TENS[tens - 2] + (f"-{_UNITS[units]}" if units else "")
    return "one hundred" + (f" and {in_words(number - 100)}" if number > 100 else "")


def capital(text: str) -> str:
    """With an upper-case first letter."""
    return text[:1].upper() + text[1:]


def with_article(noun: str) -> str:
    """With the indefinite article."""
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def and_list(items: list[str]) -> str:
    """`a, b and c`."""
    return ", ".join(items[:-1]) + " and " + items[-1]
