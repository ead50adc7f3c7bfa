"""One schema in the place of several: references, `allOf`, `oneOf` and siblings worked in.

`Simplifier.simple` gives one of: `{}` (anything), `{"anyOf": [...]}`, `{"enum": [...]}`, or a
`type` (or a list of them) with the keywords that belong to it.
"""

import json
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import combinations
from typing import Any, TypeAlias
from urllib.parse import unquote

from geniex_catalogue.errors import SchemaError

Json: TypeAlias = Any
Schema: TypeAlias = Mapping[str, Json] | bool
Plain: TypeAlias = dict[str, Json]

TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_KEYWORDS = {
    "object": ("properties", "required", "additionalProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
}
_KIND_OF = {keyword: kind for kind, keywords in _KEYWORDS.items() for keyword in keywords}
_COMBINING = ("$ref", "allOf", "anyOf", "oneOf", "nullable")
_DESCRIBING = frozenset(
    {"title", "description", "default", "example", "examples", "deprecated", "readOnly"}
    | {"writeOnly", "discriminator", "contentEncoding", "contentMediaType"}
    | {"$schema", "$id", "$comment", "$defs", "definitions"}
)
_HIGHEST = frozenset({"minItems", "minLength", "minimum", "exclusiveMinimum"})
_LOWEST = frozenset({"maxItems", "maxLength", "maximum", "exclusiveMaximum"})
_COUNTS = frozenset({"minItems", "maxItems", "minLength", "maxLength"})
_MAX_MERGES = 10_000
# characters of a keyword, a path or a reason in a message
_MOST_SHOWN = 300


class NothingFitsError(ValueError):
    """Raised where two demands exclude each other; in an alternative, that one goes.

    `refusal` is what is raised where there is no alternative.
    """

    def __init__(self, refusal: SchemaError) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def refuse(keyword: str, path: str, reason: str) -> SchemaError:
    """The error for a keyword that cannot be honoured."""
    named = f"`{_shortened(keyword)}` at `{_shortened(path)}`: {_shortened(reason)}"
    return SchemaError(named, keyword, path)


def _shortened(text: str) -> str:
    """A text that came with the schema, as far as a message holds it."""
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def type_of(value: Json) -> str:
    """The narrowest type of a JSON value."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, int | float):
        return "integer" if isinstance(value, int) or value.is_integer() else "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


class Simplifier:
    """Simplifies the parts of one schema, to whose `root` references point."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._merges = 0

    def simple(self, schema: Json, path: str, followed: frozenset[str] = frozenset()) -> Plain:
        """The schema without references, `allOf`, `oneOf` and siblings.

        Raises SchemaError or NothingFitsError.
        """
        if schema is True:
            return {}
        if schema is False:
            raise _nothing("false", path, "nothing fits it")
        if not isinstance(schema, Mapping):
            raise refuse("$schema", path, "a schema is an object, or true or false")
        told = {
            key: value
            for key, value in schema.items()
            if key not in _DESCRIBING and not key.startswith("x-")
        }
        parts = self._parts(told, path, followed)
        nothing: Plain = {}
        plain = reduce(lambda one, other: self._merged(one, other, path), parts, nothing)
        if told.get("nullable") is True:
            return {"anyOf": [plain, {"type": "null"}]}
        return plain

    def _parts(self, told: Plain, path: str, followed: frozenset[str]) -> list[Plain]:
        """What a schema demands, as simple schemas that must all be met."""
        own = {key: value for key, value in told.items() if key not in _COMBINING}
        parts = [_checked(own, path)] if own else []
        if (ref := told.get("$ref")) is not None:
            if ref in followed:
                raise refuse("$ref", path, f"`{ref}` refers to itself")
            parts.append(self.simple(self._target(ref, path), path, followed | {ref}))
        for at, part in enumerate(_list_of(told, "allOf", path)):
            parts.append(self.simple(part, f"{path}/allOf/{at}", followed))
        if "anyOf" in told:
            parts.append(_choice(_list_of(told, "anyOf", path)))
        if "oneOf" in told:
            parts.append(self._one_of(_list_of(told, "oneOf", path), path, followed))
        return parts

    def _target(self, ref: Json, path: str) -> Json:
        if not isinstance(ref, str) or not ref.startswith("#") or ref[1:2] not in ("", "/"):
            raise refuse("$ref", path, f"`{ref}` does not point into the schema itself")
        found: Json = self._root
        for step in unquote(ref[2:]).split("/") if ref != "#" else []:
            name = step.replace("~1", "/").replace("~0", "~")
            try:
                found = found[int(name)] if isinstance(found, list) else found[name]
            except (KeyError, IndexError, TypeError, ValueError):
                raise refuse("$ref", path, f"there is no `{ref}`") from None
        return found

    def _one_of(self, branches: Sequence[Json], path: str, followed: frozenset[str]) -> Plain:
        """The branches as alternatives, once it is sure that no value fits two of them."""
        simple = [
            self.simple(branch, f"{path}/oneOf/{at}", followed)
            for at, branch in enumerate(branches)
        ]
        told_apart = [dict(branch) for branch in simple]
        for one, other in combinations(range(len(simple)), 2):
            if _types(simple[one]).isdisjoint(_types(simple[other])):
                continue
            if not _values(simple[one], simple[other]):
                continue
            name = self._telling(simple[one], simple[other], path)
            if name is None:
                raise refuse("oneOf", path, "a value may fit several of its schemas; use `anyOf`")
            for at in (one, other):
                known = told_apart[at].get("required", [])
                told_apart[at]["required"] = [*known, *({name} - set(known))]
        return _choice(told_apart)

    def _telling(self, one: Plain, other: Plain, path: str) -> str | None:
        """The member that has no value in common in the two, so that it tells them apart."""
        if one.get("type") != "object" or other.get("type") != "object":
            return None
        theirs = other.get("properties", {})
        for name, schema in one.get("properties", {}).items():
            if name in theirs:
                at = f"{path}/properties/{name}"
                mine, yours = self.simple(schema, at), self.simple(theirs[name], at)
                if "enum" in mine and "enum" in yours and not _values(mine, yours):
                    return str(name)
        return None

    def _merged(self, one: Plain, other: Plain, path: str) -> Plain:
        """What meets both of two simple schemas."""
        self._merges += 1
        if self._merges > _MAX_MERGES:
            raise refuse("allOf", path, "there are too many combinations")
        if not one or not other:
            return one or other
        if "anyOf" in other:
            one, other = other, one
        if "anyOf" in one:
            return self._distributed(one["anyOf"], other, path)
        if "enum" in one or "enum" in other:
            return _common_values(one, other, path)
        kinds = sorted(_types(one) & _types(other), key=TYPES.index)
        if not kinds:
            raise _nothing("type", path, "nothing is of both types")
        if "number" in kinds:
            kinds.remove("integer")
        merged: Plain = {"type": kinds[0] if len(kinds) == 1 else kinds}
        for key in dict.fromkeys((*one, *other)):
            if key in _KIND_OF:
                merged[key] = _both(key, one, other, path)
        if "object" in kinds:
            merged |= _members(one, other, path)
        return merged

    def _distributed(self, branches: Sequence[Json], other: Plain, path: str) -> Plain:
        merged = []
        for at, branch in enumerate(branches):
            try:
                simple = self.simple(branch, f"{path}/anyOf/{at}")
                merged.append(self._merged(simple, other, path))
            except NothingFitsError:
                continue
        if not merged:
            raise _nothing("anyOf", path, "none of its schemas agrees with what stands beside it")
        return _choice(merged)


def _checked(own: Plain, path: str) -> Plain:
    """A schema without combining keywords, with its type told. Raises SchemaError."""
    known = {"type", "enum", "const", "uniqueItems", *_KIND_OF}
    for key in own:
        if key not in known:
            raise refuse(key, path, "this keyword is not supported")
    if own.get("uniqueItems"):
        raise refuse("uniqueItems", path, "this keyword is not supported")
    kinds = _given_types(own, path)
    if "enum" in own or "const" in own:
        return _given_values(own, kinds, path)
    told = {key: value for key, value in own.items() if key in _KIND_OF}
    if not kinds:
        kinds = list(dict.fromkeys(_KIND_OF[key] for key in told))
        if len(kinds) > 1:
            raise refuse("type", path, f"it is needed beside {' and '.join(told)}")
    if not kinds:
        return {}
    groups = {"number" if kind == "integer" else kind for kind in kinds}
    plain: Plain = {"type": kinds[0] if len(kinds) == 1 else kinds}
    for key, value in told.items():
        if _KIND_OF[key] in groups:
            _check_keyword(key, value, path)
            plain[key] = value
    return plain


def _given_types(own: Plain, path: str) -> list[str]:
    kinds = own.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not isinstance(kinds, list) or ("type" in own and not kinds):
        raise refuse("type", path, "it is a name or a list of names")
    for kind in kinds:
        if kind not in TYPES:
            raise refuse("type", path, f"`{kind}` is no type")
    unique = list(dict.fromkeys(kinds))
    return [kind for kind in unique if kind != "integer" or "number" not in unique]


def _given_values(own: Plain, kinds: list[str], path: str) -> Plain:
    for key in own:
        if key not in ("type", "enum", "const", "uniqueItems"):
            raise refuse(key, path, "it cannot stand beside `enum` or `const`")
    values = own.get("enum", [own.get("const")])
    if not isinstance(values, list) or not values:
        raise refuse("enum", path, "it is a list of values")
    if "const" in own:
        values = [value for value in values if _same(value, own["const"])]
        if not values:
            raise _nothing("const", path, "it is none of the values of `enum`")
    plain: Plain = {"enum": values}
    return _common_values(plain, {"type": kinds}, path) if kinds else plain


def _check_keyword(key: str, value: Json, path: str) -> None:
    if key in ("properties",) and not isinstance(value, Mapping):
        raise refuse(key, path, "it is an object of schemas")
    if key == "prefixItems" and not isinstance(value, list):
        raise refuse(key, path, "it is a list of schemas")
    if key == "items" and isinstance(value, list):
        raise refuse(key, path, "it is one schema; use `prefixItems` for a list")
    if key == "required" and not (
        isinstance(value, list) and all(isinstance(name, str) for name in value)
    ):
        raise refuse(key, path, "it is a list of names")
    if key in _COUNTS and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise refuse(key, path, "it is a whole number from 0 up")
    if key in _KEYWORDS["number"] and (
        isinstance(value, bool) or not isinstance(value, int | float)
    ):
        raise refuse(key, path, "it is a number")
    if key in ("pattern", "format") and not isinstance(value, str):
        raise refuse(key, path, "it is a text")


def _list_of(told: Plain, key: str, path: str) -> list[Json]:
    value = told.get(key, [])
    if not isinstance(value, list) or (key in told and not value):
        raise refuse(key, path, "it is a list of schemas")
    return value


def _choice(branches: list[Json]) -> Plain:
    return {"anyOf": branches}


def _types(plain: Plain) -> frozenset[str]:
    """Every type that values of a simple schema may have."""
    if "anyOf" in plain:
        return frozenset(TYPES)
    if "enum" in plain:
        return frozenset(type_of(value) for value in plain["enum"])
    kinds = plain.get("type", TYPES)
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    return frozenset(kinds | {"integer"} if "number" in kinds else kinds)


def _values(one: Plain, other: Plain) -> bool:
    """Whether a value may fit both, by their lists of values."""
    if "enum" not in one or "enum" not in other:
        return True
    return any(_same(a, b) for a in one["enum"] for b in other["enum"])


def _same(one: Json, other: Json) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _common_values(one: Plain, other: Plain, path: str) -> Plain:
    """The values of one schema's list that the other allows."""
    if "enum" not in one:
        one, other = other, one
    for key in other:
        if key in _KIND_OF:
            raise refuse(key, path, "it cannot stand beside `enum` or `const`")
    types = _types(other)
    fitting = [
        value
        for value in one["enum"]
        if type_of(value) in types and _values({"enum": [value]}, other)
    ]
    if not fitting:
        raise _nothing("enum", path, "none of its values fits")
    return {"enum": fitting}


def _both(key: str, one: Plain, other: Plain, path: str) -> Json:
    """The value of a keyword that meets both schemas'."""
    if key not in one or key not in other:
        return one[key] if key in one else other[key]
    mine, yours = one[key], other[key]
    if key in _HIGHEST:
        return max(mine, yours)
    if key in _LOWEST:
        return min(mine, yours)
    if key == "required":
        return list(dict.fromkeys((*mine, *yours)))
    if key in ("properties", "additionalProperties") or mine == yours:
        return mine  # `_members` sees to objects
    raise refuse(key, path, "two different ones are asked for at once")


def _members(one: Plain, other: Plain, path: str) -> Plain:
    """The members of two objects in one."""
    members: dict[str, Json] = {}
    required = {*one.get("required", ()), *other.get("required", ())}
    for mine, yours in ((one, other), (other, one)):
        rest = yours.get("additionalProperties", True)
        for name, schema in mine.get("properties", {}).items():
            if name in members:
                continue
            if name in yours.get("properties", {}):
                theirs = yours["properties"][name]
                members[name] = schema if schema == theirs else {"allOf": [schema, theirs]}
            elif rest is not False:
                members[name] = schema if rest in (True, {}) else {"allOf": [schema, rest]}
            elif name in required:
                raise _nothing("additionalProperties", path, f"`{name}` is needed and forbidden")
    extras = [
        plain["additionalProperties"] for plain in (one, other) if "additionalProperties" in plain
    ]
    merged: Plain = {"properties": members} if members else {}
    if extras:
        narrow = [extra for extra in extras if extra not in (True, {})]
        merged["additionalProperties"] = (
            False if False in narrow else {"allOf": narrow} if len(narrow) > 1 else extras[0]
        )
        if len(narrow) == 1:
            merged["additionalProperties"] = narrow[0]
    return merged


def _nothing(keyword: str, path: str, reason: str) -> NothingFitsError:
    return NothingFitsError(refuse(keyword, path, reason))
