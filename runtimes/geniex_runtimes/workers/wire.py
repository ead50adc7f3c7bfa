"""What a program and its worker say to each other: small typed messages over two pipes.

A message is four bytes of length (big-endian) and that many bytes of JSON: the name of its class
and the values of its fields in their order. Bytes travel as text of the characters 0 to 255.
Whatever else arrives raises ProtocolError: native code may have written it, or the worker be
another version. JSON and no pickle: what a broken worker says is only ever read.
"""

import functools
import hashlib
import json
import operator
import os
import struct
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypeVar

M = TypeVar("M")

Reader: TypeAlias = Callable[[Any], Any]

# bytes of a message, unless a protocol needs more: a prompt of a million tokens
MAX_BYTES = 16 << 20
_HEAD = struct.Struct(">I")
_CHUNK = 1 << 16
_decode = json.JSONDecoder().decode


class ProtocolError(Exception):
    """Raised for bytes that are no message of this version, and for a message too large to send."""


class Wire(Generic[M]):
    """A protocol: the classes of its messages, and how they are written and read."""

    def __init__(
        self,
        kinds: tuple[type, ...],
        *,
        max_bytes: int = MAX_BYTES,
        writers: Mapping[type, Callable[[Any], Any]] | None = None,
        readers: Mapping[Any, Reader] | None = None,
        names: Mapping[str, Any] | None = None,
    ) -> None:
        """`kinds` are dataclasses.

        `writers` and `readers` are for classes and annotations that need a form of their own.
        `names` are what annotations name that is only imported for type checks.
        """
        self.max_bytes = max_bytes
        self._own_forms = frozenset(writers or ())
        self._writers = dict(writers or {})
        self._readers: dict[Any, Reader] = {**_LEAVES, **(readers or {})}
        self._names = dict(names or {})
        self._kinds = {kind.__name__: kind for kind in kinds}
        self._encode = json.JSONEncoder(separators=(",", ":"), default=self._plain).encode

    @functools.cached_property
    def digest(self) -> str:
        """A short text that another version of these messages does not have."""
        known: dict[str, list[str]] = {}
        waiting: list[Any] = list(self._kinds.values())
        while waiting:
            kind = waiting.pop()
            waiting += typing.get_args(kind)
            if isinstance(kind, type) and is_dataclass(kind) and kind.__qualname__ not in known:
                hints = typing.get_type_hints(kind, localns=self._names)
                known[kind.__qualname__] = [f"{name}: {hint}" for name, hint in hints.items()]
                waiting += [] if kind in self._own_forms else hints.values()
        facts = json.dumps(known, sort_keys=True)
        return hashlib.sha256(facts.encode()).hexdigest()[:16]

    def pack(self, message: M) -> bytes:
        """A message as it travels. Raises ProtocolError for one that is too large."""
        try:
            body = self._encode([type(message).__name__, message]).encode()
        except (TypeError, RecursionError) as exc:
            raise ProtocolError(f"{type(message).__name__} cannot be sent: {exc}") from exc
        if len(body) > self.max_bytes:
            raise ProtocolError(f"a message of {len(body)} bytes is too large")
        return _HEAD.pack(len(body)) + body

    def unpack(self, body: bytes) -> M:
        """The message that `pack` made of it, without its length. Raises ProtocolError."""
        try:
            name, value = _decode(body.decode())
            message: M = self._reader(self._kinds[name])(value)
        except (ValueError, KeyError, TypeError, RecursionError) as exc:
            raise ProtocolError(f"{body[:60]!r} is no message: {exc}") from exc
        return message

    def send(self, descriptor: int, message: M) -> None:
        """Write a message whole. Raises OSError where nobody reads any more, and ProtocolError."""
        write(descriptor, self.pack(message))

    def messages(self, descriptor: int) -> Iterator[M]:
        """The messages as they arrive, to the end of the stream. Raises ProtocolError, OSError."""
        buffer = bytearray()
        while chunk := os.read(descriptor, _CHUNK):
            buffer += chunk
            at = 0
            while len(buffer) - at >= _HEAD.size:
                (size,) = _HEAD.unpack_from(buffer, at)
                if size > self.max_bytes:
                    raise ProtocolError(f"{bytes(buffer[at : at + 4])!r} begins no message")
                end = at + _HEAD.size + size
                if len(buffer) < end:
                    break
                yield self.unpack(bytes(buffer[at + _HEAD.size : end]))
                at = end
            del buffer[:at]
        if buffer:
            raise ProtocolError("the stream ended inside a message")

    def _plain(self, value: Any) -> Any:
        """What JSON has for a value that it does not know."""
        kind = type(value)
        writer = self._writers.get(kind)
        if writer is None:
            writer = self._writers[kind] = _writer(kind)
        return writer(value)

    def _reader(self, kind: Any) -> Reader:
        """What makes a value of this type of what JSON has; it raises Type-, Key-, ValueError."""
        known = self._readers.get(kind)
        if known is None:
            known = self._readers[kind] = self._made(kind)
        return known

    def _made(self, kind: Any) -> Reader:
        if isinstance(kind, type) and is_dataclass(kind):
            return self._fields(kind)
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is tuple:
            return self._tuple(arguments)
        if origin is frozenset:
            items = self._tuple((arguments[0], Ellipsis))
            return lambda value: frozenset(items(value))
        if origin is types.UnionType or origin is typing.Union:
            # None and one other
            other = self._reader(next(one for one in arguments if one is not types.NoneType))
            return lambda value: None if value is None else other(value)
        if origin is Literal:
            return _one_of(arguments)
        raise KeyError(f"{kind} cannot be read")

    def _fields(self, kind: type) -> Reader:
        readers: list[Reader] = []

        def read(value: Any) -> Any:
            if not readers:  # not before: a class may have itself in its fields
                hints = typing.get_type_hints(kind, localns=self._names)
                readers.extend(self._reader(hints[field.name]) for field in fields(kind))
            if type(value) is not list:
                raise ValueError(f"{value!r} is not the fields of {kind.__name__}")
            pairs = zip(readers, value, strict=True)
            return kind(*[reader(item) for reader, item in pairs])

        return read

    def _tuple(self, arguments: tuple[Any, ...]) -> Reader:
        if arguments[-1] is Ellipsis:
            item = self._reader(arguments[0])
            return lambda value: tuple([item(one) for one in _listed(value)])
        items = [self._reader(kind) for kind in arguments]
        return lambda value: tuple(
            [item(one) for item, one in zip(items, _listed(value), strict=True)]
        )


