"""Numbers and strings of a schema as expressions of a grammar."""

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from geniex.chat.gbnf import numbers
from geniex.chat.gbnf.formats import FORMATS
from geniex.chat.gbnf.notation import Notation
from geniex.chat.gbnf.patterns import PatternError, pattern
from geniex.chat.gbnf.rules import MAX_REPEAT, Rules, quote, repeated
from geniex.chat.schema_merging import refuse


def number_in(schema: Mapping[str, Any], path: str) -> str:
    """The integers or numbers within a schema's bounds. Raises SchemaError."""
    low, above = _tighter(schema, "minimum", "exclusiveMinimum", max, path)
    high, below = _tighter(schema, "maximum", "exclusiveMaximum", min, path)
    if schema["type"] == "integer":
        first = None if low is None else math.floor(low) + 1 if above else math.ceil(low)
        last = None if high is None else math.ceil(high) - 1 if below else math.floor(high)
        found = numbers.integer(first, last)
    elif low is None and high is None:
        return numbers.NUMBER
    else:
        found = numbers.number(low, high, above=above, below=below)
    if found is None:
        raise refuse("minimum", path, "no number lies between the bounds")
    return found


def _tighter(
    schema: Mapping[str, Any], including: str, excluding: str, choose: Any, path: str
) -> tuple[Decimal | None, bool]:
    """The bound that counts, and whether it is itself left out."""
    bounds = [
        (_bound(schema[key], key, path), key == excluding)
        for key in (including, excluding)
        if key in schema
    ]
    if not bounds:
        return None, False
    value = choose(bound for bound, _ in bounds)
    return value, any(strict for bound, strict in bounds if bound == value)


def _bound(value: float, key: str, path: str) -> Decimal:
    exact = Decimal(str(value))
    digits = exact.normalize().as_tuple()
    if not exact.is_finite() or abs(exact) >= 10**numbers.MAX_DIGITS:
        raise refuse(key, path, f"{value} is too large")
    if isinstance(digits.exponent, int) and -digits.exponent > numbers.MAX_DECIMALS:
        raise refuse(key, path, f"{value} has more than {numbers.MAX_DECIMALS} decimals")
    return exact


def string_of(schema: Mapping[str, Any], path: str, notation: Notation, rules: Rules) -> str:
    """The strings that a schema allows. Raises SchemaError."""
    limits = [key for key in ("pattern", "format", "minLength", "maxLength") if key in schema]
    mark = quote(notation.mark)
    if "format" in schema and schema.get("minLength") in (0, 1):
        limits.remove("minLength")  # no format is empty
    if "pattern" in schema or "format" in schema:
        if len(limits) > 1:
            raise refuse(limits[1], path, f"it cannot be held to beside `{limits[0]}`")
        return f"{mark} {_matching(schema, path, notation, rules)} {mark}"
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if most is not None and most < least:
        raise refuse("maxLength", path, "it is less than `minLength`")
    if max(least, most or 0) > MAX_REPEAT:
        raise refuse(limits[-1], path, f"more than {MAX_REPEAT} characters cannot be counted")
    return f"{mark} {repeated(rules, notation.character(rules), least, most)} {mark}"


def _matching(schema: Mapping[str, Any], path: str, notation: Notation, rules: Rules) -> str:
    key = "pattern" if "pattern" in schema else "format"
    source = schema[key]
    if key == "format":
        if source not in FORMATS:
            known = ", ".join(FORMATS)
            raise refuse("format", path, f"`{source}` is not supported, only {known}")
        source = FORMATS[source]
    try:
        return rules.add(pattern(source, notation, rules), "text")
    except PatternError as exc:
        raise refuse(key, path, f"`{source}` is not supported: {exc}") from exc
