"""From a wish that was read to what is to be loaded, and how much memory that takes."""

from dataclasses import dataclass, replace

from geniex.server.contextset import Key, Told
from geniex.server.finder import Finder, identity_of
from geniex.server.footprint import Footprint, fitted, footprint
from geniex.server.reading import Reading
from geniex.server.room import Room
from geniex.session import decide_speculation, plan_on, wish_of
from geniex.speculation import RUNTIME, SIMPLE, Speculation
from geniex_catalogue.errors import DraftNotFoundError, GGUFError
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.contract import (
    HardwareProfile,
)
from geniex_runtimes.errors import SpeculativeError
from geniex_runtimes.planning import (
    Plan,
)


@dataclass(frozen=True, slots=True)
class Case:
    """Everything that is settled before a load begins."""

    reading: Reading
    machine: HardwareProfile
    plan: Plan
    speculation: Speculation
    footprint: Footprint
    slots: int

    @property
    def told(self) -> Told:
        """What who asked for this is told."""
        return Told(self.plan.notes, self.speculation)

    @property
    def key(self) -> Key:
        """What contexts of this kind are told by."""
        return Key(
            model=identity_of(self.reading.resolved),
            draft=identity_of(self.speculation.draft),
            runtime=self.plan.runtime,
            compute=self.plan.compute,
            devices=self.plan.devices,
            gpu_layers=self.plan.gpu_layers,
            context_length=self.plan.context_length,
            speculation=self.speculation.options,
            purpose=self.reading.purpose,
            kv_type=self.plan.kv_type,
        )


def settle(reading: Reading, room: Room, slots: int, finder: Finder) -> Case:
    """Choose runtime, devices, context and speculation for a wish.

    Raises NoRuntimeError, UsageError, BundleError, DraftNotFoundError, and SpeculativeError for a
    draft that does not fit the model.
    """
    resolved, settings = reading.resolved, reading.settings
    wish = wish_of(settings)
    if reading.purpose == "embedding":
        wish = replace(wish, embedding=True, kv_type=None)  # it keeps nothing from text to text
    plan = plan_on(room.cleared(), resolved, wish)
    speculation = _speculation(reading, plan, finder)
    draft, devices = speculation.draft, room.machine.devices
    slots = min(slots, plan.slots or slots)
    if settings.nctx is None and plan.slots is None:
        place = footprint(resolved, plan, slots, devices=devices).place
        plan = fitted(resolved, plan, slots, room.at(place), room.weights, draft, devices)
    size = footprint(resolved, plan, slots, draft, devices)
    return Case(reading, room.machine, plan, speculation, size, slots)


def _speculation(reading: Reading, plan: Plan, finder: Finder) -> Speculation:
    def find(name: str, *, offered: bool) -> ResolvedModel | None:
        if reading.draft is not None and name == reading.speculation.draft:
            return reading.draft
        try:
            return finder.draft(name)
        except DraftNotFoundError:
            if offered:
                return None
            raise

    made = decide_speculation(reading.speculation, reading.resolved, plan, reading.settings, find)
    if reading.draft is not None and plan.runtime == RUNTIME:
        _check_pair(reading, made)
    return made


def _check_pair(reading: Reading, made: Speculation) -> None:
    """Raise SpeculativeError where the draft that was named does not fit the model."""
    # imported here: other runtimes have no use for it
    from geniex_runtimes.llama_cpp.speculative import pair

    model, draft = reading.resolved, reading.draft
    if model.header is None or draft is None:
        return
    check = pair.check_simple if SIMPLE in made.options.types else pair.check
    try:
        check(model.header, model.path, draft.header, draft.path)
    except (SpeculativeError, GGUFError) as exc:
        raise SpeculativeError(
            f"draft model `{draft.name}` does not fit `{model.name}`: {exc.message}", hint=exc.hint
        ) from exc
