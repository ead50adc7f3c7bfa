"""One answer inside the worker: it says what follows, token by token, whatever the engine."""

import functools
import time
from collections.abc import Callable, Collection

from geniex_catalogue.errors import GenieXError, UsageError
from geniex_runtimes.contract import FinishReason, Profile, TextEvent
from geniex_runtimes.emitter import Emitter
from geniex_runtimes.qairt.engine import Engine, EngineError, Floats
from geniex_runtimes.qairt.grammar import Grammars
from geniex_runtimes.qairt.protocol import Failed, Finished, Generate, Piece, Report
from geniex_runtimes.qairt.sampler import Sampler, logprob
from geniex_runtimes.qairt.vocabulary import Vocabulary

_FINISH: dict[str, FinishReason] = {"length": "length", "context": "length", "user": "cancelled"}


class Words:
    """What answers are made of: the tokens, and those that end one."""

    def __init__(self, vocabulary: Vocabulary, ends: Collection[int]) -> None:
        self.vocabulary = vocabulary
        self.ends = frozenset(ends)

    @functools.cached_property
    def grammars(self) -> Grammars:
        """Made for the first request that has one: it takes the bytes of all tokens."""
        return Grammars(self.vocabulary.pieces(), self.ends)


class Answering:
    """A generation from its order to its `Finished`."""

    def __init__(
        self,
        order: Generate,
        words: Words,
        report: Callable[[Report], None],
        *,
        slides: bool = False,
    ) -> None:
        """`slides`: the engine goes on past the context. Raises UsageError for a bad grammar."""
        self._order = order
        self._words = words
        self._report = report
        self._slides = slides
        self._cancelled = False
        grammar = order.sampling.grammar
        matcher = words.grammars.matcher(grammar) if grammar is not None else None
        self._sampler = Sampler(order.sampling, order.tokens, matcher)
        self._emitter = Emitter(order.stop)
        self._generated = 0
        self._limit = 0
        self._limited_by = ""
        self._reason = ""
        self._first = 0.0
        self._last = 0.0

    @property
    def number(self) -> int:
        """The order's number."""
        return self._order.number

    def cancel(self) -> None:
        """End before the next token; from any thread."""
        self._cancelled = True

    def run(self, engine: Engine) -> None:
        """Evaluate, and report pieces and the end. What fails is reported, never raised."""
        started = time.perf_counter()
        room = engine.context_length - len(self._order.tokens)
        asked = self._order.max_tokens
        # an answer without a limit of its own ends with the context all the same
        slides = self._slides and asked is not None
        self._limit = asked if asked is not None and (slides or asked <= room) else room
        self._limited_by = "length" if asked is not None and self._limit == asked else "context"
        try:
            cached = self._evaluate(engine)
        except UsageError as exc:
            self._report(Failed("usage", exc.message, exc.hint, self.number))
            return
        except GenieXError as exc:
            self._report(Failed("generation", exc.message, exc.hint, self.number))
            return
        except EngineError as exc:
            self._report(Failed("generation", str(exc), None, self.number))
            return
        self._end(started, cached)

    def _evaluate(self, engine: Engine) -> int:
        if self._limit <= 0 and self._limited_by == "context":
            self._reason = "context"
            return 0
        return engine.evaluate(self._order.tokens, self._choose, reuse=self._order.reuse_prefix)

    def _choose(self, logits: Floats) -> int | None:
        self._last = time.perf_counter()
        self._first = self._first or self._last
        if self._cancelled:
            self._reason = "user"
        elif self._limit == 0:
            self._reason = self._limited_by
        if self._reason:
            return None
        token = self._sampler.sample(logits)
        self._generated += 1
        if token is None or token in self._words.ends:
            self._reason = "eos"
            return None
        self._emit(token, logits)
        if self._emitter.stopped:
            self._reason = "stop"
        elif self._generated >= self._limit:
            self._reason = self._limited_by
        return None if self._reason else token

    def _emit(self, token: int, logits: Floats) -> None:
        piece = self._words.vocabulary.piece
        entry = None
        if self._order.logprobs is not None:
            entry = logprob(logits, token, self._order.logprobs, piece)
        self._send(self._emitter.feed(piece(token), entry))

    def _send(self, event: TextEvent | None) -> None:
        if event is not None:
            self._report(Piece(self.number, event.text, event.logprobs, self._generated))

    def _end(self, started: float, cached: int) -> None:
        self._send(self._emitter.finish())
        # an evaluation that was aborted in the prompt has asked for nothing
        reason = "stop" if self._emitter.stopped else self._reason or "user"
        first = self._first or time.perf_counter()
        profile = Profile(
            ttft=first - started,
            prompt_time=first - started,
            decode_time=max(0.0, self._last - first),
            prompt_tokens=len(self._order.tokens),
            cached_tokens=cached,
            generated_tokens=self._generated,
            stop_reason=reason,
        )
        self._report(Finished(self.number, _FINISH.get(reason, "stop"), profile))
