"""The models that the server holds: loaded when a request asks, given up when memory is short.

A request leases a set of contexts. Requests that ask for the same share one; other options have
contexts of their own beside it, on the same weights. Each load has its own thread, so that nobody
else waits for it; one lock guards the books and is never held while a model loads or closes.
"""

import contextvars
import logging
import math
import threading
import time
from collections.abc import Sequence

from geniex.config import Settings
from geniex.server import eviction
from geniex.server import footprint as memory
from geniex.server.contextset import ContextSet, Key, Told
from geniex.server.finder import Finder, identity_of
from geniex.server.footprint import Budget
from geniex.server.lease import UNSET, KeepAlive, Lease, Unset, named_as, told_as
from geniex.server.opening import Opener, open_case
from geniex.server.planning import Case, settle
from geniex.server.pool_events import NoEvents, PoolEvents, Reason, result_of
from geniex.server.reading import Asked, Reading, read
from geniex.server.residents import ModelWish, PoolOptions, Purpose, Resident
from geniex.server.room import Room
from geniex.session import OpenModel, load_model, look_at_hardware
from geniex_catalogue.errors import (
    GenieXError,
    LoadCancelledError,
    LoadError,
    ServerBusyError,
)

__all__ = ["UNSET", "Lease", "ModelWish", "Pool", "PoolOptions", "Purpose", "Resident", "Unset"]

log = logging.getLogger("geniex.server.pool")

_LOOK = 0.1  # seconds between two looks whether who waits for a load is still there
_LONGEST_SLEEP = 3600.0  # seconds between two looks of the sweeper
_FAREWELL = 10.0  # seconds that a load which cannot be given up at once keeps the end waiting
_RETRY = (1.0, 60.0)  # seconds


