"""How many tokens to copy at a step, for drafts that cost nothing to propose.

An n-gram drafter proposes rarely, and then either much is right or nothing: a passage is being
quoted, or a phrase happened to come again. So what is learnt is not how often each place of a draft
is right, but how often a copied token is followed by another that is right, `p`: a draft of n
tokens then has p + p^2 + ... + p^n of them right (Leviathan et al., ICML 2023, equation 1). It
costs what a decode of n more rows costs. The n that gains most is chosen, which grows by itself as
a copy goes on and shrinks where one breaks off.

An account holds that against the text that only seems to repeat: each emitted token earns a
fiftieth of a plain step, every draft is booked with what it gained or lost, and none is made that
the account could not bear if all of it were wrong. So nothing is lost beyond a fiftieth and what
was earned before.

With several slots in a batch, a token is worth what tokens of that batch cost without the draft.
"""

from dataclasses import dataclass

from geniex_runtimes.contract import SpecState
from geniex_runtimes.llama_cpp.speculative.controller import QUICK_STEP
from geniex_runtimes.llama_cpp.speculative.costs import MOST_ROWS, Costs

# right and wrong copied tokens that are believed in before any was seen, and how many count
_RIGHT, _WRONG = 14.0, 1.0
_MEMORY = 96.0
# wrong ones that are always believed in: every copy ends
_DOUBT = 0.5
# in plain steps: what a token earns, what an engine and a later answer begin with, and the most
_EARNED = 0.02
_FIRST_CREDIT, _LATER_CREDIT, _MOST_CREDIT = 4.25, 2.25, 12.0
# what a draft is tried with where none seems to pay
_TRIAL = 2
# steps without a look where they are so quick that looking shows
_NAP = 3


@dataclass(slots=True)
class _Slot:
    most: int
    least: int
    adapt: bool
    right: float
    wrong: float
    credit: float
    others: int = 0
    best: int = -1  # -1: not worked out
    asked: int = 0
    idle: bool = False  # nothing was proposed at the last step


class CopyController:
    """Chooses draft lengths for n-gram drafters. Belongs to the engine's thread.

    It has the methods of `Controller`, which is for drafts by a model.
    """

    def __init__(self, costs: Costs, n_max: int) -> None:
        """`n_max` is the most draft tokens a step."""
        self._costs = costs
        self._n_max = n_max
        self._slots: dict[int, _Slot] = {}
        self._right, self._wrong = _RIGHT, _WRONG
        self._credit = _FIRST_CREDIT

    @property
    def quick(self) -> bool:
        """Never: an n-gram drafter that rests has nothing to pause."""
        return False

    def begin(
        self, slot: int, *, most: int | None = None, least: int = 0, adapt: bool | None = None
    ) -> None:
        """See `Controller.begin`."""
        # what was seen before counts as much as what was believed then
        scale = (_RIGHT + _WRONG) / (self._right + self._wrong)
        self._slots[slot] = _Slot(
            most=self._n_max if most is None else min(most, self._n_max),
            least=max(1, least),
            adapt=adapt is not False,
            right=min(_RIGHT, self._right * scale),
            wrong=max(_WRONG, self._wrong * scale),
            credit=self._credit,
        )
        self._credit = min(self._credit, _LATER_CREDIT)

    def choose(self, slot: int) -> int:
        """How many draft tokens to ask for at this slot's next step."""
        one = self._slots[slot]
        if not one.adapt:
            one.asked = one.most
            return one.asked
        if one.best < 0:
            one.best = self._best(one)
        one.asked = self._bearable(one, one.best or max(_TRIAL, one.least))
        return one.asked

    def rest(self, slot: int) -> int:
        """See `Controller.rest`: only where looking for a copy would show."""
        one = self._slots[slot]
        napping = one.adapt and one.idle and self._costs.plain < QUICK_STEP
        return _NAP if napping else 0

    def leave(self, slot: int, resting: int) -> None:
        """See `Controller.leave`: a rest earns nothing here."""

    def record(
        self,
        slot: int,
        proposed: int,
        accepted: int,
        step_seconds: float,
        draft_seconds: float,
        rows: int = 0,
        *,
        steady: bool = True,
    ) -> None:
        """See `Controller.record`."""
        one = self._slots[slot]
        rows = rows or 1 + proposed
        if steady:
            self._costs.saw_target(rows, step_seconds)
        one.idle = proposed == 0
        one.credit = min(_MOST_CREDIT, one.credit + _EARNED * (1 + accepted))
        others = rows - 1 - proposed if rows <= MOST_ROWS else one.others
        if others != one.others:
            one.others, one.best = others, -1
        if not proposed:
            return
        self._learn(one, proposed, accepted)
        token, more = self._prices(one, proposed)
        gain = (accepted * token - more[proposed]) / self._costs.plain
        one.credit = min(_MOST_CREDIT, one.credit + gain)
        self._credit = min(_LATER_CREDIT, max(0.0, one.credit))

    def state(self, slot: int) -> tuple[SpecState, str]:
        """Whether a slot copies, and why not fully."""
        one = self._slots[slot]
        if not one.adapt or self._best(one):
            return "on", ""
        return "off", "what seemed to repeat went on differently too often to pay"

    def _learn(self, one: _Slot, proposed: int, accepted: int) -> None:
        right, wrong = float(accepted), float(accepted < proposed)
        fade = max(0.0, 1 - (right + wrong) / _MEMORY)
        one.right, one.wrong = one.right * fade + right, one.wrong * fade + wrong
        self._right, self._wrong = self._right * fade + right, self._wrong * fade + wrong
        one.best = -1

    def _prices(self, one: _Slot, most: int) -> tuple[float, list[float]]:
        """What a token is worth, and what drafts of 0 to `most` tokens cost, in seconds."""
        seconds = self._costs.targets(one.others + 1, most)
        return seconds[0] / (one.others + 1), [cost - seconds[0] for cost in seconds]

    def _best(self, one: _Slot) -> int:
        """The length that gains most; 0 where none gains."""
        token, more = self._prices(one, one.most)
        chance = one.right / (one.right + one.wrong + _DOUBT)
        alive, expected = 1.0, 0.0
        best, most_gained = 0, 0.0
        for length in range(1, one.most + 1):
            alive *= chance
            expected += alive
            gained = expected * token - more[length]
            if gained > most_gained and length >= one.least:
                best, most_gained = length, gained
        return best

    def _bearable(self, one: _Slot, length: int) -> int:
        """At most so many that the account could bear it if all of them were wrong."""
        length = min(length, one.most)
        _, more = self._prices(one, length)
        bearable = one.credit * self._costs.plain
        while length >= one.least and more[length] > bearable:
            length -= 1
        return length if length >= one.least else 0
