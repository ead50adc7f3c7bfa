"""Clients that ask right and wrong, stream, wait, and go at any moment."""

import http.client
import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from ci.soaking.kinds import BUSY, KINDS, Body, fault_of
from ci.soaking.questions import TEXT, VECTORS, Answer, Book, BusyError, read, varied
from ci.soaking.shelf import GONE, Shelf

CLIENTS = 8
PATIENCE = 300.0  # seconds, on a machine that does other things too
_SURE = 0.5  # the share of rounds whose answer is known
_CANCELLED = 0.2
_MISSING, _FAILED = 404, 500

Ending: TypeAlias = Literal["whole", "midway", "waiting", "at once"]
_GOING: tuple[Ending, ...] = ("midway", "midway", "waiting", "waiting", "at once")


@dataclass
class Report:
    """What happened: `done` counts (kind, ending), `faults` are the surprises.

    `compared` counts the answers that were held against the book, by model.
    """

    done: Counter[tuple[str, str]] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    @property
    def busy(self) -> int:
        """How many were turned away for now."""
        return self.statuses[BUSY]


class Asker:
    """Asks one server over HTTP."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        self._host, self._port = where.hostname or "", where.port

    def ask(
        self,
        path: str,
        body: Body | None,
        ending: Ending = "whole",
        rng: random.Random | None = None,
    ) -> tuple[int, bytes]:
        """Status and body; 0 where we hung up before the status came."""
        rng = rng or random.Random()
        connection = http.client.HTTPConnection(self._host, self._port, timeout=PATIENCE)
        try:
            data = None if body is None else json.dumps(body)
            method = "GET" if body is None else "POST"
            connection.request(method, path, data, {"content-type": "application/json"})
            if ending == "at once":
                return 0, b""
            if ending == "waiting":
                time.sleep(rng.uniform(0, 0.1))
                return 0, b""
            response = connection.getresponse()
            size = rng.randint(1, 2000) if ending == "midway" else None
            return response.status, response.read(size)
        finally:
            connection.close()

    def answer(self, path: str, body: Body) -> Answer:
        """What counts of a whole answer. Raises RuntimeError for any status but 200."""
        status, data = self.ask(path, body)
        if status != 200:
            raise RuntimeError(f"{path} answered {status}: {data[:300]!r}; {json.dumps(body)}")
        return read(path, data)

    def loaded(self) -> list[dict[str, Any]]:
        """What is in memory. Raises RuntimeError."""
        status, data = self.ask("/v1/ps", None)
        if status != 200:
            raise RuntimeError(f"/v1/ps answered {status}: {data[:300]!r}")
        listed: list[dict[str, Any]] = json.loads(data)["data"]
        return listed


class Soak:
    """Clients of one server, from one seed. `report` is safe to read once they have ended.

    With a shelf and a book, half of their questions are about its models, and every answer is held
    against the book.
    """

    def __init__(
        self, url: str, seed: int = 0, shelf: Shelf | None = None, book: Book | None = None
    ) -> None:
        self.asker = Asker(url)
        self._seed = seed
        self._lock = threading.Lock()
        self._shelf, self._book = shelf, book
        self._runs = 0
        self.report = Report()

    def run(self, clients: int, rounds: int | None = None, until: float | None = None) -> None:
        """Let them ask `rounds` times together, or until a time of time.monotonic()."""
        left = iter(range(rounds)) if rounds is not None else None
        self._runs += 1

        def client(number: int) -> None:
            rng = random.Random(f"{self._seed} {self._runs} {number}")
            while until is None or time.monotonic() < until:
                with self._lock:
                    if left is not None and next(left, None) is None:
                        return
                self._round(rng)

        threads = [threading.Thread(target=client, args=(n,)) for n in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def settle(self) -> None:
        """Wait until nothing runs or waits. Raises RuntimeError where something stays."""
        end = time.monotonic() + PATIENCE
        while taken := [one for one in self.asker.loaded() if one["busy"] or one["waiting"]]:
            if time.monotonic() > end:
                raise RuntimeError(f"slots are not free: {taken}")
            time.sleep(0.05)

    def rest(self) -> None:
        """Settle, and have every model unloaded. Raises RuntimeError where one stays."""
        self.settle()
        end = time.monotonic() + PATIENCE
        while loaded := self.asker.loaded():
            if time.monotonic() > end:
                raise RuntimeError(f"models stay: {loaded}")
            for one in loaded:
                self.asker.ask(f"/v1/models/{one['id']}/unload", {})
            time.sleep(0.05)

    def _round(self, rng: random.Random) -> None:
        ending = rng.choice(_GOING) if rng.random() < _CANCELLED else "whole"
        sure = self._shelf is not None and self._book is not None and rng.random() < _SURE
        what, body = "", None
        status, fault = 0, None
        try:
            if sure:
                what, status, fault = self._known(rng, ending)
            else:
                what, body, status, fault = self._unknown(rng, ending)
        except (OSError, http.client.HTTPException, ValueError, LookupError) as exc:
            fault = f"{type(exc).__name__}: {exc}"
        with self._lock:
            self.report.done[what or "none", ending] += 1
            self.report.statuses[status] += 1
            if fault is not None:
                at = f"{time.monotonic():.2f} {what}, {ending}"
                self.report.faults.append(f"{at}: {fault}; {json.dumps(body)[:300]}")

    def _unknown(
        self, rng: random.Random, ending: Ending
    ) -> tuple[str, Body | None, int, str | None]:
        """A request whose answer nobody knows: its kind, body, status, and what is wrong."""
        name = rng.choices(list(KINDS), [kind.weight for kind in KINDS.values()])[0]
        if name == "endless" and ending == "whole":
            name = "chat"
        kind = KINDS[name]
        body = kind.body(rng) if kind.body is not None else None
        try:
            status, data = self.asker.ask(kind.path, body, ending, rng)
        except OSError as exc:
            return name, body, 0, f"{type(exc).__name__}: {exc}"
        return name, body, status, fault_of(kind, status, data, whole=ending == "whole")

    def _known(self, rng: random.Random, ending: Ending) -> tuple[str, int, str | None]:
        """A question of the book: its name, the status, and what is wrong."""
        assert self._shelf is not None and self._book is not None
        model = rng.choice(self._shelf.names())
        question = rng.choice(VECTORS if model.endswith("vectors") else TEXT)
        body = {**varied(question, rng, pair=model.endswith("chat")), "model": model}
        began = time.monotonic()
        status, data = self.asker.ask(question.path, body, ending, rng)
        meant = self._shelf.meant(model, began, time.monotonic())
        cut = ending != "whole"
        if status in (0, BUSY) or (cut and status == 200) or _explained(status, data, meant, cut):
            return question.name, status, None
        what = f"{json.dumps(body)[:300]}: {status}, {data[:600]!r}"
        if status != 200:
            return question.name, status, what
        try:
            answer = read(question.path, data)
        except BusyError:
            return question.name, BUSY, None
        with self._lock:
            self.report.compared[model] += 1
        known = meant - {None, GONE}
        if any(self._book.knows(str(digest), question, answer) for digest in known):
            return question.name, status, None
        return question.name, status, f"not what it gave alone: {what}"


def _explained(status: int, data: bytes, meant: set[str | None], cut: bool) -> bool:
    """Whether it is an error that what the name meant explains; one that is cut has no text."""
    if status == _MISSING and None in meant:
        return cut or b"model_not_found" in data
    # a fault of the store, and the answer says which one
    return status == _FAILED and GONE in meant and (cut or b"is missing. Pull it again" in data)
