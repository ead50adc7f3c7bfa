"""A server that is killed while it loads, answers, unloads or ends: the next one knows no worse."""

import contextlib
import http.client
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ci.killing.deeds import Kill
from ci.killing.moment import run
from ci.soaking.clients import Asker
from ci.soaking.models import BUILTIN
from ci.soaking.questions import TEXT
from ci.soaking.shelf import Shelf

_MODELS = ("soak/one", "soak/two")
_PATIENCE = 120.0
_LONGEST = 3.0  # seconds from the start of a server to its end
_QUESTION = TEXT[0]


@dataclass
class Server:
    """A `geniex serve` on a data folder; `url` is empty until it listens."""

    process: "subprocess.Popen[str]"
    url: str = ""

    def await_listening(self) -> None:
        """Wait for its address. Raises RuntimeError where it ends before."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if line.startswith("Listening on "):
                self.url = line.split()[2]
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return
        raise RuntimeError("the server ended before it listened")


@contextmanager
def _serving(data_dir: Path) -> Iterator[Server]:
    words = ["serve", "soak/one", "--port", "0", "--nctx", "512", "--data-dir", str(data_dir)]
    process = subprocess.Popen(
        [sys.executable, "-m", "geniex", *words],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Server(process)
    finally:
        process.kill()
        process.wait()


class ServedPlace:
    """A store with two models that is served and killed, again and again."""

    def __init__(self, folder: Path) -> None:
        self._shelf = Shelf(folder)
        for name in _MODELS:
            self._shelf.put(name, BUILTIN)
        with _serving(folder) as server:
            server.await_listening()
            self._right = self._asked(server)

    def kill(self, rng: random.Random) -> Kill:
        """Kill a server at a random moment, and see that the next one answers as ever."""
        seconds = rng.uniform(0, _LONGEST)
        with _serving(self._shelf.data_dir) as server:
            busy = threading.Thread(target=self._keep_busy, args=(server,), daemon=True)
            busy.start()
            time.sleep(seconds)
            killed = server.process.poll() is None
            server.process.kill()
            server.process.wait()
            busy.join(_PATIENCE)
        code, told = run(["verify", "--data-dir", str(self._shelf.data_dir)])
        faults = [f"verify ended with {code}: {told}"] if code else []
        try:
            with _serving(self._shelf.data_dir) as server:
                server.await_listening()
                if (answer := self._asked(server)) != self._right:
                    faults.append(f"{answer} in place of {self._right}")
                server.process.send_signal(signal.SIGTERM)
                if ended := server.process.wait(_PATIENCE):
                    faults.append(f"the next one ended with {ended}")
        except (RuntimeError, OSError) as exc:
            faults.append(f"the next one: {exc}")
        return Kill("serve", f"{seconds:.3f} s", killed, (), tuple(faults))

    def _asked(self, server: Server) -> list[object]:
        asker = Asker(server.url)
        return [asker.answer(_QUESTION.path, {**_QUESTION.body, "model": name}) for name in _MODELS]

    def _keep_busy(self, server: Server) -> None:
        """Load, ask and unload until the server is gone, and have it drain now and then."""
        rng = random.Random()
        with contextlib.suppress(OSError, RuntimeError, ValueError, http.client.HTTPException):
            server.await_listening()
            while server.process.poll() is None:
                self._asked(server)
                for name in _MODELS:
                    Asker(server.url).ask(f"/v1/models/{name}/unload", {})
                if rng.random() < 0.1:
                    server.process.send_signal(signal.SIGTERM)


@contextmanager
def served_place() -> Iterator[ServedPlace]:
    """A place with a store of its own."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.pop("GENIEX_DATADIR", None)
        yield ServedPlace(Path(folder))
