"""Drawing one token from one row of logits: llama.cpp's sampler chain for one request.

Order as in llama.cpp's own tools: logit bias, penalties, top-k, top-p, min-p, temperature, draw.
A grammar is checked on the drawn token first and applied to the whole row only when that fails.
"""

import ctypes
import functools
import hashlib
import secrets
import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from geniex_catalogue.errors import UsageError
from geniex_runtimes.contract import TokenLogprob
from geniex_runtimes.llama_cpp import grammar_limits
from geniex_runtimes.llama_cpp.library import Library
from geniex_runtimes.llama_cpp.vocab import Vocab
from geniex_runtimes.options import SamplingOptions

REPETITION_WINDOW = 64  # tokens that the repetition penalty looks back on, as in llama.cpp
_MOST_SECONDS = 0.5  # of CPU time, for what a grammar makes of one token
_MOST_ROW_SECONDS = 3.0  # the same, for what it says of all tokens of a vocabulary
_RANDOM_SEED = 0xFFFFFFFF  # llama.cpp takes this value for "draw a seed"
_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])

Floats = npt.NDArray[np.float32]


def model_defaults(metadata: Callable[[str], str | None]) -> SamplingOptions:
    """The sampling values a model file asks for (`general.sampling.*`), else the defaults."""

    def number(key: str, default: float) -> float:
        text = metadata(f"general.sampling.{key}")
        try:
            return float(text) if text is not None else default
        except ValueError:
            return default

    return SamplingOptions(
        temperature=number("temp", 0.8),
        top_p=number("top_p", 0.95),
        top_k=int(number("top_k", 40)),
        min_p=number("min_p", 0.05),
        repetition_penalty=number("penalty_repeat", 1.0),
    )


def native_seed(seed: int | None) -> int:
    """A seed of any size as the 32 bits that llama.cpp takes; None draws one."""
    if seed is None:
        return secrets.randbelow(_RANDOM_SEED)
    if 0 <= seed < _RANDOM_SEED:
        return seed
    return int.from_bytes(hashlib.blake2b(str(seed).encode(), digest_size=4).digest()) >> 1


def row_of_logits(library: Library, context: int, row: int, size: int) -> Floats:
    """A view of one row's `size` logits; valid until the next decode."""
    floats = _row_type(size).from_address(library.logits_ith(context, row))
    return np.frombuffer(memoryview(floats), np.float32)


@functools.cache
def _row_type(size: int) -> type[ctypes.Array[ctypes.c_float]]:
    return ctypes.c_float * size


def _refusal(written: Sequence[str], logged: Sequence[str]) -> UsageError:
    """The error for a grammar that llama.cpp does not accept, in the words that it left."""
    # what it cannot read it writes, what else is wrong it logs
    about = [line for line in reversed(logged) if "grammar" in line]
    reasons = [
        *(line for line in written if "error parsing grammar" in line),
        *about,
        "it gave no reason",
    ]
    hint = "it must be GBNF and define `root`"
    if "left recursion" in reasons[0]:
        hint = "no rule may begin with itself, nor repeat what may be empty"
    return UsageError(f"llama.cpp does not accept the grammar: {reasons[0]}", hint=hint)


def overgrown() -> UsageError:
    """The error for a grammar that can be read in more and more ways, the longer the answer is."""
    return UsageError(
        "the grammar can be read in too many ways to be followed any further",
        hint="write it so that what comes next says which rule it belongs to",
    )


