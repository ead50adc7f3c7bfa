"""How the server begins and ends.

It begins to listen before the model it was given is loaded, and ends in two steps: at the first
signal it takes no new requests and lets running answers end within the grace time, at the second
one it ends at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn
from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp

from geniex import __version__
from geniex.server import descriptors
from geniex.server.models.listing import purpose_of
from geniex.server.residents import ModelWish
from geniex.server.security import connection
from geniex.server.security.reloading import reload_at_hangup
from geniex_catalogue.errors import GenieXError, LoadCancelledError, UsageError

if TYPE_CHECKING:
    from geniex.server.state import ServerState

ENDED, INTERRUPTED = 0, 130

_log = logging.getLogger("geniex.server")
_LAST_WORDS = 1  # second for what is cut off to say so, after the grace time


def lifespan(state: ServerState) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Load the first models in the background, and free all of them at the end."""

    @asynccontextmanager
    async def live(app: FastAPI) -> AsyncIterator[None]:
        gone = threading.Event()
        _log.info("the server begins: geniex %s, process %d", __version__, os.getpid())
        if state.options.preload:
            state.not_ready = "the first model is being loaded"
            threading.Thread(
                target=_preload, args=(state, gone), name="geniex-preload", daemon=True
            ).start()
        try:
            yield
        finally:
            state.draining = True
            gone.set()
            await run_in_threadpool(state.pool.close)
            _log.info("the server has ended")

    return live


def _preload(state: ServerState, gone: threading.Event) -> None:
    """Load what the operator named; one that fails leaves the server not ready, and says why."""
    failures: list[str] = []
    for name in state.options.preload:
        state.not_ready = "; ".join([*failures, f"`{name}` is being loaded"])
        try:
            wish = ModelWish(name, purpose=purpose_of(name, state.settings, state.options))
            state.pool.acquire(wish, gone).close()
        except LoadCancelledError:
            return
        except GenieXError as exc:
            if state.draining:
                return
            failures.append(f"`{name}` could not be loaded: {exc.message}")
            _log.error("%s", failures[-1])
    state.not_ready = "; ".join(failures) or None


def serve(
    app: ASGIApp,
    state: ServerState,
    sockets: list[socket.socket],
    on_listening: Callable[[], None],
    on_draining: Callable[[int], None],
    on_reload: Callable[[str], None],
    *,
    keyfile: Path | None = None,
    certfile: Path | None = None,
) -> int:
    """Serve until a signal ends it; the answer is the exit code.

    `on_listening` is called once the sockets answer, `on_draining` at the first signal with the
    number of answers that still run, if there are any, `on_reload` with what came of reading the
    file of keys again. Raises UsageError for unusable TLS files.
    """
    files = descriptors.raise_limit()
    most = descriptors.clients(state.options.max_connections, files)
    if most < state.options.max_connections:
        _log.warning("at most %d clients: the system allows this process %s files", most, files)
    config = uvicorn.Config(
        app,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        http=connection.at_most(most),
        h11_max_incomplete_event_size=connection.MAX_HEAD,
        backlog=descriptors.at_a_time(files),
        timeout_keep_alive=int(connection.KEEP_SECONDS),
        timeout_graceful_shutdown=_LAST_WORDS,
        ssl_keyfile=keyfile,
        ssl_certfile=certfile,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as exc:
        named = " and ".join(f"`{file}`" for file in (certfile, keyfile) if file is not None)
        raise UsageError(
            f"TLS cannot be set up with {named}: {exc.strerror or exc}",
            hint="give a certificate and its key as PEM files",
        ) from exc
    server = _Server(config, state, on_listening, on_draining)
    with reload_at_hangup(state.options.keys, on_reload, server.handle_exit):
        server.run(sockets)
    return server.code


class _Server(uvicorn.Server):
    """uvicorn's server, which drains before it stops listening."""

    def __init__(
        self,
        config: uvicorn.Config,
        state: ServerState,
        on_listening: Callable[[], None],
        on_draining: Callable[[int], None],
    ) -> None:
        super().__init__(config)
        self.code = ENDED
        self._state = state
        self._on_listening = on_listening
        self._on_draining = on_draining
        self._told = False
        self._given_up = False
        self._deadline = 0.0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        asyncio.get_running_loop().set_exception_handler(descriptors.tell_shortly)
        await super().startup(sockets)
        for one in sockets or ():
            # asyncio takes as many at a time as wait here; that few of them turns others away
            one.listen(descriptors.BACKLOG)
        if self.started and not self.should_exit:
            self._on_listening()

    async def on_tick(self, counter: int) -> bool:
        """Whether to stop listening now; called ten times a second."""
        if self._state.draining:
            self.should_exit = self.should_exit or self._drained()
        return await super().on_tick(counter)

    def _drained(self) -> bool:
        """Whether no answer runs any more, or has been given up in vain."""
        active, now = self._state.active, time.monotonic()
        if not active:
            return True
        if not self._told:
            self._told = True
            self._on_draining(active)
        if now < self._deadline:
            return False
        if not self._given_up:
            self._given_up = True
            _log.warning("cut off, as their time is over: %d", active)
            # ends generations and loads, and whoever waits for them gets to know
            threading.Thread(target=self._state.pool.close, daemon=True).start()
        return now >= self._deadline + _LAST_WORDS

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain at the first signal, end at once at the second."""
        code = INTERRUPTED if sig == signal.SIGINT else ENDED
        if self._state.draining:
            # native calls may run for long yet, and nothing on disk is half written
            os._exit(code)
        self.code = code
        self._deadline = time.monotonic() + self._state.options.grace
        self._state.draining = True
