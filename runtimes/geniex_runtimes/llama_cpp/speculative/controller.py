"""How many tokens to draft at each step, so that speculation never makes an answer slower.

A step with a draft of n tokens emits 1 + a1 + a1*a2 + ... tokens, where ai is the chance that the
i-th draft token is accepted once those before it are (Leviathan et al., "Fast Inference from
Transformers via Speculative Decoding", ICML 2023, equation 1, with a chance per position). It costs
a draft and a target decode of n + 1 rows. The n with the most tokens per second wins, 0 included.

What is not tried is not learnt, so now and then another length is tried, as far as a budget allows:
of the tokens a slot emits, at most a fortieth may be lost to trying, and less where a step is so
quick that following it for a draft shows. What a trial took is charged as it was measured, with
what llama.cpp needs to build its graph anew. A trial that succeeds is followed by a few more before
it is believed; where nothing could pay even if all were accepted, there are next to no trials. So a
text that has turned predictable is noticed within 32 steps wherever the first draft token costs at
most half a plain step, and later where it costs more. Where plain decoding seems the faster from
the start, the first steps of the first answer are tried all the same, and the first step of the
next few: what was measured is not believed unseen, and answers can tell what drafting would have
been like. Later answers begin with a trial as long as no earlier one is still to be paid off.

With several slots in a batch, a slot's choice is judged by the tokens per second of the whole
batch, the other slots' rows being what they were at its last step.
"""

from dataclasses import dataclass, field

from geniex_runtimes.contract import SpecState
from geniex_runtimes.llama_cpp.speculative.acceptance import Rate
from geniex_runtimes.llama_cpp.speculative.costs import MOST_ROWS, Costs

# what is believed of a draft that nobody has tried yet
_HOPE = 0.8
_HOPE_WEIGHT = 2
# a new slot believes the engine's average as if from so many observations of its own
_PRIOR_WEIGHT = 4
_AVERAGED = 64
# another length must be better by this much: no flapping between equals
_MARGIN = 1.01
# share of the emitted tokens that may be lost to trials, and how much may be saved up or owed
_BUDGET, _LEAST_BUDGET = 0.024, 0.005
# seconds a step that following the target takes even while nothing is drafted
_FOLLOWING = 6e-6
# a step so quick that even this shows: the drafter had better not follow while it rests
QUICK_STEP = 1e-3
_MOST_CREDIT, _MOST_DEBT = 2.0, 4.0
# trials at the start of the first answer until one is accepted, and of later ones
_OPENING, _LATER_OPENING = 4, 1
# answers that begin with a trial whatever it costs
_OPENED = 8
# steps between trials: at least, while off; from and to, doubling, while on
_OFF_GAP = 16
# steps between looks while a trial is due and not yet affordable: fewest and most
_NAP, _LONGEST_NAP = 4, 256
_ON_GAP, _LONGEST_ON_GAP = 16, 64
# a plain step so much faster than expected is a surprise
_SURPRISE = 0.15
# where no acceptance could pay, a trial only tells whether the measured costs were right
_HOPELESS_GAP = 1024
_LENGTH_WEIGHT = 1 / 16
_YIELD_WEIGHT = 1 / 64
# what a step takes beyond this many times the expected is the machine's hiccup, not the trial's
_HICCUP = 3.0
_SWITCH_WEIGHT = 1 / 8


@dataclass(slots=True)
class _Slot:
    """What a slot's task may do, what was learnt in it, and where its trials stand."""

    most: int
    least: int
    adapt: bool
    opening: int  # trials that are left at the start of this answer
    rates: list[Rate]
    lengths: list[float]  # chance that a draft, asked for, gets to each position
    credit: float = 0.0
    steps: int = 0
    others: int = 0  # rows of the other slots in the batch
    others_draft: float = 0.0  # seconds of drafting for them
    best: int = -1
    asked: int = 0
    trial: bool = False
    tried: bool = False  # the step before was a trial
    waited: int = 0
    gap: int = _ON_GAP
    up: bool = False
    drafted: bool = False
    times: list[float] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)


