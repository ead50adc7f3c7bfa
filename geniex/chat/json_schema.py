"""JSON schemas as grammars: what is drawn by the grammar fits the schema.

Held to: `type` (also a list), `properties` in their order, `required`, `additionalProperties`,
`items`, `prefixItems`, `minItems`, `maxItems`, `enum`, `const`, `minLength`, `maxLength`, `pattern`
(see geniex.chat.gbnf.patterns), `format` (those of geniex.chat.gbnf.formats), `minimum`, `maximum`
and their exclusive forms, `anyOf`, `oneOf` where its branches cannot overlap, `allOf`, `$ref`
within the schema, also recursive, and `nullable`. Any other keyword is refused by its name, but for
those that only describe (`title`, `default`, ...) and those that begin with `x-`.

Refused for their size: more than 300 members of an object that may be left out, 300 alternatives,
1000 values, 2000 items or characters to be counted, and what is nested more than 60 deep.

A grammar may be narrower than its schema: no members beyond `properties` unless
`additionalProperties` says so, no items beyond `prefixItems` unless `items` says so, no exponents
in bounded numbers, no white space but single blanks.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from geniex.chat.gbnf.notation import JSON, Notation
from geniex.chat.gbnf.rules import (
    MAX_REPEAT,
    Rules,
    TooLargeError,
    either,
    one_of_texts,
    quote,
    repeated,
)
from geniex.chat.schema_merging import TYPES, NothingFitsError, Schema, Simplifier, refuse
from geniex.chat.schema_scalars import number_in, string_of

_MAX_DEPTH = 60
_MAX_STEPS = 20_000
_MAX_CHARACTERS = 300_000
# each way to go on is looked at for each token, while other requests wait
_MAX_WAYS = 300
_MAX_VALUES = 1000

Json: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a schema stands. `open` are those that it stands in with no text between; `forced`
    those that cannot end without it.
    """

    path: str
    depth: int = 0
    open: frozenset[str] = frozenset()
    forced: frozenset[str] = frozenset()

    def inside(self, key: str, *, forced: bool) -> "_Place":
        """Behind some text of the schema, at one of its members or items."""
        kept = self.forced if forced else frozenset()
        return _Place(f"{self.path}/{key}", self.depth + 1, frozenset(), kept)


def schema_grammar(schema: Schema) -> str:
    """The grammar of JSON texts that fit a schema. Raises SchemaError."""
    rules = Rules()
    return rules.text(schema_rule(rules, schema))


def schema_rule(
    rules: Rules, schema: Schema, notation: Notation = JSON, path: str = "schema"
) -> str:
    """A rule for values that fit a schema, among others' rules. Raises SchemaError."""
    try:
        if len(json.dumps(schema, allow_nan=False)) > _MAX_CHARACTERS:
            raise refuse("$schema", path, "the schema is too large")
        return _Compiler(rules, schema, notation).rule(schema, _Place(path))
    except NothingFitsError as exc:
        raise exc.refusal from exc
    except TooLargeError as exc:
        raise refuse("$schema", path, "the schema is too large") from exc
    except RecursionError as exc:
        raise refuse("$schema", path, "the schema is nested too deeply") from exc
    except (TypeError, ValueError) as exc:
        raise refuse("$schema", path, f"the schema is not JSON: {exc}") from exc


