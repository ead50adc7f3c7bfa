"""What every program and its worker say to each other, whatever the worker runs."""

from dataclasses import dataclass

from geniex_runtimes.contract import FinishReason, Profile, TokenLogprob


@dataclass(frozen=True, slots=True)
class Cancel:
    """End generation `number` within a token; it still ends with Finished."""

    number: int


@dataclass(frozen=True, slots=True)
class Close:
    """Free everything and end. Answered by the end of the stream."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of answer `number`, as TextEvent has it."""

    number: int
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of answer `number`."""

    number: int
    finish_reason: FinishReason
    profile: Profile
