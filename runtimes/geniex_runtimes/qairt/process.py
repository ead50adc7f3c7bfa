"""A worker process as its parent sees it: started, spoken to, its log read, its end told."""

import collections
import logging
import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from geniex_runtimes import children
from geniex_runtimes.qairt import protocol

log = logging.getLogger("geniex.qairt")

_MODULE = "geniex_runtimes.qairt.worker"
_KEPT_LINES = 50
_SHOWN_LINES = 3
_LINE = 300  # characters
# chatter of libraries that work
_NOISE = re.compile(
    r"\[(QNN|INFO|WARN|WARNING|DEBUG|VERBOSE)\b|\[ *(INFO|WARN) *\]|LIBNATIVE|<[IWV]>"
)
# what stands before a message in libGenie's log
_STAMP = re.compile(r"^Genie: +[\d.]+ms \[ *ERROR *\] +(<E> )?")
_PATIENCE = 5.0  # seconds that an orderly end may take


class WorkerProcess:
    """One worker. `receive` belongs to one thread, all else may be called from any."""

    def __init__(self) -> None:
        """Start it. Raises OSError."""
        self._process = _STARTER.start(_spawn)
        self._reports: queue.SimpleQueue[protocol.Report | None] = queue.SimpleQueue()
        self._lines: collections.deque[str] = collections.deque(maxlen=_KEPT_LINES)
        self._garbage = ""
        self._sending = threading.Lock()
        self._readers = [
            threading.Thread(target=target, name=f"qairt-{self.pid}", daemon=True)
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

    def send(self, order: protocol.Order) -> None:
        """Say something; nothing happens where the worker has ended, which `receive` tells."""
        stdin = self._process.stdin
        with self._sending:
            try:
                if stdin is not None and not stdin.closed:
                    protocol.send(stdin.fileno(), order)
            except OSError as exc:
                log.debug("worker %d takes no orders: %s", self.pid, exc)

    def receive(self, timeout: float) -> protocol.Report | None:
        """The next report. Raises TimeoutError; None where the worker has ended."""
        try:
            return self._reports.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError from None

    def close(self) -> None:
        """Let it free everything and end; kill it where that takes too long."""
        self.send(protocol.Close())
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

    def last_words(self) -> str:
        """The end of its log, without what libraries say when all is well; empty for nothing."""
        lines = [line for line in self._lines if line and not _NOISE.search(line)]
        return "; ".join(_STAMP.sub("", line) for line in lines[-_SHOWN_LINES:])

    def settle(self) -> None:
        """Wait until its log is read, once it has ended."""
        self._readers[1].join(_PATIENCE)

    def _read_reports(self) -> None:
        stdout = self._process.stdout
        try:
            while stdout is not None and (report := protocol.receive(stdout.fileno())):
                self._reports.put(report)  # type: ignore[arg-type]
        except (OSError, ValueError, protocol.ProtocolError) as exc:
            self._garbage = str(exc)
        self._reports.put(None)

    def _read_log(self) -> None:
        stderr = self._process.stderr
        if stderr is None:
            return
        # bounded, for a library that writes no line's end
        while line := stderr.readline(4 * _LINE):
            text = line.decode("utf-8", "replace").strip()[:_LINE]
            self._lines.append(text)
            log.debug("worker %d: %s", self.pid, text)


def _spawn() -> "subprocess.Popen[bytes]":
    command = children.command(_MODULE, f"--parent={os.getpid()}")
    # absolute: the worker goes to the bundle's folder
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
                self._thread = threading.Thread(target=self._work, name="qairt-start", daemon=True)
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
