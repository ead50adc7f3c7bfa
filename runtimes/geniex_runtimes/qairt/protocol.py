"""What the runtime and its worker say to each other; how it travels is in workers/wire.py."""

import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from geniex_runtimes.options import SamplingOptions
from geniex_runtimes.qairt.engine import EngineName

# a part of this protocol: its users find all of it here
from geniex_runtimes.workers.messages import Cancel as Cancel
from geniex_runtimes.workers.messages import Close as Close
from geniex_runtimes.workers.messages import Finished as Finished
from geniex_runtimes.workers.messages import Piece as Piece
from geniex_runtimes.workers.wire import Wire

VERSION = 1


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
class Loaded:
    """The bundle is in memory. `version` is that of this protocol."""

    context_length: int
    vocab_size: int
    version: int = VERSION


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

WIRE: Wire[Message] = Wire(typing.get_args(Message))
