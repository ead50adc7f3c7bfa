"""The worker: a process of its own for the models of one file, with the engine of this runtime.

Started as `python -m geniex_runtimes.llama_cpp.isolated.worker`. One thread reads orders, one
writes reports, and what takes time has threads of its own. It ends with its parent: at the end of
its orders, on Linux also by the kernel.
"""

import base64
import logging
import os
import sys
import threading
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from geniex_catalogue.errors import LoadError
from geniex_catalogue.gguf import join_shards, read_header
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.contract import Event
from geniex_runtimes.errors import GenerationError
from geniex_runtimes.llama_cpp.embedding import LlamaCppEmbedder
from geniex_runtimes.llama_cpp.isolated import failures, messages
from geniex_runtimes.llama_cpp.isolated.outbox import Outbox
from geniex_runtimes.llama_cpp.isolated.process import DIGEST, LEVEL, MARK
from geniex_runtimes.llama_cpp.runtime import LlamaCppModel, LlamaCppRuntime
from geniex_runtimes.workers import child
from geniex_runtimes.workers.wire import ProtocolError

log = logging.getLogger("geniex.llama_cpp")

_SWITCH_INTERVAL = 0.0005  # seconds that an engine waits at most for the interpreter
_OOM_SCORE = 200  # of -1000 to 1000; a parent usually has 0
_THREADS = 64  # of what is asked at once; what is more waits
_STEP = 0.01  # of a load, between two words about it

AnyModel: TypeAlias = LlamaCppModel | LlamaCppEmbedder


class Run:
    """A generation: the queue that the engine fills, and how it is cancelled."""

    def __init__(self, number: int, worker: "Worker") -> None:
        self._number = number
        self._worker = worker
        self._lock = threading.Lock()
        self._begun = self._unwanted = False
        self._cancel: Callable[[], None] | None = None

    def put(self, event: Event | Exception) -> None:
        """Called by the engine."""
        if not self._begun:
            self.begin()
        self._worker.say((self._number, event))
        if isinstance(event, Exception) or not hasattr(event, "text"):
            self._worker.ended(self._number)

    def begin(self) -> None:
        """Say that it was accepted, once, before anything of it is said."""
        with self._lock:
            if not self._begun:
                self._worker.say(messages.Started(self._number))
                self._begun = True

    def started(self, cancel: Callable[[], None]) -> None:
        """The engine has it."""
        self.begin()
        with self._lock:
            self._cancel = cancel
            unwanted = self._unwanted
        if unwanted:
            cancel()

    def cancel(self) -> None:
        """End it, also where the engine does not have it yet."""
        with self._lock:
            self._unwanted = True
            cancel = self._cancel
        if cancel is not None:
            cancel()


