"""A slot: one sequence of KV cells, what it holds, and the task that has it."""

import queue
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from geniex_runtimes.contract import Done, Event, FinishReason, Profile, SpecState, TokenLogprob
from geniex_runtimes.emitter import Emitter
from geniex_runtimes.llama_cpp.sampling import Sampler
from geniex_runtimes.options import SpeculativeOptions

# a shared beginning this long is worth taking another conversation's slot for
_WORTH_REUSING = 16


# seconds of a step from which on a caller gets every token by itself, however slowly it reads
_QUICK = 2e-3
# steps whose tokens a caller that is slower gets at once, at the most
_MOST_AT_ONCE = 4


class Events(Protocol):
    """Where a task's events go."""

    def put(self, event: Event | Exception, /) -> None:
        """Take one; must not block."""
        ...


def _is_unread(events: Events) -> bool:
    """Whether a caller in this process has yet to take what it was given."""
    return isinstance(events, queue.SimpleQueue) and not events.empty()


@dataclass(slots=True)
class Tally:
    """What speculation did for one task; times in seconds. `state` None: there was none."""

    asked: bool = False
    steps: int = 0
    proposed: int = 0
    accepted: int = 0
    accepted_at: list[int] = field(default_factory=list)
    draft_time: float = 0.0
    verify_time: float = 0.0
    state: SpecState | None = None
    reason: str = ""

    def count(self, proposed: int, accepted: int) -> None:
        """One verification."""
        self.steps += 1
        self.proposed += proposed
        self.accepted += accepted
        self.accepted_at += [0] * (proposed - len(self.accepted_at))
        for place in range(accepted):
            self.accepted_at[place] += 1


@dataclass(slots=True, eq=False)
class Task:
    """One generation on its way through the engine; `events` is read by the caller."""

    prompt: list[int]
    sampler: Sampler
    emitter: Emitter
    max_tokens: int | None
    logprobs: int | None
    reuse_prefix: bool
    events: Events
    speculative: SpeculativeOptions = field(default_factory=SpeculativeOptions)
    tally: Tally = field(default_factory=Tally)
    submitted: float = field(default_factory=time.perf_counter)
    cancelled: bool = False
    finished: bool = False
    started: float = 0.0
    first_token: float = 0.0
    last_token: float = 0.0
    cached: int = 0
    restored: int = 0
    generated: int = 0
    counted: bool = False
    burst: bytes = b""
    held: int = 0
    outbox: list[Event | Exception] = field(default_factory=list)

    def emit(self, data: bytes, entry: TokenLogprob | None) -> None:
        """Take one token's bytes; what the caller may have of them leaves with `deliver`.

        Where nothing depends on where a token ends, all of a step's leave together: each event
        wakes the caller's thread, which then competes with the engine's for the interpreter.
        """
        if entry is None and not self.emitter.stops and not self.counted:
            self.burst += data
            return
        event = self.emitter.feed(data, entry)
        if event is not None:
            self.outbox.append(replace(event, tokens=self.generated) if self.counted else event)

    def flush(self) -> None:
        """A step's tokens are all taken: put out what was collected, and note the time.

        Where steps are quick and the caller has not taken what it has, it gets those of a few steps
        at once later.
        """
        now = time.perf_counter()
        quick = now - self.last_token < _QUICK
        self.last_token = now
        self.first_token = self.first_token or now
        if not self.burst:
            return
        self.held += 1
        if not quick or self.held == _MOST_AT_ONCE or not _is_unread(self.events):
            self._put_out_burst()

    def deliver(self) -> None:
        """Give the caller what was put out."""
        for event in self.outbox:
            self.events.put(event)
        self.outbox.clear()

    def _put_out_burst(self) -> None:
        event = self.emitter.feed(self.burst)
        self.burst, self.held = b"", 0
        if event is not None:
            self.outbox.append(event)

    def finish(self, reason: FinishReason, stop_reason: str) -> None:
        """End the generation: what was held back, then `Done`."""
        if self.burst:
            self._put_out_burst()
        event = self.emitter.finish()
        if event is not None:
            self.outbox.append(event)
        if self.emitter.stopped and stop_reason != "stop":
            reason, stop_reason = "stop", "stop"
        profile = replace(self._profile(), stop_reason=stop_reason)
        self._end(Done(reason, profile))

    def fail(self, error: Exception) -> None:
        """End the generation with an error."""
        self._end(error)

    def _end(self, event: Event | Exception) -> None:
        if not self.finished:
            self.finished = True
            self.sampler.close()
            self.outbox.append(event)
            self.deliver()

    def _profile(self) -> Profile:
        first = self.first_token or time.perf_counter()
        return Profile(
            ttft=first - self.submitted,
            prompt_time=first - self.started if self.started else 0.0,
            decode_time=max(0.0, self.last_token - first),
            prompt_tokens=len(self.prompt),
            cached_tokens=self.cached,
            restored_tokens=self.restored,
            generated_tokens=self.generated,
            draft_steps=self.tally.steps,
            draft_proposed=self.tally.proposed,
            draft_accepted=self.tally.accepted,
            accepted_at=tuple(self.tally.accepted_at),
            draft_time=self.tally.draft_time,
            verify_time=self.tally.verify_time,
            spec_state=self.tally.state,
            spec_reason=self.tally.reason,
        )


@dataclass(frozen=True, slots=True)
class Part:
    """What of a sequence cannot be cut back, as `Context.save` gives it, at `length` tokens."""

    length: int
    state: bytes


@dataclass(slots=True, eq=False)
class Slot:
    """Sequence `index` of the context. `tokens` are those whose KV cells it holds, in order.

    `asked` is the length of the last prompt, `last` the sampled token that has no cell yet, `draft`
    what is proposed to follow it, `saved` the state before that is verified, where it cannot be cut
    back afterwards. `restored` is how many came from a file and have had no task yet;
    `common` is how many of the last prompt's first tokens others have asked, too; `parts` are what
    of its state cannot be cut back, as it was at some lengths, `marks` lengths of the prompt at
    which to take more of them.
    """

    index: int
    tokens: list[int] = field(default_factory=list)
    task: Task | None = None
    used: float = 0.0
    asked: int = 0
    restored: int = 0
    common: int = 0
    parts: tuple[Part, ...] = ()
    marks: tuple[int, ...] = ()
    last: int = 0
    draft: list[int] = field(default_factory=list)
    saved: bytes = b""

    @property
    def prefilling(self) -> bool:
        """Whether part of the task's prompt has no cells yet."""
        return self.task is not None and len(self.tokens) < len(self.task.prompt)

    @property
    def left(self) -> int:
        """How many tokens of the task's prompt have no cells yet."""
        return len(self.task.prompt) - len(self.tokens) if self.task is not None else 0

    def shared(self, prompt: Sequence[int]) -> int:
        """How many leading tokens of a prompt the slot holds."""
        length = min(len(self.tokens), len(prompt))
        if self.tokens[:length] == prompt[:length]:
            return length
        return next(i for i in range(length) if self.tokens[i] != prompt[i])

    def worth(self, prompt: Sequence[int]) -> int:
        """`shared`, or 0 where too little is shared to give up what the slot holds.

        A chat that goes on shares most of what it was asked before, however long the answer was.
        """
        shared = self.shared(prompt)
        return shared if shared >= _WORTH_REUSING or shared * 2 >= self.asked else 0
