"""What a step costs on this machine, measured at load and kept true while running."""

from collections.abc import Sequence

# a batch with more rows carries a prompt: it says nothing about verification
MOST_ROWS = 128
# how far one step moves the machine's speed, and one length its share of it
_SPEED_WEIGHT = 1 / 8
_SHAPE_WEIGHT = 1 / 32
# a length that was long not seen moves faster, as the steps in between would have moved it
_SHAPE_MOST = 1 / 10
# what lies further off than this is a hiccup of the machine, or it will show again
_CLIP = 0.5


class Costs:
    """Seconds of a target decode by its rows, and of drafting by the tokens asked for.

    A step tells two things: how fast the machine is just now, which all lengths share, and how this
    length compares to the others. The first is followed quickly, so that the lengths not in use
    keep up when the machine slows down; the second slowly, because step times are noisy.
    """

    def __init__(self, rows: Sequence[float], draft: Sequence[float]) -> None:
        """`rows[i]` is a decode of i + 1 rows, `draft[i]` a draft of i + 1 tokens, in seconds."""
        self._rows = [0.0, *(max(seconds, 1e-9) for seconds in rows)]
        slope = max(0.0, (self._rows[-1] - self._rows[1]) / max(1, len(self._rows) - 2))
        while len(self._rows) <= MOST_ROWS:
            self._rows.append(self._rows[-1] + slope)
        self._draft = [0.0, *draft]
        self._speed = 1.0
        self._steps = 0
        self._seen = [0] * len(self._rows)

    @property
    def plain(self) -> float:
        """Seconds of a plain step."""
        return self._rows[1] * self._speed

    def gain(self, most: int) -> float:
        """The most that a draft of up to `most` tokens can gain: tokens per second to plain's.

        All of it accepted; below 1 where even that is slower.
        """
        return max(
            (
                (1 + n) * self._rows[1] / (self._rows[1 + n] + self._draft[n])
                for n in range(1, most + 1)
            ),
            default=0.0,
        )

    def targets(self, rows: int, most: int) -> list[float]:
        """Seconds of a target decode of `rows` rows, and of up to `most` more of them.

        More rows than `MOST_ROWS` are taken for so many.
        """
        first = min(rows, MOST_ROWS - most)
        speed = self._speed
        return [seconds * speed for seconds in self._rows[first : first + most + 1]]

    def drafts(self, most: int) -> list[float]:
        """Seconds of asking for a draft of 0 to `most` tokens."""
        speed = self._speed
        return [seconds * speed for seconds in self._draft[: most + 1]]

    def saw_target(self, rows: int, seconds: float) -> float:
        """A decode of so many rows took `seconds`; return by which share that is off (-0.5: half).

        0 for more rows than `MOST_ROWS`, which are not looked at.
        """
        self._steps += 1
        if not 0 < rows <= MOST_ROWS:
            return 0.0
        off = _off(seconds, self._rows[rows] * self._speed)
        gap = self._steps - self._seen[rows]
        self._seen[rows] = self._steps
        self._rows[rows] *= 1 + min(_SHAPE_MOST, gap * _SHAPE_WEIGHT) * off
        self._speed *= 1 + _SPEED_WEIGHT * off
        return off

    def saw_draft(self, tokens: int, seconds: float) -> None:
        """Asking for so many tokens took `seconds`."""
        expected = self._draft[tokens] * self._speed
        if expected <= 0:
            self._draft[tokens] = seconds / self._speed
        else:
            self._draft[tokens] *= 1 + _SPEED_WEIGHT * _off(seconds, expected)


def _off(seconds: float, expected: float) -> float:
    return min(_CLIP, max(-_CLIP, seconds / expected - 1))
