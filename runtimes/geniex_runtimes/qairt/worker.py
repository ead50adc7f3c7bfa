"""The worker: a process of its own for one bundle, since native code may end any process.

Started as `python -m geniex_runtimes.qairt.worker`. It reads orders from the pipe that was its
standard input and writes reports to the one that was its standard output; whatever native code
prints goes to the log, which was its standard error. It ends with its parent: at the end of its
orders, within seconds also out of a native call; on Linux the kernel sees to it besides.
"""

import os
import queue
import sys
import threading
import time
from pathlib import Path

from geniex_catalogue.errors import GenieXError, UsageError
from geniex_runtimes.qairt import native, protocol
from geniex_runtimes.qairt.answering import Answering, Words
from geniex_runtimes.qairt.bundle import read_bundle
from geniex_runtimes.qairt.device import installed_libraries
from geniex_runtimes.qairt.engine import (
    Engine,
    EngineError,
    EngineMissingError,
    EngineName,
    EngineOptions,
)
from geniex_runtimes.qairt.vocabulary import Vocabulary
from geniex_runtimes.workers import child
from geniex_runtimes.workers.wire import ProtocolError

_GRACE = 2.0  # seconds for an end in order


def engine(name: EngineName, folder: Path, options: EngineOptions) -> Engine:
    """Load a bundle with an engine. Raises EngineError, EngineMissingError, BundleError."""
    if name == "genie":
        from geniex_runtimes.qairt.genie import GenieEngine

        return GenieEngine(folder, options)
    from geniex_runtimes.qairt.ort import OrtEngine

    return OrtEngine(folder, options)


class Worker:
    """Takes orders one after the other; a cancel reaches the running one from its own thread."""

    def __init__(self, orders: int, reports: int) -> None:
        self._orders = orders
        self._reports = reports
        self._waiting: queue.SimpleQueue[protocol.Order] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._words: Words | None = None
        self._slides = False
        self._running: Answering | None = None
        self._cancelled: set[int] = set()

    def run(self) -> None:
        """Work until Close; the process ends earlier where the orders do."""
        threading.Thread(target=self._listen, name="orders", daemon=True).start()
        while True:
            order = self._waiting.get()
            if isinstance(order, protocol.Close):
                break
            self._obey(order)
        if self._engine is not None:
            self._engine.close()

    def _listen(self) -> None:
        try:
            for message in protocol.WIRE.messages(self._orders):
                if isinstance(message, protocol.Cancel):
                    self._cancel(message.number)
                else:
                    self._waiting.put(message)  # type: ignore[arg-type]
        except (OSError, ProtocolError) as exc:
            sys.stderr.write(f"the worker's orders broke off: {exc}\n")
        # nobody is there any more: free what is native, if it lets itself be asked
        if self._running is not None:
            self._cancel(self._running.number)
        self._waiting.put(protocol.Close())
        time.sleep(_GRACE)
        child.end()

    def _cancel(self, number: int) -> None:
        with self._lock:
            self._cancelled.add(number)
            running = self._running
            if running is None or running.number != number:
                return
            running.cancel()
            if self._engine is not None:
                self._engine.abort()

    def _obey(self, order: protocol.Order) -> None:
        number = order.number if isinstance(order, protocol.Generate) else None
        try:
            if isinstance(order, protocol.Load):
                self._load(order)
            elif isinstance(order, protocol.Generate):
                self._generate(order)
            else:
                self._keep(order)
        except EngineMissingError as exc:
            self._report(protocol.Failed("missing", str(exc), None, number))
        except UsageError as exc:
            self._report(protocol.Failed("usage", exc.message, exc.hint, number))
        except GenieXError as exc:
            self._report(protocol.Failed("load", exc.message, exc.hint, number))
        except EngineError as exc:
            self._report(protocol.Failed("load", str(exc), None, number))

    def _load(self, order: protocol.Load) -> None:
        libraries, _ = installed_libraries()
        native.prepare(libraries)
        os.chdir(order.folder)  # genie_config.json may name more files than we know of
        bundle = read_bundle(order.folder)
        vocabulary = Vocabulary(bundle.tokenizer, bundle.vocab_size, bundle.bos_id)
        options = EngineOptions(libraries, order.sliding_window)
        self._engine = engine(order.engine, order.folder, options)
        self._words = Words(vocabulary, bundle.eos_ids)
        self._slides = order.sliding_window
        self._report(protocol.Loaded(self._engine.context_length, self._engine.vocab_size))

    def _generate(self, order: protocol.Generate) -> None:
        loaded, words = self._loaded()
        answering = Answering(order, words, self._report, slides=self._slides)
        with self._lock:
            if order.number in self._cancelled:
                answering.cancel()
            self._running = answering
        try:
            answering.run(loaded)
        finally:
            with self._lock:
                self._running = None
                self._cancelled.clear()

    def _keep(self, order: protocol.Order) -> None:
        loaded, _ = self._loaded()
        if isinstance(order, protocol.Save):
            loaded.save(order.folder)
        elif isinstance(order, protocol.Restore):
            loaded.restore(order.folder)
        else:
            loaded.reset()
        self._report(protocol.Did())

    def _loaded(self) -> tuple[Engine, Words]:
        if self._engine is None or self._words is None:
            raise EngineError("nothing has been loaded")
        return self._engine, self._words

    def _report(self, report: protocol.Report) -> None:
        try:
            protocol.WIRE.send(self._reports, report)
        except OSError:
            child.end()  # nobody reads


def main() -> None:
    """Work for the parent that is named by its process id."""
    Worker(*child.begin()).run()
    sys.stderr.flush()
    child.end()


if __name__ == "__main__":
    main()
