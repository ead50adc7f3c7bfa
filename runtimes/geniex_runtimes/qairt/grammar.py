"""Holding an answer to a grammar, with `llguidance`: which tokens may come next."""

import functools
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from geniex_catalogue.errors import UsageError
from geniex_catalogue.extras import install
from geniex_runtimes.errors import GenerationError, RuntimeNotInstalledError
from geniex_runtimes.qairt.gbnf import fault, read
from geniex_runtimes.qairt.gbnf_lark import as_lark

T = TypeVar("T")
Flags = npt.NDArray[np.bool_]

# far above what our own grammars take; what goes beyond would hold up the answer for seconds
_MAX_STEP_ITEMS = 20_000_000
_MAX_ROW_ITEMS = 200_000
_MAX_FUEL = 500_000_000
_MAX_SIZE = 20_000_000
_STACK = 16 << 20  # bytes: enough for grammars as deep as they may be, on every system


class Grammars:
    """Makes matchers for one vocabulary. Its own preparation waits for the first grammar."""

    def __init__(self, pieces: Sequence[bytes], ends: Collection[int]) -> None:
        """`pieces` are the bytes of each token, special ones as text; `ends` end an answer."""
        self._pieces = pieces
        self._ends = frozenset(token for token in ends if 0 <= token < len(pieces))
        self._lock = threading.Lock()
        self._vocabulary: Any = None

    def matcher(self, text: str) -> "GrammarMatcher":
        """A matcher at the beginning of a GBNF grammar.

        Raises UsageError for a bad one, RuntimeNotInstalledError without `llguidance`.
        """
        lark = as_lark(read(text))
        native = _on_deep_stack(lambda: self._native(lark))
        if native.is_error():
            raise fault(_first_line(native.get_error()), "make it smaller, or simpler")
        return GrammarMatcher(native, self._ends, len(self._pieces))

    def _native(self, lark: str) -> Any:
        llguidance = _package()
        limits = llguidance.LLParserLimits(
            max_items_in_row=_MAX_ROW_ITEMS,
            initial_lexer_fuel=_MAX_FUEL,
            step_lexer_fuel=_MAX_FUEL,
            step_max_items=_MAX_STEP_ITEMS,
            max_grammar_size=_MAX_SIZE,
            verbose_errors=False,
        )
        grammar = llguidance.LLMatcher.grammar_from_lark(lark)
        return llguidance.LLMatcher(self._prepared(), grammar, log_level=0, limits=limits)

    def _prepared(self) -> Any:
        llguidance = _package()
        with self._lock:
            if self._vocabulary is None:
                if not self._ends:
                    raise UsageError(
                        "the bundle names no token that ends an answer",
                        hint="a grammar needs `eos-token` in genie_config.json",
                    )
                self._vocabulary = llguidance.LLTokenizer(
                    llguidance.TokenizerWrapper(_Vocabulary(self._pieces, self._ends)),
                    eos_token=sorted(self._ends),
                )
            return self._vocabulary


class _Vocabulary:
    """What `llguidance` asks of a tokenizer. It never has a text to cut into tokens here."""

    bos_token_id = None

    def __init__(self, pieces: Sequence[bytes], ends: Collection[int]) -> None:
        self.tokens = list(pieces)
        self.eos_token_id = min(ends)
        # all others that are special are what their text is, as the grammars of chat formats say
        self.special_token_ids = sorted(ends)

    def __call__(self, text: bytes | str) -> list[int]:
        return []


class GrammarMatcher:
    """A grammar and how far an answer has followed it."""

    def __init__(self, native: Any, ends: Collection[int], size: int) -> None:
        self._native = native
        self._ends = ends
        self._size = size

    def allows(self, token: int) -> bool:
        """Whether a token may come next; one that ends the answer where the grammar may end.

        Raises GenerationError where the grammar has grown too large to follow.
        """
        if token in self._ends:
            return bool(self._native.is_accepting())
        if token >= self._size:
            return False  # rows of logits may be longer than the vocabulary
        found = _on_deep_stack(lambda: int(self._native.validate_tokens([token]))) == 1
        self._checked()
        return found

    def allowed(self, size: int) -> Flags:
        """Which of the first `size` tokens may come next. Raises GenerationError."""
        bits = np.frombuffer(_on_deep_stack(self._native.compute_bitmask), np.uint8)
        self._checked()
        flags = np.zeros(size, np.bool_)
        known = np.unpackbits(bits, count=min(size, 8 * len(bits)), bitorder="little")
        flags[: len(known)] = known
        return flags

    def accept(self, token: int) -> None:
        """Take a token that is allowed. Raises GenerationError."""
        if token not in self._ends:
            _on_deep_stack(lambda: self._native.consume_token(token))
            self._checked()

    def _checked(self) -> None:
        if self._native.is_error():
            raise GenerationError(
                f"the grammar cannot be followed any further: "
                f"{_first_line(self._native.get_error())}"
            )


def _package() -> Any:
    try:
        import llguidance
    except (ImportError, OSError) as exc:
        raise RuntimeNotInstalledError(
            f"a grammar needs the package `llguidance`, which cannot be used: {exc}",
            hint=install("qairt"),
        ) from exc
    return llguidance


def _on_deep_stack(work: Callable[[], T]) -> T:
    """What `work` gives, done on a thread with a large stack: `llguidance` recurses natively."""
    return _deep_thread().submit(work).result()


@functools.cache
def _deep_thread() -> ThreadPoolExecutor:
    executor = ThreadPoolExecutor(1, "geniex-grammar")
    before = threading.stack_size(_STACK)
    try:
        executor.submit(int).result()  # the thread starts with its first work
    finally:
        threading.stack_size(before)
    return executor


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:200] or "no reason was given"
