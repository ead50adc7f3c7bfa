"""The engine: one thread that owns a context and serves every request from it, turn by turn.

Each turn evaluates the last token of every slot that is answering, together, and then prompt chunks
as far as their pace allows. Requests join and leave between turns (continuous batching, as in Orca,
Yu et al., OSDI 2022).
"""

import logging
import queue
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from geniex_runtimes.contract import FinishReason
from geniex_runtimes.errors import GenerationError
from geniex_runtimes.llama_cpp import sampling
from geniex_runtimes.llama_cpp.batch import Batch
from geniex_runtimes.llama_cpp.company import Limits
from geniex_runtimes.llama_cpp.context import BATCH_ROWS, CPU_ROWS, AbortedError, Context
from geniex_runtimes.llama_cpp.library import Library
from geniex_runtimes.llama_cpp.pace import Pace
from geniex_runtimes.llama_cpp.seating import Keeper, Seating
from geniex_runtimes.llama_cpp.slot import Slot, Task
from geniex_runtimes.llama_cpp.speculative.drafter import Rows
from geniex_runtimes.llama_cpp.speculative.speculator import Speculator
from geniex_runtimes.llama_cpp.threads import Governor
from geniex_runtimes.llama_cpp.weights import Weights

log = logging.getLogger("geniex.llama_cpp.engine")

_Ending: TypeAlias = tuple[FinishReason, str]


