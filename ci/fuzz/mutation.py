"""Inputs: good ones with a few things wrong, by a source of chances."""

import copy
import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from ci.fuzz.target import Target

Maker: TypeAlias = Callable[[random.Random], bytes]

_ODD: list[Any] = [
    *(
        "",
        "\0",
        "\ud800",
        "\x1b[2J",
        "../x",
        "/etc/passwd",
        "\u202e",
        "a" * 300,
        "-1",
        "\U0001f600",
    ),
    *(0, -1, 1, 2, 2**31, 2**53 + 1, 2**64, -(2**63), 10**400, 1e308, 5e-324, -0.0, 0.5),
    *(None, True, False, float("nan"), float("inf"), [], {}, [[]], {"": None}, [None], ["a"]),
]
_NUMBERS = [n.to_bytes(8, "little") for n in (0, 1, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1)]
_EDITS = ("bit", "byte", "word", "word", "number", "cut", "lose", "double", "splice")
_CHANGES = ("replace", "replace", "replace", "remove", "add", "copy", "nest")
_MOST_EDITS = 6
_LONGEST = 1 << 17
_MOST_PLACES = 2000


def maker(target: Target) -> Maker:
    """What makes inputs for a target."""
    seeds = [*target.seeds(), *(path.read_bytes() for path in target.corpus())]
    documents = [
        (seed[: target.split], document)
        for seed in seeds
        if target.form == "json" and (document := _parsed(seed[target.split :])) is not None
    ]

    def make(rng: random.Random) -> bytes:
        if documents and rng.random() < 0.7:
            head, document = rng.choice(documents)
            return head + _dumped(changed(rng, document))
        if target.form == "text" and rng.random() < 0.4:
            return b"".join(_written(rng, target.words) for _ in range(rng.randrange(40)))
        if rng.random() < 0.02:
            return rng.randbytes(rng.randrange(200))
        return edited(rng, seeds, target.words)

    return make


def _written(rng: random.Random, words: Sequence[bytes]) -> bytes:
    """A word, or a few characters."""
    if rng.random() < 0.5:
        return rng.choice(words)
    high = rng.choice((128, 128, 0x3000, 0xD800))
    return "".join(chr(rng.randrange(high)) for _ in range(rng.randint(1, 6))).encode()


def edited(rng: random.Random, seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """One of the seeds after a few edits."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.randint(0, _MOST_EDITS)):
        at = rng.randint(0, len(data))
        how = rng.choice(_EDITS)
        if how == "bit" and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif how == "byte" and at < len(data):
            data[at] = rng.randrange(256)
        elif how == "word" and words:
            data[at:at] = rng.choice(words)
        elif how == "number":
            data[at : at + 8] = rng.choice(_NUMBERS)
        elif how == "cut":
            del data[at:]
        elif how == "lose":
            del data[at : at + rng.randint(1, 64)]
        elif how == "double":
            piece = data[at : at + rng.randint(1, 64)]
            data[at:at] = piece * rng.choice((1, 1, 1, 2, 2, 9, 70, 1000))
        elif how == "splice":
            data[at:] = rng.choice(seeds)[at:]
        del data[_LONGEST:]
    return bytes(data)


def changed(rng: random.Random, document: Any) -> Any:
    """A JSON document with a few of its values replaced, removed or added."""
    made = json.loads(json.dumps(document))
    for _ in range(rng.randint(1, 4)):
        places = list(_places(made))
        if not places:
            return _value(rng)
        holder, key = rng.choice(places)
        how = rng.choice(_CHANGES)
        if how == "remove":
            del holder[key]
        elif how == "copy":
            other, there = rng.choice(places)
            # what went with an earlier change is not there any more
            value = other.get(there) if isinstance(other, dict) else None
            try:
                holder[key] = json.loads(json.dumps(value))
            except RecursionError:
                holder[key] = None
        elif how == "nest":
            holder[key] = _nested(holder[key], rng.choice((1, 3, 70, 600)), isinstance(key, int))
        elif how == "add" and isinstance(holder, dict):
            holder[rng.choice(("", "x", "type", "$ref", "\ud800", "content"))] = _value(rng)
        elif how == "add":
            holder.insert(key, _value(rng))
        else:
            holder[key] = _value(rng)
    return made


def _nested(value: Any, depth: int, in_list: bool) -> Any:
    for _ in range(depth):
        value = [value] if in_list else {"a": value}
    return value


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every (holder, key) in a document, as far as it is not too deep or long."""
    todo, found = [(document, 0)], 0
    while todo:
        holder, depth = todo.pop()
        keys: Any = ()
        if isinstance(holder, dict):
            keys = list(holder)
        elif isinstance(holder, list):
            keys = range(len(holder))
        for key in keys:
            found += 1
            if found > _MOST_PLACES:
                return
            yield holder, key
            if depth < 20:
                todo.append((holder[key], depth + 1))


def _value(rng: random.Random) -> Any:
    if rng.random() < 0.2:
        return [_leaf(rng) for _ in range(rng.randrange(4))]
    if rng.random() < 0.2:
        return {str(_leaf(rng))[:9]: _leaf(rng) for _ in range(rng.randrange(4))}
    return _leaf(rng)


def _leaf(rng: random.Random) -> Any:
    # a copy: later changes go into it
    return copy.deepcopy(rng.choice(_ODD))


def _dumped(document: Any) -> bytes:
    try:
        return json.dumps(document).encode()
    except (ValueError, RecursionError):
        return b"[" * 3000


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