def write(descriptor: int, data: bytes) -> None:
    """Write all of it. Raises OSError where nobody reads any more."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _writer(kind: type) -> Callable[[Any], Any]:
    if is_dataclass(kind):
        names = [field.name for field in fields(kind)]
        if len(names) > 1:
            return operator.attrgetter(*names)
        return lambda value: [getattr(value, name) for name in names]
    if issubclass(kind, bytes):
        return lambda value: value.decode("latin-1")
    if issubclass(kind, Path):
        return str
    if issubclass(kind, frozenset):
        return sorted
    raise TypeError(f"{kind.__name__} has no form in a message")


def _listed(value: Any) -> list[Any]:
    if type(value) is not list:
        raise ValueError(f"{value!r} is no list")
    return value


def _one_of(words: tuple[Any, ...]) -> Reader:
    def read(value: Any) -> Any:
        if value not in words:
            raise ValueError(f"{value!r} is none of {words}")
        return value

    return read


def _exactly(kind: type) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(f"{value!r} is no {kind.__name__}")
        return value

    return read


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError(f"{value!r} is no number")
    return float(value)


_text = _exactly(str)

_LEAVES: dict[Any, Reader] = {
    bool: _exactly(bool),
    int: _exactly(int),
    float: _number,
    str: _text,
    bytes: lambda value: _text(value).encode("latin-1"),
    Path: lambda value: Path(_text(value)),
}
