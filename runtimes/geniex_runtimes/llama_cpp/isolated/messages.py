"""What a program and the worker that has its GGUF models say to each other.

Every order but Cancel, GiveUp and Close has a `number` of its own, which its reports bear. `model`
is the number of the Load that it is about.
"""

import typing
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias

from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.contract import (
    GenerationRequest,
    ModelInfo,
    PromptPiece,
)
from geniex_runtimes.options import LoadOptions

# a part of this protocol: its users find all of it here
from geniex_runtimes.workers.messages import Cancel as Cancel
from geniex_runtimes.workers.messages import Close as Close
from geniex_runtimes.workers.messages import Finished as Finished
from geniex_runtimes.workers.messages import Piece as Piece
from geniex_runtimes.workers.wire import Wire

# bytes of a message: a request's body of 64 MiB, with each of its characters escaped
MAX_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Load:
    """Load a model. Answered by Progress, then Loaded or Failed; headers are read anew."""

    number: int
    model: ResolvedModel
    options: LoadOptions


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Load `number` is not wanted any more, whether or not it has ended."""

    number: int


@dataclass(frozen=True, slots=True)
class Generate:
    """Answer. Answered by Started or Failed; then by Pieces and one Finished or Failed."""

    number: int
    model: int
    request: GenerationRequest


@dataclass(frozen=True, slots=True)
class Tokenize:
    """Answered by Tokens or Failed."""

    number: int
    model: int
    prompt: tuple[PromptPiece, ...]


@dataclass(frozen=True, slots=True)
class Detokenize:
    """Answered by Text or Failed."""

    number: int
    model: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TokenBytes:
    """Answered by Bytes or Failed."""

    number: int
    model: int
    token: int


@dataclass(frozen=True, slots=True)
class Embed:
    """The vectors of texts, or of token ids. Answered by Vectors or Failed."""

    number: int
    model: int
    texts: tuple[str, ...] | None
    tokens: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Free:
    """Free a model's contexts, and its loan of the weights unless they are `kept`.

    Answered by Did, once running answers have ended.
    """

    number: int
    model: int
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of load `number` is done, from 0 to 1."""

    number: int
    share: float


@dataclass(frozen=True, slots=True)
class Loaded:
    """The model is there."""

    number: int
    info: ModelInfo


@dataclass(frozen=True, slots=True)
class Started:
    """The request has been accepted."""

    number: int


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a Tokenize asked for."""

    number: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Text:
    """What a Detokenize asked for."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Bytes:
    """What a TokenBytes asked for."""

    number: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Vectors:
    """What an Embed asked for: `count` vectors of 32-bit floats one after the other, in base64."""

    number: int
    count: int
    data: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Did:
    """What was asked has been done."""

    number: int


@dataclass(frozen=True, slots=True)
class Failed:
    """What was asked did not work: the error of class `kind`; see failures.py."""

    number: int
    kind: str
    message: str
    hint: str | None = None
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Beat:
    """It works on what was asked, and has nothing to say."""


# what is asked of a model that is loaded
Question: TypeAlias = Tokenize | Detokenize | TokenBytes | Embed
Order: TypeAlias = Load | GiveUp | Generate | Cancel | Question | Free | Close
Result: TypeAlias = Tokens | Text | Bytes | Vectors | Did
Report: TypeAlias = Progress | Loaded | Started | Piece | Finished | Result | Failed | Beat
Message: TypeAlias = Order | Report

# what travels of a ResolvedModel: the worker reads the header itself
_SENT = ("name", "format", "path", "files", "precision", "size", "chat_template")
_PROMPT: Any = typing.get_type_hints(GenerationRequest)["prompt"]


def _write_model(model: ResolvedModel) -> list[Any]:
    return [getattr(model, name) for name in _SENT]


def _read_model(value: Any) -> ResolvedModel:
    name, form, path, files, precision, size, template = value
    return ResolvedModel(
        name=name,
        ref=None,
        format=form,
        path=Path(path),
        files=tuple(map(Path, files)),
        precision=precision,
        size=size,
        chat_template=template,
    )


def _read_prompt(value: Any) -> Sequence[int] | Sequence[PromptPiece]:
    if all(type(item) is int for item in value):
        return tuple(value)
    if not all(type(text) is str and type(literal) is bool for text, literal in value):
        raise ValueError("neither token ids nor pieces of text")
    return tuple(PromptPiece(text, literal) for text, literal in value)


assert [field.name for field in fields(PromptPiece)] == ["text", "literal"]

WIRE: Wire[Message] = Wire(
    typing.get_args(Message),
    max_bytes=MAX_BYTES,
    writers={ResolvedModel: _write_model},
    readers={ResolvedModel: _read_model, _PROMPT: _read_prompt},
    names={"ResolvedModel": ResolvedModel},
)