class Engine:
    """Runs tasks on a context. `submit`, `cancel` and `close` may be called from any thread."""

    def __init__(
        self,
        library: Library,
        weights: Weights,
        context: Context,
        governor: Governor | None,
        speculator: Speculator | None = None,
        limits: Limits | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        """Start the thread. Without a `governor` the number of CPU threads stays as it is.

        Answers are evaluated together as far as the `limits` go. The `keeper` is not yet or no more
        used elsewhere.
        """
        self._limits = limits or Limits()
        self._speculator = speculator
        self._replays: list[tuple[Slot, int]] = []
        self._governor = governor
        self._weights = weights
        self._context = context
        self._batch = Batch(library, BATCH_ROWS)
        cut = self._limits.cut if weights.rolls_back else CPU_ROWS
        self._pace = Pace(on_cpu=context.options.on_cpu, cut=cut)
        self._seating = Seating(weights, context, self._limits, speculator, keeper)
        self._slots = self._seating.slots
        self._waiting: deque[Task] = deque()
        self._inbox: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._closing = False
        self._lock = threading.Lock()
        self._aborting = threading.Lock()  # held for moments: whether a task is alone, and its end
        self._thread = threading.Thread(target=self._run, name="geniex-engine", daemon=True)
        self._thread.start()

    def submit(self, task: Task) -> None:
        """Queue a task; its events start to arrive once a slot is free.

        Raises GenerationError when the engine is closed.
        """
        with self._lock:
            if self._closing:
                raise GenerationError("the model has been unloaded")
            self._inbox.put(task)

    def cancel(self, task: Task) -> None:
        """End a task: within the running turn when it is alone, else after it."""
        task.cancelled = True
        with self._aborting:
            if all(slot.task in (None, task) for slot in self._slots):
                self._context.abort()
        self._inbox.put(None)

    def close(self) -> None:
        """Cancel everything and wait for the thread; the context may be freed then."""
        with self._lock:
            self._closing = True
        self._context.abort()
        self._inbox.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        sound = False
        try:
            while not self._closing:
                self._receive()
                self._context.abort(False)  # before the flags are read: no cancel is missed
                self._drop_cancelled()
                if self._waiting:
                    self._seating.assign(self._waiting)
                    self._keep_from_abort()
                if any(slot.task for slot in self._slots) and not self._closing:
                    self._turn()
            sound = True
        except Exception as exc:
            log.exception("the engine stopped")
            self._end_all(GenerationError(f"the engine stopped: {exc}"))
        finally:
            with self._lock:
                self._closing = True
            self._receive(wait=False)
            self._end_all(None)
            if sound:
                self._seating.end()

    def _keep_from_abort(self) -> None:
        """Take back a stop that was meant for a task alone: others have come beside it since."""
        with self._aborting:
            alive = any(slot.task and not slot.task.cancelled for slot in self._slots)
            if alive and not self._closing:
                self._context.abort(False)

    def _receive(self, *, wait: bool = True) -> None:
        """Take what has arrived; sleep when there is nothing to do."""
        idle = wait and not self._waiting and not any(slot.task for slot in self._slots)
        if not idle and self._inbox.empty():
            return  # as in nearly every turn; to be told by an exception takes a microsecond
        try:
            while True:
                task = self._inbox.get(block=idle)
                idle = False
                if task is not None:
                    self._waiting.append(task)
        except queue.Empty:
            return

    def _end_all(self, error: GenerationError | None) -> None:
        tasks = [*self._waiting, *(slot.task for slot in self._slots if slot.task)]
        for task in tasks:
            if error is None:
                task.finish("cancelled", "user")
            else:
                task.fail(error)
        self._waiting.clear()
        for slot in self._slots:
            slot.task = None

    def _drop_cancelled(self) -> None:
        for task in [task for task in self._waiting if task.cancelled]:
            self._waiting.remove(task)
            task.finish("cancelled", "user")
        for slot in self._slots:
            if slot.task is not None and slot.task.cancelled:
                slot.task.finish("cancelled", "user")
                self._seating.free(slot)

    def _turn(self) -> None:
        """Give every slot that answers its next tokens, and prompts their next chunks.

        They are evaluated apart, and no more answers together than round alike: which neighbours a
        slot has, and what they do, never shows in its numbers.
        """
        if self._governor is not None and self._governor.look():
            self._use_threads(self._governor.threads)
        answering = self._answering()
        if self._speculator is not None:
            self._speculator.propose(answering, self._context.length)
            if self._context.needs_saving:
                for slot in answering:
                    slot.saved = self._context.save(slot.index) if slot.draft else b""
        for group in self._groups(answering):
            if not self._evaluate(self._fill_answers(group)):
                return
        self._prefill(shared=bool(answering))

    def _prefill(self, *, shared: bool) -> None:
        """Evaluate a chunk of one slot's prompt, or several chunks beside answers that are slow."""
        pace = self._pace
        while waiting := [slot for slot in self._slots if slot.prefilling]:
            if shared and not pace.allows(waiting):
                return
            one = pace.next(waiting)
            outputs = self._fill_prompt(one, pace.rows(shared=shared))
            evaluated = self._evaluate(outputs)
            self._seating.reached(one)
            if not shared or not evaluated:
                return
            pace.spend(sum(len(rows.tokens) for rows in self._rows))

    def _evaluate(self, outputs: list[tuple[Slot, int]]) -> bool:
        """Evaluate the batch, and give the slots with logits their next tokens; False: stopped."""
        try:
            self._context.decode(self._batch)
        except AbortedError:
            self._seating.recover()
            return False
        except GenerationError as exc:
            for rows in self._rows:
                slot = self._slots[rows.slot]
                if slot.task is not None:
                    slot.task.fail(exc)
                    self._seating.free(slot)
            self._seating.recover()
            return False
        if self._speculator is not None:
            self._speculator.process(self._rows)
        for rows in self._rows:
            slot = self._slots[rows.slot]
            slot.tokens += rows.tokens[: len(rows.tokens) - len(slot.draft)]
        tasks = [slot.task for slot, _ in outputs]
        best = self._likeliest(outputs)
        rank = 0
        for slot, row in outputs:
            following = rank + 1 + len(slot.draft)
            self._next_tokens(slot, row, rank, best)
            rank = following
        # last of all: the callers wake, and from then on the interpreter is theirs as well
        for task in tasks:
            if task is not None and task.outbox:
                task.deliver()
        if self._replays:
            self._replay()
        return True

    def _likeliest(self, outputs: Sequence[tuple[Slot, int]]) -> list[int]:
        """The likeliest token of each row with logits, where any slot is to take it.

        Of all rows in one go: NumPy lets go of the interpreter, and whoever has it then keeps it
        for a while.
        """
        if not any(slot.task is not None and slot.task.sampler.plain for slot, _ in outputs):
            return []
        rows = sum(1 + len(slot.draft) for slot, _ in outputs)
        best: list[int] = self._context.logits()[:rows].argmax(axis=1).tolist()
        return best

    def _answering(self) -> list[Slot]:
        return [slot for slot in self._slots if slot.task is not None and not slot.prefilling]

    def _groups(self, answering: list[Slot]) -> Iterator[list[Slot]]:
        """The slots that are evaluated together: as many as have no more rows than may be."""
        most = self._limits.share(sum(1 + len(slot.draft) for slot in answering))
        group: list[Slot] = []
        rows = 0
        for slot in answering:
            count = 1 + len(slot.draft)
            if group and rows + count > most:
                yield group
                group, rows = [], 0
            group.append(slot)
            rows += count
        if group:
            yield group

    def _use_threads(self, threads: int) -> None:
        self._context.use_threads(threads)
        if self._speculator is not None:
            self._speculator.use_threads(threads)

    def _fill_answers(self, group: Sequence[Slot]) -> list[tuple[Slot, int]]:
        """Fill the batch with the last tokens of slots and their drafts; all rows give logits.

        Return the slots, with the first row of each.
        """
        batch = self._batch
        batch.clear()
        self._rows: list[Rows] = []
        outputs: list[tuple[Slot, int]] = []
        for slot in group:
            tokens = [slot.last, *slot.draft]
            row = batch.add(slot.index, len(slot.tokens), tokens, all_logits=True)
            self._rows.append(Rows(slot.index, row, len(slot.tokens), tokens))
            outputs.append((slot, row))
        return outputs

    def _fill_prompt(self, slot: Slot, most: int) -> list[tuple[Slot, int]]:
        """Fill the batch with a slot's next prompt chunk; return the slot at its prompt's end."""
        prompt = slot.task.prompt if slot.task is not None else []
        start = len(slot.tokens)
        end = start + self._limits.chunk(len(prompt) - start, most)
        chunk = prompt[
            start : min((mark for mark in slot.marks if start < mark < end), default=end)
        ]
        self._batch.clear()
        self._batch.add(slot.index, start, chunk, all_logits=False)
        self._rows = [Rows(slot.index, 0, start, chunk)]
        if start + len(chunk) < len(prompt):
            return []
        self._batch.want_logits(len(chunk) - 1)
        return [(slot, len(chunk) - 1)]

    def _next_tokens(self, slot: Slot, row: int, rank: int, best: Sequence[int]) -> None:
        """Draw a slot's next token, and further ones as long as they are what was drafted.

        Its first row is `row` of the batch, and `rank` among the rows that have logits, of which
        `best` are the likeliest tokens.

        Every token is drawn from the target's logits by the request's own sampler, so drafts change
        how many come at once and never which (as in Leviathan et al., ICML 2023, with the target's
        own draw in the place of rejection sampling).
        """
        task, draft = slot.task, slot.draft
        if task is None:
            return
        if task.max_tokens == 0:
            task.finish("length", "length")
            self._seating.free(slot)
            return
        handle = self._context.handle
        plain = task.sampler.plain
        accepted = 0
        while True:
            token = best[rank + accepted] if plain else task.sampler.sample(handle, row + accepted)
            ending = self._take(slot, task, token, row + accepted)
            if token is None or ending or not _agrees(draft, accepted, token):
                break
            slot.tokens.append(token)
            accepted += 1
        task.flush()
        slot.last = -1 if token is None else token
        self._settle(slot, task, accepted)
        if ending is not None:
            if self._speculator is not None:
                self._speculator.finish(slot, task)
            if task.sampler.overgrown:
                task.fail(sampling.overgrown())
            else:
                task.finish(*ending)
        if task.finished:
            self._seating.free(slot)

    def _settle(self, slot: Slot, task: Task, accepted: int) -> None:
        """After a step: count it, and drop the cells of draft tokens that were not accepted."""
        rejected = accepted < len(slot.draft)
        if self._speculator is not None:
            self._speculator.settle(slot, task, accepted)
        slot.draft = []
        if not rejected or self._context.keep(slot.index, len(slot.tokens)):
            return
        # the batch's other logits are still to be read: go back and evaluate again after that
        self._replays.append((slot, len(slot.tokens) - accepted - 1))

    def _replay(self) -> None:
        """Bring slots whose state cannot be cut back to where their accepted tokens end.

        Their state from before the verification is restored, and what was accepted evaluated again.
        """
        for slot, start in self._replays:
            try:
                if self._context.restore(slot.index, slot.saved, start):
                    self._batch.clear()
                    self._batch.add(slot.index, start, slot.tokens[start:], all_logits=False)
                    self._context.decode(self._batch)
                    continue
            except (AbortedError, GenerationError) as exc:
                log.warning("a slot's state is lost: %s", exc)
            self._context.keep(slot.index, 0)
            slot.tokens = []
            if slot.task is not None:
                slot.task.fail(GenerationError("the model's state could not be rolled back"))
                self._seating.free(slot)
        self._replays.clear()

    def _take(self, slot: Slot, task: Task, token: int | None, row: int) -> _Ending | None:
        """Take a token that was drawn from a row; tell whether and how the answer ends with it."""
        task.generated += 1
        if token is None or self._weights.vocab.is_end(token):
            return ("stop", "eos")
        entry = None
        if task.logprobs is not None:
            entry = task.sampler.logprob(self._context.handle, row, token, task.logprobs)
        task.emit(self._weights.vocab.piece(token), entry)
        if task.emitter.stopped:
            return ("stop", "stop")
        if task.max_tokens is not None and task.generated >= task.max_tokens:
            return ("length", "length")
        if len(slot.tokens) >= self._context.length:
            return ("length", "context")
        return None


def _agrees(draft: Sequence[int], place: int, token: int) -> bool:
    """Whether the token that was drawn is the one drafted for this place: the accept rule."""
    return place < len(draft) and draft[place] == token
