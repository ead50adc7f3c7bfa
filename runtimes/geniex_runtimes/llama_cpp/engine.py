"""The engine: one thread that owns a context and serves every request from it, turn by turn.

Each turn evaluates one batch: the last token of every slot that is answering, and prompt chunks of
the slots that are prefilling. Requests join and leave between turns (continuous batching, as in
Orca, Yu et al., OSDI 2022).
"""

import logging
import queue
import threading
import time
from collections import deque

from geniex_catalogue.errors import GenerationError
from geniex_runtimes.llama_cpp.batch import Batch
from geniex_runtimes.llama_cpp.context import (
    BATCH_ROWS,
    AbortedError,
    Context,
    OutOfCellsError,
)
from geniex_runtimes.llama_cpp.library import Library
from geniex_runtimes.llama_cpp.slot import Slot, Task
from geniex_runtimes.llama_cpp.threads import Governor
from geniex_runtimes.llama_cpp.weights import Weights

log = logging.getLogger("geniex.llama_cpp.engine")

# prompt rows per turn while others are answering: bounds the pause in their streams
SHARED_PREFILL_ROWS = 128


class Engine:
    """Runs tasks on a context. `submit`, `cancel` and `close` may be called from any thread."""

    def __init__(
        self, library: Library, weights: Weights, context: Context, governor: Governor | None
    ) -> None:
        """Start the thread. Without a `governor` the number of CPU threads stays as it is."""
        self._governor = governor
        self._weights = weights
        self._context = context
        self._batch = Batch(library, BATCH_ROWS)
        self._slots = [Slot(index) for index in range(context.options.slots)]
        self._waiting: deque[Task] = deque()
        self._inbox: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._closing = False
        self._lock = threading.Lock()
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
        try:
            while not self._closing:
                self._receive()
                self._context.abort(False)  # before the flags are read: no cancel is missed
                self._drop_cancelled()
                self._assign()
                if any(slot.task for slot in self._slots) and not self._closing:
                    self._turn()
        except Exception as exc:
            log.exception("the engine stopped")
            self._end_all(GenerationError(f"the engine stopped: {exc}"))
        finally:
            with self._lock:
                self._closing = True
            self._receive(wait=False)
            self._end_all(None)

    def _receive(self, *, wait: bool = True) -> None:
        """Take what has arrived; sleep when there is nothing to do."""
        idle = wait and not self._waiting and not any(slot.task for slot in self._slots)
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
                self._free(slot)

    def _free(self, slot: Slot) -> None:
        slot.task = None
        slot.used = time.monotonic()

    def _assign(self) -> None:
        """Give waiting tasks the free slots, each the one that holds most of its prompt."""
        while self._waiting:
            free = [slot for slot in self._slots if slot.task is None]
            if not free:
                return
            task = self._waiting.popleft()
            slot = max(free, key=lambda slot: (slot.worth(task.prompt), -slot.used))
            task.started = time.perf_counter()
            task.cached = self._reuse(slot, task.prompt) if task.reuse_prefix else 0
            if task.cached == 0:
                self._context.keep(slot.index, 0)
            slot.tokens = slot.tokens[: task.cached]
            slot.task = task

    def _reuse(self, slot: Slot, prompt: list[int]) -> int:
        """Cut a slot's cells back to what a prompt shares; return how many tokens stay.

        At least one token of the prompt is left to evaluate, for its logits.
        """
        shared = min(slot.shared(prompt), len(prompt) - 1)
        if shared == 0 or shared == len(slot.tokens):
            return shared
        if not self._weights.rolls_back:
            return 0
        window = self._weights.sliding_window
        if window and self._context.first_position(slot.index) > max(0, shared - window):
            return 0  # the cells that the window needs are gone
        return shared if self._context.keep(slot.index, shared) else 0

    def _turn(self) -> None:
        """Build one batch, evaluate it, and give every slot with logits its next token."""
        outputs = self._fill()
        if self._governor is not None and self._governor.look():
            self._context.use_threads(self._governor.threads)
        try:
            self._context.decode(self._batch)
        except AbortedError:
            self._recover()
            return
        except (OutOfCellsError, GenerationError) as exc:
            for slot in self._slots:
                if slot.task is not None:
                    slot.task.fail(exc)
                    self._free(slot)
            self._recover()
            return
        for slot, added in self._added:
            slot.tokens += added
        for slot, row in outputs:
            self._next_token(slot, row)

    def _fill(self) -> list[tuple[Slot, int]]:
        """Put this turn's rows into the batch; return the slots that get logits, with their row."""
        batch = self._batch
        batch.clear()
        self._added: list[tuple[Slot, list[int]]] = []
        outputs: list[tuple[Slot, int]] = []
        for slot in self._slots:
            if slot.task is not None and not slot.prefilling:
                row = batch.add(slot.index, len(slot.tokens), (slot.last,), all_logits=True)
                self._added.append((slot, [slot.last]))
                outputs.append((slot, row))
        budget = min(batch.room, SHARED_PREFILL_ROWS) if outputs else batch.room
        for slot in self._slots:
            if slot.task is None or not slot.prefilling or budget == 0:
                continue
            start = len(slot.tokens)
            chunk = slot.task.prompt[start : start + budget]
            row = batch.add(slot.index, start, chunk, all_logits=False) + len(chunk) - 1
            budget -= len(chunk)
            self._added.append((slot, chunk))
            if start + len(chunk) == len(slot.task.prompt):
                batch.want_logits(row)
                outputs.append((slot, row))
        return outputs

    def _recover(self) -> None:
        """After a failed or stopped decode: drop the cells of rows that did not count."""
        for slot in self._slots:
            kept = self._weights.rolls_back and self._context.keep(slot.index, len(slot.tokens))
            if kept:
                continue
            self._context.keep(slot.index, 0)
            slot.tokens = []
            if slot.task is not None and not slot.task.cancelled:
                slot.task.fail(GenerationError("the model's state was lost by a stopped request"))
                self._free(slot)

    def _next_token(self, slot: Slot, row: int) -> None:
        """Draw a slot's next token, pass it on, and end the task where it ends."""
        task = slot.task
        if task is None:
            return
        if task.max_tokens == 0:
            task.finish("length", "length")
            self._free(slot)
            return
        context = self._context.handle
        token = task.sampler.sample(context, row)
        task.last_token = time.perf_counter()
        task.first_token = task.first_token or task.last_token
        ended = token is None or self._weights.vocab.is_end(token)
        task.generated += 1
        if token is None or ended:
            task.finish("stop", "eos")
            self._free(slot)
            return
        entry = None
        if task.logprobs is not None:
            entry = task.sampler.logprob(context, row, token, task.logprobs)
        task.emit(self._weights.vocab.piece(token), entry)
        slot.last = token
        if task.emitter.stopped:
            task.finish("stop", "stop")
        elif task.max_tokens is not None and task.generated >= task.max_tokens:
            task.finish("length", "length")
        elif len(slot.tokens) >= self._context.length:
            task.finish("length", "context")
        if task.finished:
            self._free(slot)