class Sampler:
    """One request's sampler. Belongs to the engine's thread; `close` frees the native parts."""

    def __init__(
        self,
        library: Library,
        vocab: Vocab,
        options: SamplingOptions,
        prompt: Sequence[int],
        context_length: int,
    ) -> None:
        """Build the chain. `options` has no unset values; `prompt` primes the repetition penalty.

        Raises UsageError for a grammar that llama.cpp does not accept.
        """
        self._library = library
        self._vocab = vocab
        self._grammar = self._make_grammar(options.grammar)
        # the grammar goes on in more ways than can be followed: the answer ends
        self.overgrown = False
        self._greedy = (options.temperature or 0) <= 0
        # nothing but the likeliest token of each row: `sample` need not be asked
        self.plain = self._greedy and not (
            self._grammar
            or options.logit_bias
            or options.presence_penalty
            or options.frequency_penalty
            or options.repetition_penalty not in (None, 1.0)
        )
        self._chain = None if self.plain else self._make_chain(options, prompt, context_length)
        self._candidates = np.zeros(vocab.size if self._grammar else 0, _CANDIDATE)

    def _make_grammar(self, text: str | None) -> int | None:
        if text is None:
            return None
        if "\0" in text or not text.strip():
            raise UsageError(
                "the grammar is empty" if not text.strip() else "the grammar contains a NUL"
            )
        grammar_limits.check(text)
        with self._library.captured() as lines:
            grammar = self._library.api.llama_sampler_init_grammar(
                self._vocab.handle, text.encode("utf-8", "replace"), b"root"
            )
            logged = list(self._library.recent)
        if not grammar:
            raise _refusal(lines, logged)
        if grammar_limits.grows(text):
            self._library.api.llama_sampler_free(grammar)
            raise overgrown()
        return grammar  # type: ignore[no-any-return]

    def _make_chain(
        self, options: SamplingOptions, prompt: Sequence[int], context_length: int
    ) -> int:
        api, size = self._library.api, self._vocab.size
        params = api.llama_sampler_chain_default_params()
        params.no_perf = True
        chain = api.llama_sampler_chain_init(params)
        bias = [(token, value) for token, value in options.logit_bias if 0 <= token < size]
        if bias:
            array = (api.llama_logit_bias * len(bias))(*(api.llama_logit_bias(*b) for b in bias))
            api.llama_sampler_chain_add(
                chain, api.llama_sampler_init_logit_bias(size, len(bias), array)
            )
        if options.repetition_penalty not in (None, 1.0):
            repetition = api.llama_sampler_init_penalties(
                size, REPETITION_WINDOW, options.repetition_penalty, 0.0, 0.0
            )
            for token in prompt[-REPETITION_WINDOW:]:
                api.llama_sampler_accept(repetition, token)
            api.llama_sampler_chain_add(chain, repetition)
        if options.presence_penalty or options.frequency_penalty:
            # over the answer alone, as the OpenAI API defines them
            api.llama_sampler_chain_add(
                chain,
                api.llama_sampler_init_penalties(
                    size, context_length, 1.0, options.frequency_penalty, options.presence_penalty
                ),
            )
        if self._greedy:
            api.llama_sampler_chain_add(chain, api.llama_sampler_init_greedy())
            return chain  # type: ignore[no-any-return]
        if options.top_k and options.top_k > 0:
            api.llama_sampler_chain_add(chain, api.llama_sampler_init_top_k(options.top_k))
        if options.top_p is not None and options.top_p < 1:
            api.llama_sampler_chain_add(chain, api.llama_sampler_init_top_p(options.top_p, 1))
        if options.min_p:
            api.llama_sampler_chain_add(chain, api.llama_sampler_init_min_p(options.min_p, 1))
        api.llama_sampler_chain_add(chain, api.llama_sampler_init_temp(options.temperature))
        api.llama_sampler_chain_add(chain, api.llama_sampler_init_dist(native_seed(options.seed)))
        return chain  # type: ignore[no-any-return]

    def logits(self, context: int, row: int) -> Floats:
        """A view of one row of logits; valid until the next decode."""
        return row_of_logits(self._library, context, row, self._vocab.size)

    def sample(self, context: int, row: int) -> int | None:
        """Draw and accept one token; None when the grammar allows no token, or has overgrown."""
        if self.plain:
            return int(self.logits(context, row).argmax())
        if self._grammar is None:
            return int(self._library.sample(self._chain, context, row))
        row_begun = time.thread_time()
        token = self._draw(context, row, constrained=False)
        if token is None or not self._allowed(token):
            token = self._draw(context, row, constrained=True)
            self.overgrown = time.thread_time() - row_begun > _MOST_ROW_SECONDS
            if token is None or self.overgrown:
                return None
        api = self._library.api
        api.llama_sampler_accept(self._chain, token)
        if not self._vocab.is_end(token):
            begun = time.thread_time()
            api.llama_sampler_accept(self._grammar, token)
            # a grammar that can be read in many ways takes times as long with each character
            self.overgrown = time.thread_time() - begun > _MOST_SECONDS
        return None if self.overgrown else token

    def _draw(self, context: int, row: int, *, constrained: bool) -> int | None:
        candidates = self._candidates
        candidates["id"] = np.arange(self._vocab.size, dtype=np.int32)
        candidates["logit"] = self.logits(context, row)
        candidates["p"] = 0
        array = self._array(candidates)
        api = self._library.api
        if constrained:
            api.llama_sampler_apply(self._grammar, ctypes.byref(array))
            if not np.isfinite(candidates["logit"]).any():
                return None
        api.llama_sampler_apply(self._chain, ctypes.byref(array))
        chosen = array.data[array.selected]
        return int(chosen.id) if chosen.logit > -np.inf else None

    def _allowed(self, token: int) -> bool:
        single = np.array([(token, 1.0, 0.0)], _CANDIDATE)
        array = self._array(single)
        self._library.api.llama_sampler_apply(self._grammar, ctypes.byref(array))
        return bool(single["logit"][0] > -np.inf)

    def _array(self, candidates: npt.NDArray[np.void]) -> ctypes.Structure:
        api = self._library.api
        data = ctypes.cast(candidates.ctypes.data, api.llama_token_data_p)
        array = api.llama_token_data_array(data, len(candidates), -1, False)
        return array  # type: ignore[no-any-return]

    def logprob(self, context: int, row: int, token: int, alternatives: int) -> TokenLogprob:
        """The token's log probability in the model's own distribution, and the likeliest others."""
        logits = self.logits(context, row).astype(np.float64)
        peak = logits.max()
        total = peak + float(np.log(np.exp(logits - peak).sum()))
        piece = self._vocab.piece
        top: list[TokenLogprob] = []
        if alternatives > 0:
            count = min(alternatives, len(logits))
            best = np.argpartition(logits, -count)[-count:]
            for other in best[np.argsort(-logits[best], kind="stable")]:
                top.append(
                    TokenLogprob(int(other), piece(int(other)), float(logits[other] - total))
                )
        return TokenLogprob(token, piece(token), float(logits[token] - total), tuple(top))

    def close(self) -> None:
        """Free the native samplers; a second call does nothing."""
        chain, self._chain = self._chain, None
        grammar, self._grammar = self._grammar, None
        for sampler in (chain, grammar):
            if sampler is not None:
                self._library.api.llama_sampler_free(sampler)
