"""How often something happens, from yes and no, in a world that may change at any step."""

# an average over about this many observations, as long as nothing has changed
_MEMORY = 32
# an average that was not fed for long is believed no more than one of so few
_FLOOR = 6
# Page's test: deviations beyond the slack add up, and at the alarm the average starts afresh.
# With these, a rate of one half raises a false alarm every few hundred observations, and a change
# from always to never is seen after three.
_SLACK = 0.25
_RISE_ALARM = 2.5
_FALL_ALARM = 3.0


class _Drift:
    """Deviations to one side since they last cancelled out, and what was observed meanwhile."""

    __slots__ = ("hits", "observed", "total")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.total = 0.0
        self.observed = 0
        self.hits = 0

    def add(self, deviation: float, happened: bool) -> float:
        total = self.total + deviation - _SLACK
        if total <= 0:
            self.clear()
            return 0.0
        self.total = total
        self.observed += 1
        self.hits += happened
        return total


class Rate:
    """A running average of yes and no with a test for sudden change (CUSUM, Page, 1954)."""

    __slots__ = ("_alert", "_fall", "_rise", "_seen", "_weight", "mean")

    def __init__(self, mean: float, weight: float, *, alert: bool = False) -> None:
        """`mean` is believed as if from `weight` observations; `alert` tests for changes."""
        self._alert = alert
        self._rise = _Drift()
        self._fall = _Drift()
        self._seen = 0
        self.restart(mean, weight)

    def restart(self, mean: float, weight: float) -> None:
        """Believe this from now on."""
        self.mean = mean
        self._weight = weight
        self._rise.clear()
        self._fall.clear()

    @property
    def rising(self) -> bool:
        """Whether what was seen lately leaves open if the average is still right, or too low."""
        return self._rise.total > 0

    def see(self, happened: bool, step: int) -> bool:
        """Take in what happened at a step; return whether the average jumped upwards."""
        off = happened - self.mean
        if self._alert:
            for drift, deviation, alarm in (
                (self._rise, off, _RISE_ALARM),
                (self._fall, -off, _FALL_ALARM),
            ):
                if drift.add(deviation, happened) > alarm:
                    # what was observed since the drift began; half a yes and a no against haste
                    rose = drift is self._rise
                    self.restart((drift.hits + 1) / (drift.observed + 2), drift.observed + 1)
                    return rose
        pause = step - self._seen - 1
        self._seen = step
        if pause > 0 and not self._alert:
            faded = self._weight / (1 + pause / _MEMORY)
            self._weight = max(min(self._weight, _FLOOR), faded)
        self._weight = min(self._weight + 1, _MEMORY)
        self.mean += off / self._weight
        return False
