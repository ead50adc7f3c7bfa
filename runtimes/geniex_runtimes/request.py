"""What every runtime makes of a request: its prompt as runs of text, its sampling without gaps."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

from geniex_runtimes.contract import PromptPiece
from geniex_runtimes.options import SamplingOptions

_SETTABLE = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


def is_tokens(prompt: Sequence[PromptPiece] | Sequence[int]) -> TypeGuard[Sequence[int]]:
    """Whether a prompt is given as token ids."""
    return len(prompt) > 0 and isinstance(prompt[0], int)


def runs(prompt: Sequence[PromptPiece]) -> list[tuple[str, bool]]:
    """A prompt's texts, each with whether it is literal; neighbours of one kind are one text.

    How a prompt was cut into pieces must not change its tokens.
    """
    found: list[tuple[str, bool]] = []
    for piece in prompt:
        if not piece.text:
            continue
        if found and found[-1][1] == piece.literal:
            found[-1] = (found[-1][0] + piece.text, piece.literal)
        else:
            found.append((piece.text, piece.literal))
    return found


def filled(options: SamplingOptions, defaults: SamplingOptions) -> SamplingOptions:
    """`options` with every unset value taken from `defaults`."""
    unset = {name: getattr(defaults, name) for name in _SETTABLE if getattr(options, name) is None}
    return replace(options, **unset)