class Controller:
    """Chooses draft lengths for the slots of one engine. Belongs to the engine's thread."""

    def __init__(self, costs: Costs, n_max: int, *, adapt: bool = True) -> None:
        """`n_max` is the most draft tokens a step; without `adapt` that is always the choice."""
        self._costs = costs
        self._n_max = n_max
        self._adapt = adapt
        self._slots: dict[int, _Slot] = {}
        self._average = [_HOPE] * n_max
        self._averaged = [_HOPE_WEIGHT] * n_max
        self._yield = 1.0  # emitted tokens per row
        self._last_step = (0.0, 0)
        self._off = 0.0  # how far it was from what was expected
        self._switch = 0.0  # seconds that a step takes more for having other rows than the last
        self._opening = _OPENING
        self._answers = 0
        self._plain = costs.plain
        self._budget = max(_LEAST_BUDGET, _BUDGET - _FOLLOWING / self._plain)

    @property
    def quick(self) -> bool:
        """Whether plain steps are so quick that a resting drafter had better not follow them."""
        return self._adapt and self._plain < QUICK_STEP

    def begin(
        self, slot: int, *, most: int | None = None, least: int = 0, adapt: bool | None = None
    ) -> None:
        """A task starts on a slot; it may draft up to `most` tokens, and no fewer than `least`."""
        most = self._n_max if most is None else min(most, self._n_max)
        before = self._slots.get(slot)
        credit = before.credit if before is not None else 0.0
        self._answers += 1
        later = _LATER_OPENING if self._answers <= _OPENED or credit >= 0 else 0
        self._slots[slot] = _Slot(
            most=most,
            least=max(1, least),
            adapt=self._adapt if adapt is None else adapt,
            opening=self._opening or later,
            rates=[
                # a change shows in the first position first, which is seen at every draft
                Rate(average, _PRIOR_WEIGHT, alert=position == 0)
                for position, average in enumerate(self._average[:most])
            ],
            lengths=[1.0] * most,
            credit=credit,
        )

    def choose(self, slot: int) -> int:
        """How many draft tokens to ask for at this slot's next step."""
        one = self._slots[slot]
        one.trial = False
        if not one.adapt:
            one.asked = one.most
            return one.most
        self._weigh(one)
        one.waited += 1
        other = self._trial(one)
        one.trial = other is not None
        one.asked = one.best if other is None else other
        return one.asked

    def rest(self, slot: int) -> int:
        """How many of the next steps need neither `choose` nor `record`: they are plain anyway.

        To be asked when a task begins and after a step is recorded; those steps count as done.
        Where speculation is off, even the few microseconds of choosing would show on a small model.
        """
        one = self._slots[slot]
        if not one.adapt:
            return 0
        if one.trial or not one.times:
            self._weigh(one)  # what the trial has shown counts already
        if one.best or one.opening:
            return 0
        other = self._worth_trying(one)
        if other and one.rates[0].rising:
            return 0  # the next trial follows at once
        if one.trial:
            # nobody will look at the step after it, which has other rows again
            one.credit -= self._switch * one.tokens[0] / one.times[0]
        if other == 0:
            wait = _HOPELESS_GAP - one.waited
        else:
            lacking = self._loss(one, other) - one.credit
            wait = max(_OFF_GAP - one.waited, int(lacking / self._budget))
        steps = min(max(wait, _NAP), _LONGEST_NAP) - 1
        one.waited += steps
        one.steps += steps
        one.credit = min(_MOST_CREDIT, one.credit + self._budget * steps)
        return steps

    def leave(self, slot: int, resting: int) -> None:
        """A slot's task has ended, with so many steps of its rest not done."""
        self._slots[slot].credit -= self._budget * resting

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
        """A slot's step is done: of `proposed` draft tokens `accepted` were taken.

        `step_seconds` is all of the batch's step but the drafting, `rows` are those of the whole
        batch (0: this slot was alone), `draft_seconds` all its drafting. Called once a slot. A step
        that is not `steady`, as it had other rows than the one before, tells nothing about costs:
        llama.cpp builds its graph anew for it.
        """
        one = self._slots[slot]
        if not one.adapt:
            return
        one.steps += 1
        rows = rows or 1 + proposed
        drafting = draft_seconds * (1 + proposed) / rows
        if steady and (rows == 1 + proposed or (step_seconds, rows) != self._last_step):
            # once a step: all slots of a batch report the same one
            self._last_step = (step_seconds, rows)
            self._off = self._costs.saw_target(rows, step_seconds)
        if one.asked and one.drafted:
            # the first draft after a pause may have to catch up: not what a draft costs
            self._costs.saw_draft(one.asked, drafting)
        one.drafted = one.asked > 0
        if rows <= MOST_ROWS:
            one.others = rows - 1 - proposed
            one.others_draft = draft_seconds - drafting
        self._learn(one, proposed, accepted)
        one.credit += self._budget * (1 + accepted)
        if not steady and rows <= MOST_ROWS and one.times:
            self._charge_switch(one, rows, step_seconds)
        if one.trial:
            self._settle_trial(one, proposed, accepted, drafting)
        one.tried = one.trial
        one.credit = min(_MOST_CREDIT, max(-_MOST_DEBT, one.credit))

    def state(self, slot: int) -> tuple[SpecState, str]:
        """Whether a slot speculates, and why not fully: both speeds, in its tokens per second."""
        one = self._slots[slot]
        if not one.adapt:
            return "on", ""
        if not one.times:
            self._weigh(one)
        if one.best == one.most:
            return "on", ""
        others = one.tokens[0] - 1
        speeds = [(t - others) / s for t, s in zip(one.tokens, one.times, strict=True)]
        if one.best:
            return "reduced", (
                f"{one.best} instead of {one.most} draft tokens are faster here: "
                f"{_text(speeds[one.best])} against {_text(speeds[one.most])} tokens per second"
            )
        drafting = max(speeds[one.least :], default=0.0)
        better = "faster" if drafting < speeds[0] else "about as fast"
        return "off", (
            f"plain decoding is {better} here: {_text(speeds[0])} against {_text(drafting)} "
            "tokens per second"
        )

    def _weigh(self, one: _Slot) -> None:
        """Work out tokens and seconds of a step for each length, and which length is best."""
        decodes = self._costs.targets(one.others + 1, one.most)
        drafts = self._costs.drafts(one.most)
        seconds = decodes[0] + one.others_draft
        tokens = 1 + one.others * self._yield
        alive = 1.0
        one.times, one.tokens = [seconds], [tokens]
        best, best_speed = 0, tokens / seconds
        kept_speed = best_speed if one.best == 0 else 0.0
        for n, (rate, length) in enumerate(zip(one.rates, one.lengths, strict=True), 1):
            seconds += length * (decodes[n] - decodes[n - 1])
            alive *= rate.mean
            tokens += length * alive
            total = seconds + drafts[n]
            one.times.append(total)
            one.tokens.append(tokens)
            speed = tokens / total
            if n == one.best:
                kept_speed = speed
            if speed > best_speed and n >= one.least:
                best, best_speed = n, speed
        if best != one.best and best_speed > kept_speed * _MARGIN:
            one.best = best
            one.gap = _ON_GAP

    def _trial(self, one: _Slot) -> int | None:
        """Another length to try at this step, if one is due and affordable."""
        if not one.best and one.opening and one.least <= one.most:
            return one.least
        if one.best:
            if one.waited < one.gap:
                return None
            # plain decoding must be known to be slower, and the next length to be no better
            other = one.best + 1 if one.up and one.best < one.most else 0
            return other if self._loss(one, other) <= one.credit else None
        # after a success more trials follow at once, until it was a change or was luck
        keen = one.most > 0 and one.rates[0].rising
        if not one.most or (one.waited < _OFF_GAP and not keen):
            return None
        other = self._worth_trying(one)
        if other == 0:
            return one.least if one.waited >= _HOPELESS_GAP and one.least <= one.most else None
        return other if keen or self._loss(one, other) <= one.credit else None

    def _worth_trying(self, one: _Slot) -> int:
        """The shortest draft that would pay if all of it were accepted; 0: none would."""
        decodes = self._costs.targets(one.others + 1, one.most)
        drafts = self._costs.drafts(one.most)
        plain = one.tokens[0] / one.times[0] * _MARGIN
        for n in range(one.least, one.most + 1):
            seconds = decodes[n] + drafts[n] + one.others_draft
            if (one.tokens[0] + n) / seconds > plain:
                return n
        return 0

    def _loss(self, one: _Slot, n: int) -> float:
        """Tokens that a step of length n is expected to cost against the best length."""
        speed = one.tokens[one.best] / one.times[one.best]
        return (one.times[n] + 2 * self._switch) * speed - one.tokens[n]

    def _charge_switch(self, one: _Slot, rows: int, step_seconds: float) -> None:
        """Charge what a step took more since the one before had other rows, if that was a trial."""
        expected = self._costs.targets(rows, 0)[0]
        extra = min(max(step_seconds - expected, 0.0), expected * (_HICCUP - 1))
        self._switch += _SWITCH_WEIGHT * (extra - self._switch)
        if one.trial or one.tried:
            one.credit -= extra * one.tokens[one.best] / one.times[one.best]

    def _learn(self, one: _Slot, proposed: int, accepted: int) -> None:
        self._yield += _YIELD_WEIGHT * ((1 + accepted) / (1 + proposed) - self._yield)
        for position in range(one.asked):
            got_there = position < proposed
            one.lengths[position] += _LENGTH_WEIGHT * (got_there - one.lengths[position])
        tried = min(proposed, accepted + 1)
        for position in range(tried):
            happened = position < accepted
            rose = one.rates[position].see(happened, one.steps)
            weight = self._averaged[position] = min(_AVERAGED, self._averaged[position] + 1)
            self._average[position] += (happened - self._average[position]) / weight
            if rose and position == 0:
                # better text: what was known of the later positions is out of date
                for rate in one.rates[1:]:
                    rate.restart(max(rate.mean, one.rates[0].mean), _PRIOR_WEIGHT)

    def _settle_trial(self, one: _Slot, proposed: int, accepted: int, drafting: float) -> None:
        """Charge a trial with what it cost, and decide when the next is due."""
        speed = one.tokens[one.best] / one.times[one.best]
        decoding = self._costs.targets(one.others + 1 + proposed, 0)[0]
        one.credit -= (decoding + drafting + one.others_draft) * speed - (one.tokens[0] + accepted)
        if not one.best and one.opening:
            one.opening = 0 if accepted else one.opening - 1
            self._opening = min(self._opening, one.opening)
        if one.asked and not proposed:
            return  # nothing was tried: try again at the next step
        one.waited = 0
        if one.best:
            one.up = not one.up
            # plain decoding much faster than was believed: look again soon
            faster = not one.asked and self._off < -_SURPRISE
            one.gap = _ON_GAP if faster else min(_LONGEST_ON_GAP, 2 * one.gap)


def _text(speed: float) -> str:
    return f"{speed:.0f}" if speed >= 10 else f"{speed:.1f}"
