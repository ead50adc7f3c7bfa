"""A worker process as its parent sees it: started, spoken to, its log read, its end told."""

import collections
import logging
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from geniex_runtimes import children
from geniex_runtimes.workers import child
from geniex_runtimes.workers.wire import ProtocolError, Wire, write

log = logging.getLogger("geniex.workers")

_KEPT_LINES = 50
_SHOWN_LINES = 3
_LINE = 300  # characters
_PATIENCE = 5.0  # seconds that an orderly end may take


class WorkerProcess:
    """One worker. All methods may be called from any thread.

    A runtime's own class says how a line of the log is read.
    """

    def __init__(
        self, module: str, wire: Wire[Any], deliver: Callable[[Any], None], *arguments: str
    ) -> None:
        """Start a module as a worker. Raises OSError.

        `deliver` gets each report, and None at their end, on a thread of the worker's.
        """
        self._wire = wire
        self._deliver = deliver
        self._process = _STARTER.start(lambda: _spawn(module, arguments))
        self._lines: collections.deque[tuple[float, str]] = collections.deque(maxlen=_KEPT_LINES)
        self._garbage = ""
        self._sending = threading.Lock()
        self._unsent: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._readers = [
            threading.Thread(target=target, name=f"worker-{self.pid}", daemon=True)
            for target in (self._read_reports, self._read_log)
        ]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs and can be heard."""
        return self._process.poll() is None and self._readers[0].is_alive()

    def send(self, order: Any) -> None:
        """Say something; nothing happens where the worker has ended, which its reports tell.

        Waits for no lock: an answer that is thrown away is cancelled wherever the collector runs.
        Raises ProtocolError for what is too large to say.
        """
        self._unsent.put(self._wire.pack(order))
        while not self._unsent.empty():
            if not self._sending.acquire(blocking=False):
                return  # who has it sends this, too
            try:
                self._send_all()
            finally:
                self._sending.release()

    def _send_all(self) -> None:
        stdin = self._process.stdin
        while True:
            try:
                data = self._unsent.get_nowait()
            except queue.Empty:
                return
            try:
                if stdin is not None and not stdin.closed:
                    write(stdin.fileno(), data)
            except OSError as exc:
                log.debug("worker %d takes no orders: %s", self.pid, exc)

    def close(self, order: Any) -> None:
        """Let it free everything and end, as the order says; kill it where that takes too long."""
        self.send(order)
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            log.warning("worker %d did not end in time and is killed", self.pid)
        self.kill()

    def kill(self) -> None:
        """End it now, and leave nothing of it behind."""
        self._process.kill()
        self._process.wait()
        for reader in self._readers:
            if reader is not threading.current_thread():
                reader.join(_PATIENCE)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with self._sending:
                    pipe.close()

    def death(self) -> str:
        """How it ended, as what follows "the worker"; it is reaped."""
        if self._garbage:
            self.kill()
            return f"wrote what is no report ({self._garbage})"
        try:
            code = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            return "closed its pipe without ending"
        return children.death(code)

    def last_words(self, within: float | None = None) -> str:
        """The end of its log, without what libraries say when all is well; empty for nothing.

        `within` are the seconds before now that count.
        """
        since = time.monotonic() - within if within is not None else 0.0
        lines = [text for at, text in self._lines if at >= since]
        return "; ".join(lines[-_SHOWN_LINES:])

    def settle(self) -> None:
        """Wait until its log is read, once it has ended."""
        self._readers[1].join(_PATIENCE)

    def heed(self, line: str) -> str:
        """Pass on a line of the log; what of it may be told as its last words, empty for nothing.

        Called on a thread of the worker's.
        """
        log.debug("worker %d: %s", self.pid, line)
        return line

    def _read_reports(self) -> None:
        stdout = self._process.stdout
        try:
            if stdout is not None:
                for report in self._wire.messages(stdout.fileno()):
                    self._deliver(report)
        except (OSError, ValueError, ProtocolError) as exc:
            self._garbage = str(exc)
        finally:
            self._deliver(None)

    def _read_log(self) -> None:
        stderr = self._process.stderr
        if stderr is None:
            return
        # bounded, for a library that writes no line's end
        while line := stderr.readline(4 * _LINE):
            told = self.heed(line.decode("utf-8", "replace").strip()[:_LINE])
            if told:
                # it ends up in an error: no escape sequence of a library reaches the terminal
                shown = "".join(char if char.isprintable() else " " for char in told)
                self._lines.append((time.monotonic(), shown.strip()))


def _spawn(module: str, arguments: tuple[str, ...]) -> "subprocess.Popen[bytes]":
    command = children.command(module, f"{child.PARENT}{os.getpid()}", *arguments)
    # absolute: a worker may go to another folder
    roots = [str(Path(root).absolute()) for root in sys.path if root]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(roots)}
    # not the terminal's Ctrl-C: the parent says what is to end
    if sys.platform == "win32":
        flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
        apart = False
    else:
        flags, apart = 0, True
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        close_fds=True,
        creationflags=flags,
        start_new_session=apart,
    )


class _Starter:
    """Starts processes from one thread that lives as long as this process.

    Linux ends a worker with the thread that started it, not with the process: a request's thread
    would take the worker along.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orders: queue.SimpleQueue[
            tuple[Callable[[], subprocess.Popen[bytes]], Future[subprocess.Popen[bytes]]]
        ] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pid = 0

    def start(self, spawn: "Callable[[], subprocess.Popen[bytes]]") -> "subprocess.Popen[bytes]":
        """What `spawn` gives, called in the thread. Raises what it raises."""
        with self._lock:
            if self._thread is None or self._pid != os.getpid():  # a fork has no threads
                self._pid = os.getpid()
                self._thread = threading.Thread(target=self._work, name="worker-start", daemon=True)
                self._thread.start()
        future: Future[subprocess.Popen[bytes]] = Future()
        self._orders.put((spawn, future))
        return future.result()

    def _work(self) -> None:
        while True:
            spawn, future = self._orders.get()
            try:
                future.set_result(spawn())
            except BaseException as exc:
                future.set_exception(exc)


_STARTER = _Starter()
