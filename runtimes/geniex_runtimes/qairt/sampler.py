"""Drawing one token from one row of logits, in NumPy, whatever engine the row came from.

The options mean what they mean to the runtime `llama_cpp`, in the same order: logit bias,
penalties, top-k, top-p, min-p, temperature, draw. A grammar is checked on the drawn token first
and applied to the whole row only when that fails.
"""

import hashlib
import math
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from geniex_runtimes.contract import TokenLogprob
from geniex_runtimes.errors import GenerationError
from geniex_runtimes.options import SamplingOptions

REPETITION_WINDOW = 64  # tokens that the repetition penalty looks back on, as in llama.cpp
_FIRST_LOOK = 256  # likeliest tokens that top-p sorts at first; most often it needs no more
_NOTHING = -math.inf

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ids = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


class Matcher(Protocol):
    """A grammar and how far an answer has followed it."""

    def allows(self, token: int) -> bool:
        """Whether a token may come next."""
        ...

    def allowed(self, size: int) -> Flags:
        """Which of the first `size` tokens may come next."""
        ...

    def accept(self, token: int) -> None:
        """Take a token that is allowed."""
        ...


class Sampler:
    """One request's sampler. A row that it is given stays as it is."""

    def __init__(
        self, options: SamplingOptions, prompt: Sequence[int], matcher: Matcher | None = None
    ) -> None:
        """`options` has no unset values; `prompt` primes the repetition penalty."""
        self._matcher = matcher
        self._temperature = options.temperature or 0.0
        self._top_k = options.top_k or 0
        self._top_p = 1.0 if options.top_p is None else options.top_p
        self._min_p = options.min_p or 0.0
        # 0 is no penalty that can be taken, and so none
        self._repetition = options.repetition_penalty or 1.0
        self._presence = options.presence_penalty
        self._frequency = options.frequency_penalty
        self._bias = tuple(one for one in options.logit_bias if one[0] >= 0)
        self._recent = deque(prompt, REPETITION_WINDOW)
        self._counts: dict[int, int] = {}
        self._bits = np.random.PCG64(_entropy(options.seed))
        self._adjusts = bool(
            self._bias or self._presence or self._frequency or self._repetition != 1.0
        )
        # nothing but the likeliest token of each row
        self.plain = self._temperature <= 0 and not self._adjusts and matcher is None

    def sample(self, logits: Floats) -> int | None:
        """Draw and accept one token; None when the grammar allows no token at all.

        Raises GenerationError for a row that holds no numbers.
        """
        if self.plain:
            return _likeliest(logits)
        row = self._adjusted(logits) if self._adjusts else logits
        token = self._draw(row)
        if self._matcher is not None:
            if not self._matcher.allows(token):
                row = np.where(self._matcher.allowed(len(row)), row, np.float32(_NOTHING))
                token = self._draw(row)
                if row[token] == _NOTHING:
                    return None
            self._matcher.accept(token)
        if self._adjusts:
            self._recent.append(token)
            self._counts[token] = self._counts.get(token, 0) + 1
        return token

    def _adjusted(self, logits: Floats) -> Floats:
        """The row after logit bias and penalties."""
        row = logits.copy()
        for token, value in self._bias:
            if token < len(row):
                row[token] += np.float32(value)
        if self._repetition != 1.0 and self._recent:
            ids = _within(self._recent, len(row))
            penalty = np.float32(self._repetition)
            row[ids] = np.where(row[ids] <= 0, row[ids] * penalty, row[ids] / penalty)
        if (self._presence or self._frequency) and self._counts:
            # over the answer alone, as the OpenAI API defines them
            ids = np.fromiter(self._counts, np.intp)
            counts = np.fromiter(self._counts.values(), np.float32)
            row[ids] -= counts * np.float32(self._frequency) + np.float32(self._presence)
        return row

    def _draw(self, row: Floats) -> int:
        if self._temperature <= 0:
            return _likeliest(row)
        peak = float(row[_likeliest(row)])
        if peak == _NOTHING:
            return 0
        ids, values = self._candidates(row, peak)
        with np.errstate(over="ignore", under="ignore"):  # a small temperature drives them there
            weights = np.exp((values - peak) / self._temperature)
        total = np.cumsum(weights)
        at = int(np.searchsorted(total, self._uniform() * total[-1], side="right"))
        return int(ids[min(at, len(ids) - 1)])

    def _candidates(self, row: Floats, peak: float) -> tuple[Ids, Doubles]:
        """The tokens that may be drawn, and their logits."""
        if 0 < self._top_k < len(row):
            ids = _highest(row, self._top_k)
            values = row[ids].astype(np.float64)
            if self._top_p < 1:
                weights = np.exp(values - peak)
                kept = _nucleus(weights, self._top_p * weights.sum())
                ids, values = ids[:kept], values[:kept]
        elif self._top_p < 1:
            ids, values = self._top_of_all(row, peak)
        else:
            ids, values = np.arange(len(row)), row.astype(np.float64)
        if self._min_p > 0:
            kept_ids = values >= peak + math.log(self._min_p)
            ids, values = ids[kept_ids], values[kept_ids]
        return ids, values

    def _top_of_all(self, row: Floats, peak: float) -> tuple[Ids, Doubles]:
        """What top-p keeps of the whole row; only as much of it is sorted as is needed."""
        goal = self._top_p * float(np.exp(row.astype(np.float64) - peak).sum())
        count = min(_FIRST_LOOK, len(row))
        while True:
            ids = _highest(row, count)
            values = row[ids].astype(np.float64)
            weights = np.exp(values - peak)
            if count == len(row) or weights.sum() >= goal:
                kept = _nucleus(weights, goal)
                return ids[:kept], values[:kept]
            count = min(8 * count, len(row))

    def _uniform(self) -> float:
        """A number in [0, 1): the 53 high bits, so that it is the same with every NumPy."""
        return float(int(self._bits.random_raw()) >> 11) * 2.0**-53


