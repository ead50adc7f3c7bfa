"""What the runtime and its worker say to each other: small typed messages over two pipes.

A message is four bytes of length (big-endian) and that many bytes of JSON: an object of its kind
and its fields. Bytes travel as text of the characters 0 to 255. Whatever else arrives raises
ProtocolError: native code may have written it, or the worker be another version.
"""

import json
import os
import struct
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from geniex_runtimes.contract import FinishReason, Profile, TokenLogprob
from geniex_runtimes.options import SamplingOptions
from geniex_runtimes.qairt.engine import EngineName

VERSION = 1
# bytes of a message: a prompt of a million tokens, or logprobs of a whole vocabulary
MAX_BYTES = 16 << 20
_HEAD = struct.Struct(">I")


class ProtocolError(Exception):
    """Raised for bytes that are no message of this version."""


@dataclass(frozen=True, slots=True)
class Load:
    """Load a bundle; the first message, and only once. Answered by Loaded or Failed."""

    folder: Path
    engine: EngineName
    sliding_window: bool = False
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Generate:
    """Answer a prompt of token ids. Answered by Pieces, then one Finished or Failed.

    The fields are those of GenerationRequest; `sampling` has no unset values.
    """

    number: int
    tokens: tuple[int, ...]
    sampling: SamplingOptions
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    reuse_prefix: bool = True


@dataclass(frozen=True, slots=True)
class Cancel:
    """End generation `number` within a token; it still ends with Finished."""

    number: int


@dataclass(frozen=True, slots=True)
class Reset:
    """Forget the sequence. Answered by Did or Failed."""


@dataclass(frozen=True, slots=True)
class Save:
    """Write the sequence into an empty folder. Answered by Did or Failed."""

    folder: Path


@dataclass(frozen=True, slots=True)
class Restore:
    """Take a sequence that Save wrote. Answered by Did or Failed."""

    folder: Path


@dataclass(frozen=True, slots=True)
class Close:
    """Free everything and end. Answered by the end of the stream."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The bundle is in memory. `version` is that of this protocol."""

    context_length: int
    vocab_size: int
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of answer `number`: whole characters, never part of a stop string."""

    number: int
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of answer `number`."""

    number: int
    finish_reason: FinishReason
    profile: Profile


@dataclass(frozen=True, slots=True)
class Did:
    """What was asked has been done."""


FailureKind: TypeAlias = Literal["load", "missing", "usage", "generation"]


@dataclass(frozen=True, slots=True)
class Failed:
    """What was asked did not work; the worker goes on, but for a failed load."""

    kind: FailureKind
    message: str
    hint: str | None = None
    number: int | None = field(default=None)


Order: TypeAlias = Load | Generate | Cancel | Reset | Save | Restore | Close
Report: TypeAlias = Loaded | Piece | Finished | Did | Failed
Message: TypeAlias = Order | Report

_KINDS: dict[str, type] = {kind.__name__: kind for kind in typing.get_args(Message)}


def pack(message: Message) -> bytes:
    """A message as it travels. Raises ProtocolError for one that is too large."""
    body = json.dumps([type(message).__name__, _plain(message)], separators=(",", ":")).encode()
    if len(body) > MAX_BYTES:
        raise ProtocolError(f"a message of {len(body)} bytes is too large")
    return _HEAD.pack(len(body)) + body


def unpack(body: bytes) -> Message:
    """The message that `pack` made of it, without its length. Raises ProtocolError."""
    try:
        name, value = json.loads(body)
        message: Message = _typed(_KINDS[name], value)
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise ProtocolError(f"{body[:60]!r} is no message: {exc}") from exc
    return message


def send(descriptor: int, message: Message) -> None:
    """Write a message whole. Raises OSError where nobody reads any more."""
    rest = memoryview(pack(message))
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def receive(descriptor: int) -> Message | None:
    """The next message; None at the end of the stream. Raises ProtocolError and OSError."""
    head = _read(descriptor, _HEAD.size)
    if not head:
        return None
    (size,) = _HEAD.unpack(head)
    if size > MAX_BYTES:
        raise ProtocolError(f"{head!r} begins no message")
    body = _read(descriptor, size)
    if len(body) < size:
        raise ProtocolError("the stream ended inside a message")
    return unpack(body)


def _read(descriptor: int, size: int) -> bytes:
    """`size` bytes; nothing at the end of the stream. Raises ProtocolError where it ends inside."""
    parts: list[bytes] = []
    missing = size
    while missing and (part := os.read(descriptor, min(missing, 1 << 16))):
        parts.append(part)
        missing -= len(part)
    if missing and parts:
        raise ProtocolError("the stream ended inside a message")
    return b"".join(parts)


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return str(value) if isinstance(value, Path) else value


def _typed(kind: Any, value: Any) -> Any:
    """What `_plain` made of a value of this type. Raises TypeError, ValueError or KeyError."""
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        if not isinstance(value, dict) or value.keys() != hints.keys():
            raise ValueError(f"not the fields of {kind}")
        return kind(**{name: _typed(hint, value[name]) for name, hint in hints.items()})
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return _tuple(arguments, value)
    if origin is types.UnionType or origin is typing.Union:
        # None and one other
        return None if value is None else _typed(arguments[0], value)
    if origin is Literal:
        if value not in arguments:
            raise ValueError(f"{value!r} is none of {arguments}")
        return value
    return _LEAVES[kind](value)


def _tuple(arguments: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is no list")
    if arguments[-1] is Ellipsis:
        return tuple(_typed(arguments[0], item) for item in value)
    return tuple(_typed(kind, item) for kind, item in zip(arguments, value, strict=True))


def _exactly(kind: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(f"{value!r} is no {kind.__name__}")
        return value

    return check


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError(f"{value!r} is no number")
    return float(value)


_LEAVES: dict[Any, Callable[[Any], Any]] = {
    bool: _exactly(bool),
    int: _exactly(int),
    float: _number,
    str: _exactly(str),
    bytes: lambda value: str(value).encode("latin-1"),
    Path: Path,
}

_HINTS: dict[type, dict[str, Any]] = {}


def _hints(kind: type) -> dict[str, Any]:
    """A dataclass's fields and their types; worked out once."""
    if kind not in _HINTS:
        _HINTS[kind] = typing.get_type_hints(kind)
    return _HINTS[kind]