class Worker:
    """Obeys orders until Close, or until there is nobody to give them."""

    def __init__(self, orders: int, reports: int) -> None:
        self._orders = orders
        self._models: dict[int, AnyModel] = {}
        self._runs: dict[int, Run] = {}
        self._unwanted: set[int] = set()  # loads that were given up
        self._busy: set[int] = set()
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(_THREADS, "order")
        # apart: they wait for each other, and others are not to wait for them
        self._embedding = ThreadPoolExecutor(_THREADS, "embed")
        self._outbox = Outbox(reports, lambda: bool(self._busy))
        self.say = self._outbox.put

    def run(self) -> None:
        """Work until Close, or until the orders end."""
        try:
            for message in messages.WIRE.messages(self._orders):
                if isinstance(message, messages.Close):
                    break
                if isinstance(message, messages.Order):
                    self._take(message)
        except (OSError, ProtocolError) as exc:
            log.error("the worker's orders broke off: %s", exc)

    def ended(self, number: int) -> None:
        """An order has had its last report."""
        with self._lock:
            self._busy.discard(number)
            self._runs.pop(number, None)

    def _take(self, order: messages.Order) -> None:
        if isinstance(order, messages.Cancel):
            run = self._runs.get(order.number)
            if run is not None:
                run.cancel()
            return
        if isinstance(order, messages.GiveUp):
            self._give_up(order.number)
            return
        if isinstance(order, messages.Close):
            return
        with self._lock:
            self._busy.add(order.number)
        if isinstance(order, messages.Generate):
            run = self._runs[order.number] = Run(order.number, self)
            self._threads.submit(self._generate, order, run)
        else:
            slow = isinstance(order, messages.Embed)
            (self._embedding if slow else self._threads).submit(self._answer, order)

    def _generate(self, order: messages.Generate, run: Run) -> None:
        try:
            model = self._model(order.model)
            if isinstance(model, LlamaCppEmbedder):
                model.generate(order.request)  # it says why not
                return
            run.started(model.start(order.request, run))
        except Exception as exc:
            self._fail(order.number, exc)

    def _answer(self, order: messages.Load | messages.Free | messages.Question) -> None:
        report: messages.Report
        try:
            if isinstance(order, messages.Load):
                report = self._load(order)
            elif isinstance(order, messages.Free):
                report = self._free(order)
            else:
                report = _result(self._model(order.model), order)
        except Exception as exc:
            self._fail(order.number, exc, loading=isinstance(order, messages.Load))
        else:
            self.say(report)
            self.ended(order.number)

    def _fail(self, number: int, exc: Exception, *, loading: bool = False) -> None:
        log.debug("order %d failed", number, exc_info=exc)
        self.say(failures.told(number, exc, loading=loading))
        self.ended(number)

    def _model(self, number: int) -> AnyModel:
        model = self._models.get(number)
        if model is None:
            raise GenerationError("the model has been closed", hint="load it again")
        return model

    # -- loads and their end

    def _load(self, order: messages.Load) -> messages.Report:
        number, said = order.number, -1.0

        def progress(share: float) -> bool:
            nonlocal said
            if share >= said + _STEP:
                said = share
                self.say(messages.Progress(number, share))
            return number not in self._unwanted

        draft = order.options.draft
        options = replace(order.options, draft=_with_header(draft) if draft else None)
        model = LlamaCppRuntime().load_here(_with_header(order.model), options, progress=progress)
        with self._lock:
            self._models[number] = model
        if number in self._unwanted:
            self._drop(number)
            raise LoadError(f"loading `{order.model.name}` was given up")
        return messages.Loaded(number, model.info)

    def _give_up(self, number: int) -> None:
        self._unwanted.add(number)
        if number in self._models:
            self._threads.submit(self._drop, number)

    def _drop(self, number: int) -> None:
        with self._lock:
            model = self._models.pop(number, None)
        if model is not None:
            model.close()

    def _free(self, order: messages.Free) -> messages.Report:
        if order.kept:
            self._model(order.model).free_contexts()
        else:
            self._drop(order.model)
        return messages.Did(order.number)


def _result(model: AnyModel, order: messages.Question) -> messages.Report:
    number = order.number
    if isinstance(order, messages.Tokenize):
        return messages.Tokens(number, tuple(model.tokenize(order.prompt)))
    if isinstance(order, messages.Detokenize):
        return messages.Text(number, model.detokenize(order.tokens))
    if isinstance(order, messages.TokenBytes):
        return messages.Bytes(number, model.token_bytes(order.token))
    found = model.embed(order.tokens if order.texts is None else order.texts)
    flat = array("f", [value for vector in found.vectors for value in vector])
    data = base64.b64encode(flat.tobytes()).decode("ascii")
    return messages.Vectors(number, len(found.vectors), data, found.tokens)


def _with_header(model: ResolvedModel) -> ResolvedModel:
    """A model as it arrived, with its header, which does not travel. Raises GGUFError."""
    headers = [read_header(path) for path in model.files]
    return replace(model, header=headers[0] if len(headers) == 1 else join_shards(headers))


class _ToParent(logging.Handler):
    """Writes log lines for the parent to tell apart from what native code prints."""

    def __init__(self) -> None:
        super().__init__()
        # a copy: the library lends descriptor 2 out for moments
        self._descriptor = os.dup(2)

    def emit(self, record: logging.LogRecord) -> None:
        text = " ".join(self.format(record).splitlines())
        line = f"{MARK}{record.levelno} {record.name} {text}\n"
        try:
            os.write(self._descriptor, line.encode("utf-8", "replace"))
        except OSError:
            self.handleError(record)


def _argument(name: str) -> str:
    return next(arg[len(name) :] for arg in sys.argv[1:] if arg.startswith(name))


def _log_to_parent() -> None:
    level = int(_argument(LEVEL))
    logger = logging.getLogger("geniex")
    logger.setLevel(level)
    logger.addHandler(_ToParent())


def _go_first() -> None:
    """Where memory runs out the system is to end this process, and not the one that started it."""
    if sys.platform != "linux":
        return
    try:
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE), encoding="ascii")
    except OSError as exc:
        log.debug("the score for want of memory stays as it is: %s", exc)


def main() -> None:
    """Work for the parent that is named by its process id."""
    pipes = child.begin()
    _log_to_parent()
    if _argument(DIGEST) != messages.WIRE.digest:
        sys.exit("geniex was changed on disk since the program was started: start it again")
    _go_first()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    Worker(*pipes).run()
    child.end()


if __name__ == "__main__":
    main()