class _Compiler:
    """Turns the parts of one schema into rules; equal parts are one rule."""

    def __init__(self, rules: Rules, root: Schema, notation: Notation) -> None:
        self._rules = rules
        self._notation = notation
        self._space = notation.space(rules)
        self._simplifier = Simplifier(root)
        self._known: dict[str, str] = {}
        self._steps = 0

    def rule(self, schema: Json, place: _Place) -> str:
        """The name of the rule for a schema."""
        self._steps += 1
        if place.depth > _MAX_DEPTH or self._steps > _MAX_STEPS:
            raise refuse("$schema", place.path, "the schema is too deep or too large")
        plain = self._simplifier.simple(schema, place.path)
        key = json.dumps(plain)
        if key in self._known:
            if key in place.open:
                raise refuse("$ref", place.path, "the schema is its own alternative")
            if key in place.forced:
                raise refuse("$ref", place.path, "nothing fits: the schema needs itself in itself")
            return self._known[key]
        name = self._known[key] = self._rules.reserve("v")
        within = replace(place, open=place.open | {key}, forced=place.forced | {key})
        self._rules.define(name, self._body(plain, within))
        return name

    def _body(self, schema: Mapping[str, Json], place: _Place) -> str:
        if "anyOf" in schema:
            branches = schema["anyOf"]
            if len(branches) > _MAX_WAYS:
                raise refuse("anyOf", place.path, f"it has more than {_MAX_WAYS} alternatives")
            if len(branches) > 1:
                place = replace(place, forced=frozenset())
            return either(
                [
                    self.rule(branch, replace(place, path=f"{place.path}/anyOf/{at}"))
                    for at, branch in enumerate(branches)
                ]
            )
        if "enum" in schema:
            if len(schema["enum"]) > _MAX_VALUES:
                raise refuse("enum", place.path, f"it has more than {_MAX_VALUES} values")
            return one_of_texts(map(self._notation.value, schema["enum"]))
        kinds = schema.get("type")
        if kinds is None or isinstance(kinds, list):
            ways = []
            for kind in kinds or [kind for kind in TYPES if kind != "integer"]:
                ways.append(self._typed({**schema, "type": kind}, place))
            return either(ways)
        return self._typed(schema, place)

    def _typed(self, schema: Mapping[str, Json], place: _Place) -> str:
        kind = schema["type"]
        if kind == "null":
            return quote("null")
        if kind == "boolean":
            return either([quote("true"), quote("false")])
        if kind in ("integer", "number"):
            return self._rules.add(number_in(schema, place.path), "number")
        if kind == "string":
            return string_of(schema, place.path, self._notation, self._rules)
        return self._array(schema, place) if kind == "array" else self._object(schema, place)

    def _object(self, schema: Mapping[str, Json], place: _Place) -> str:
        members = dict(schema.get("properties", {}))
        required = schema.get("required", ())
        extra = schema.get("additionalProperties", "properties" not in schema)
        for name in required:
            if name not in members and schema.get("additionalProperties") is False:
                raise refuse("required", place.path, f"`{name}` is needed and forbidden")
            members.setdefault(name, schema.get("additionalProperties", True))
        if len(members) - len(set(required)) > _MAX_WAYS:
            reason = f"more than {_MAX_WAYS} members may be left out"
            raise refuse("properties", place.path, reason)
        # what may follow when no member has been written yet, and when one has
        first, later = self._extras(members, extra, place)
        for name in reversed(members):
            needed = name in required
            value = self.rule(members[name], place.inside(f"properties/{name}", forced=needed))
            member = f"{quote(self._notation.key(name) + ':')} {self._space} {value} {self._space}"
            with_it, after_comma = f"{member} {later}", f"{self._comma} {member} {later}"
            if not needed:
                with_it, after_comma = f"{with_it} | {first}", f"{after_comma} | {later}"
            first = self._rules.add(with_it, "first")
            later = self._rules.add(after_comma, "later")
        return f"{quote('{')} {self._space} {first} {quote('}')}"

    def _extras(self, members: Mapping[str, Json], extra: Json, place: _Place) -> tuple[str, str]:
        """Rules for members of other names, as the first ones and as later ones."""
        if extra is False:
            empty = self._rules.add('""', "none")
            return empty, empty
        key = self._notation.other_key(self._rules, members)
        value = self.rule(extra, place.inside("additionalProperties", forced=False))
        member = f"{key} {quote(':')} {self._space} {value} {self._space}"
        later = self._rules.add(f"({self._comma} {member})*", "later")
        return self._rules.add(f"({member} {later})?", "first"), later

    def _array(self, schema: Mapping[str, Json], place: _Place) -> str:
        prefix = schema.get("prefixItems", [])
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        items = schema.get("items", not prefix)
        if items is False and most is None:
            most = len(prefix)
        if (most is not None and most < least) or (items is False and least > len(prefix)):
            raise refuse("minItems", place.path, "no list is long enough and short enough")
        if max(least, most or 0) > MAX_REPEAT:
            key = "maxItems" if (most or 0) > MAX_REPEAT else "minItems"
            raise refuse(key, place.path, f"more than {MAX_REPEAT} items cannot be counted")
        inside = self._items(prefix, items, least, most, place)
        return f"{quote('[')} {self._space} {inside} {quote(']')}"

    def _items(
        self, prefix: Sequence[Json], items: Json, least: int, most: int | None, place: _Place
    ) -> str:
        """The items of a list, one behind the other."""
        count = len(prefix) if most is None else min(len(prefix), most)
        rest = ""
        if items is not False and (most is None or most > count):
            value = self.rule(items, place.inside("items", forced=least > count))
            fewest, room = max(0, least - count), None if most is None else most - count
            rest = self._run(f"{value} {self._space}", fewest, room, begun=count > 0)
        for at in range(count - 1, -1, -1):
            forced = at < least
            value = self.rule(prefix[at], place.inside(f"prefixItems/{at}", forced=forced))
            comma = f"{self._comma} " if at else ""
            rest = f"{comma}{value} {self._space} {rest}".rstrip()
            rest = rest if forced else f"({rest})?"
        return rest

    def _run(self, item: str, least: int, most: int | None, *, begun: bool) -> str:
        """`least` to `most` items parted by commas; `begun`: others stand before them."""
        more = f"{self._comma} {item}"
        if begun:
            return repeated(self._rules, more, least, most)
        others = repeated(self._rules, more, max(0, least - 1), None if most is None else most - 1)
        run = f"{item} {others}".rstrip()
        return run if least else f"({run})?"

    @property
    def _comma(self) -> str:
        return f"{quote(',')} {self._space}"