class Pool:
    """Models by wish. All methods may be called from any thread."""

    def __init__(
        self, settings: Settings, options: PoolOptions, *, opener: Opener = load_model
    ) -> None:
        self._settings = settings
        self._options = options
        self._open = opener
        self.events: PoolEvents = NoEvents()
        self._finder = Finder(settings, options.paths)
        self._budget = Budget(options.memory_budget)
        self._changed = threading.Condition()
        self._sets: list[ContextSet] = []
        self._freeing: list[ContextSet] = []
        self._loaders: set[threading.Thread] = set()
        self._closed = False
        self._typical = _RETRY[0]  # seconds that a request lately took
        self._sweeper = threading.Thread(target=self._sweep, name="geniex-sweeper", daemon=True)
        self._sweeper.start()

    def acquire(self, wish: ModelWish, gone: threading.Event | None = None) -> Lease:
        """A lease on the model that is wished for; blocks while it loads.

        Once `gone` is set it gives up with LoadCancelledError, and a load that nobody else waits
        for is given up as well. Raises the catalogue's errors, DraftNotFoundError, NoRuntimeError,
        SpeculativeError, LoadError, UsageError, ServerBusyError where queue or memory are taken
        just now, MemoryBudgetError where the model can never fit.
        """
        reading = read(wish, self._settings, self._finder)
        if gone is not None and gone.is_set():
            raise LoadCancelledError(f"nobody waits for `{reading.resolved.name}` any more")
        with self._changed:
            self._check_open()
            found = self._join(reading.asked)
            told = found.asked[reading.asked] if found is not None else None
        if found is None or told is None:
            found, told = self._begin(reading)
        return self._wait(found, reading, told, gone)

    def residents(self) -> list[Resident]:
        """What is in memory or on its way there, by name."""
        with self._changed:
            found = [one.facts(stays=eviction.stays(one, self._sets)) for one in self._live()]
        return sorted(found, key=lambda one: (one.id, one.purpose, one.speculation))

    def unload(self, name: str) -> int:
        """Give up a model's contexts, pinned or not; returns how many sets.

        Returns at once: running answers end first, idle ones are freed in the background. Raises
        the catalogue's errors for a name that is neither loaded nor here.
        """
        with self._changed:
            known = [one for one in self._sets if one.name == name]
        try:
            identity = identity_of(self._finder.model(name))
        except GenieXError:
            if not known:
                raise
            identity = known[0].key.model
        with self._changed:
            found = [
                one
                for one in self._sets
                if one.joinable and (one.key.model == identity or one in known)
            ]
            for one in found:
                one.retiring = True
            self._changed.notify_all()
        return len(found)

    def close(self) -> None:
        """Cancel every answer and load, and free everything; a second call does nothing."""
        with self._changed:
            self._closed = True
            mine = [one for one in self._sets if one.state == "ready"]
            for one in mine:
                one.state = "closing"
            loaders = list(self._loaders)
            self._changed.notify_all()
        self._free(mine, "end")
        self._sweeper.join()
        for thread in loaders:
            thread.join(_FAREWELL)

    # -- requests come and go

    def _check_open(self) -> None:
        if self._closed:
            raise ServerBusyError("the server is ending", retry_after=_RETRY[0])

    def _join(self, wanted: Asked | Key) -> ContextSet | None:
        """Lease a set that fits, if there is one; with the lock held. Raises ServerBusyError."""
        for one in self._sets:
            if one.joinable and (wanted in one.asked or wanted == one.key):
                waiting = one.leases - one.slots
                if waiting >= self._options.max_queue:
                    raise ServerBusyError(
                        f"`{one.name}` answers {one.slots} requests and {waiting} more are waiting",
                        retry_after=self._patience(waiting + 1),
                    )
                one.leases += 1
                return one
        return None

    def _patience(self, waiting: int) -> float:
        """Seconds until so many requests that wait have had their turn."""
        least, most = _RETRY
        return min(max(least, self._typical * waiting / self._options.slots), most)

    def _begin(self, reading: Reading) -> tuple[ContextSet, Told]:
        """Settle what is to be loaded, and start the load unless it has been meanwhile."""
        case, pinned = self._settle(reading), self._is_pinned(reading)
        for note in case.plan.notes:
            log.warning("%s: %s", reading.resolved.name, note)
        with self._changed:
            self._check_open()
            if found := self._join(reading.asked) or self._join(case.key):
                found.remember(reading.asked, case.told)
                return found, case.told
            victims = self._make_room(case)
            new = ContextSet(
                key=case.key,
                name=reading.resolved.name,
                plan=case.plan,
                footprint=case.footprint,
                slots=case.slots,
                pinned=pinned,
                keep_alive=self._keep_alive(UNSET),
                told=case.told,
                asked={reading.asked: case.told},
                leases=1,
            )
            # with the context of the request that asked for it: its log lines are known by it
            run = contextvars.copy_context().run
            thread = threading.Thread(
                target=run, args=(self._load, new, case, victims), name="geniex-load", daemon=True
            )
            thread.start()
            self._sets.append(new)
            self._loaders.add(thread)
        return new, case.told

    def _wait(
        self, contexts: ContextSet, reading: Reading, told: Told, gone: threading.Event | None
    ) -> Lease:
        """Wait for a load. Gives the lease up where it fails or nobody wants it any more."""

        def left() -> bool:
            return gone is not None and gone.is_set()

        with self._changed:
            while contexts.state == "loading" and not self._closed and not left():
                self._changed.wait(None if gone is None else _LOOK)
            model = contexts.model
            if contexts.state == "ready" and model is not None and not left():
                mine = told_as(named_as(reading.resolved, model), contexts.told, told)
                return Lease(contexts, mine, self._give_back)
            contexts.leases -= 1
            contexts.idle_since = time.monotonic()
            self._changed.notify_all()
            if left():
                raise LoadCancelledError(f"nobody waits for `{contexts.name}` any more")
            if contexts.error is None:
                self._check_open()
        raise contexts.error or LoadError(f"`{contexts.name}` was given up")

    def _give_back(self, contexts: ContextSet, keep_alive: KeepAlive, took: float) -> None:
        with self._changed:
            contexts.leases -= 1
            contexts.idle_since = time.monotonic()
            contexts.keep_alive = self._keep_alive(keep_alive)
            self._typical += (took - self._typical) / 8
            self._changed.notify_all()

    def _keep_alive(self, asked: KeepAlive) -> float | None:
        seconds = self._options.keep_alive if isinstance(asked, Unset) else asked
        # what is no time span (negative, endless, not a number) is for ever
        return seconds if seconds is not None and 0 <= seconds < math.inf else None

    def _is_pinned(self, reading: Reading) -> bool:
        for name in self._options.pinned:
            try:
                if identity_of(self._finder.model(name)) == reading.asked.model:
                    return True
            except GenieXError as exc:
                log.warning("pinned model `%s` is not here: %s", name, exc.message)
        return False

    # -- memory

    def _settle(self, reading: Reading) -> Case:
        """Plan as if all idle models were gone; without the lock, as it looks at the machine."""
        machine = look_at_hardware(reading.settings)
        with self._changed:
            live = self._live()
            staying = [one.footprint for one in live if not eviction.may_go(one, live)]
            idle = [one.footprint for one in live if eviction.may_go(one, live)]
            # a model that is not the file of that name any more goes when it is idle
            for one in self._sets:
                if one.name == reading.resolved.name and one.key.model != reading.asked.model:
                    one.retiring = True
            self._changed.notify_all()
        room = Room(machine, self._budget, staying, idle)
        return settle(reading, room, self._options.slots, self._finder)

    def _make_room(self, case: Case) -> list[ContextSet]:
        """Mark idle sets as closing until the case fits; with the lock held. Raises as `refuse`."""
        live = self._live()
        place = case.footprint.place
        held = memory.used((one.footprint for one in live), place)
        budget = self._budget.bytes(place, case.machine, held)
        victims = eviction.choose(case, live, budget)
        if budget is not None and eviction.needed(case, live, victims) > budget:
            eviction.refuse(
                case,
                [one for one in live if one not in victims],
                budget,
                limited=self._options.memory_budget is not None,
                patience=self._patience(1),
            )
        for one in victims:
            one.state = "closing"
        return victims

    def _live(self) -> list[ContextSet]:
        """The sets that hold memory for longer than a moment; with the lock held."""
        return [one for one in self._sets if one.state in ("loading", "ready")]

    # -- loads and their end

    def _load(self, new: ContextSet, case: Case, victims: Sequence[ContextSet]) -> None:
        """A load's thread: make room, load, tell who waits."""
        started = time.monotonic()
        sharing = [one for one in victims if one.footprint.weights.keys() & new.footprint.weights]
        try:
            self._free([one for one in victims if one not in sharing], "memory")
            # the weights stay for the new contexts; the old contexts go first
            for one in sharing:
                if one.model is not None:
                    one.model.loaded.free_contexts()
            self._await_freed()
            model = self._open_while_wanted(new, case)
            if model is not None:
                self._arrived(new, model)
        except Exception as exc:
            log.exception("loading `%s` failed unexpectedly", new.name)
            self._failed(new, LoadError(f"`{new.name}` could not be loaded: {type(exc).__name__}"))
        finally:
            self._free(sharing, "memory")
            self.events.loaded(new.name, time.monotonic() - started, result_of(new))
            with self._changed:
                self._loaders.discard(threading.current_thread())

    def _open_while_wanted(self, new: ContextSet, case: Case) -> OpenModel | None:
        """The loaded model; None where that failed, which is noted."""

        def progress(_: float) -> bool:
            new.given_up = new.leases == 0 or self._closed
            return not new.given_up

        while True:
            try:
                return open_case(self._open, case, progress)
            except GenieXError as exc:
                with self._changed:
                    # somebody came after the last one had left: it is wanted again
                    if new.given_up and new.leases and not self._closed:
                        new.given_up = False
                        continue
                    self._failed(new, exc)
                return None

    def _arrived(self, new: ContextSet, model: OpenModel) -> None:
        with self._changed:
            new.ready(model)
            if self._closed:
                new.state = "closing"
            self._changed.notify_all()
        if new.state == "closing":
            self._free([new], "end")

    def _failed(self, new: ContextSet, error: GenieXError) -> None:
        with self._changed:
            new.error, new.state = error, "failed"
            self._sets.remove(new)
            self._changed.notify_all()

    def _await_freed(self) -> None:
        """Wait until what is being freed just now is freed: its memory is counted as free."""
        with self._changed:
            freeing = list(self._freeing)
            self._changed.wait_for(lambda: not any(one in self._freeing for one in freeing))

    def _free(self, sets: Sequence[ContextSet], reason: Reason | None = None) -> None:
        """Close sets that are marked as closing, and forget them; without a reason, idle ones."""
        with self._changed:
            self._freeing += sets
        for one in sets:
            try:
                if one.model is not None:
                    one.model.close()
            except Exception:
                log.exception("`%s` did not close well", one.name)
            why = reason or ("unload" if one.retiring else "idle")
            log.info("`%s` was given up: %s", one.name, why)
            self.events.freed(one.name, why)
            with self._changed:
                self._freeing.remove(one)
                self._sets.remove(one)
                self._changed.notify_all()

    def _sweep(self) -> None:
        """The sweeper's thread: frees what has been idle for as long as it may."""
        while True:
            with self._changed:
                while not self._closed and not (due := self._due()):
                    self._changed.wait(self._next())
                if self._closed:
                    return
            self._free(due)

    def _due(self) -> list[ContextSet]:
        """Mark the sets whose time is over; with the lock held."""
        now = time.monotonic()
        due = []
        for one in self._sets:
            at = one.expires_at
            if at is not None and at <= now and (one.retiring or eviction.may_go(one, self._sets)):
                one.state = "closing"
                due.append(one)
        return due

    def _next(self) -> float | None:
        """Seconds until the next set's time may be over; None while there is none."""
        ends = [
            at
            for one in self._sets
            if (at := one.expires_at) is not None
            and (one.retiring or eviction.may_go(one, self._sets))
        ]
        if not ends:
            return None
        # no lock can be waited for as long as a client may say
        return min(max(0.0, min(ends) - time.monotonic()), _LONGEST_SLEEP)