def logprob(
    logits: Floats, token: int, alternatives: int, piece: Callable[[int], bytes]
) -> TokenLogprob:
    """The token's log probability in the model's own distribution, and the likeliest others."""
    peak = logits.max()
    total = float(peak) + math.log(np.exp(logits - peak).sum(dtype=np.float64))
    top: list[TokenLogprob] = []
    if alternatives > 0:
        for other in _highest(logits, min(alternatives, len(logits))):
            one = int(other)
            top.append(TokenLogprob(one, piece(one), float(logits[one]) - total))
    return TokenLogprob(token, piece(token), float(logits[token]) - total, tuple(top))


def _entropy(seed: int | None) -> int:
    """128 bits of a seed of any size and sign; None draws them."""
    if seed is None:
        return secrets.randbits(128)
    return int.from_bytes(hashlib.blake2b(str(seed).encode(), digest_size=16).digest(), "big")


def _likeliest(row: Floats) -> int:
    """The first of the highest logits."""
    token = int(row.argmax())
    if not row[token] < math.inf:  # argmax stops at what is no number
        raise GenerationError("the model gave logits that are no numbers")
    return token


def _highest(row: Floats, count: int) -> Ids:
    """The `count` highest, in order; of equal ones the first, which no partition promises."""
    if count >= len(row):
        chosen = np.arange(len(row))
    else:
        least = np.partition(row, -count)[-count]
        above = np.flatnonzero(row > least)
        equal = np.flatnonzero(row == least)[: count - len(above)]
        chosen = np.concatenate((above, equal))
        chosen.sort()
    return chosen[np.argsort(-row[chosen], kind="stable")]


def _nucleus(weights: Doubles, goal: float) -> int:
    """How many of the falling weights it takes to reach the goal; at least one."""
    return min(int(np.searchsorted(np.cumsum(weights), goal)) + 1, len(weights))


def _within(tokens: Sequence[int], size: int) -> Ids:
    """Each of the tokens once, those left out that a row of this size does not have."""
    return np.array([token for token in set(tokens) if 0 <= token < size], np.intp)
