"""A Markov table as weights: each text token has one follower, found by its embedding.

A model whose blocks do nothing then walks one long cycle. Random blocks disturb it: the louder
they are, the more often the answer leaves the table, and the less often a draft that knows only the
table is right.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.toys.toyfile import Array, Dice
from tests.toys.vocabulary import Vocabulary


@dataclass(frozen=True)
class Table:
    """Each token's embedding, and the `cycle` of text tokens, each followed by the next."""

    embeddings: Array
    cycle: npt.NDArray[np.int64]

    def readout(self, sharpness: float) -> Array:
        """Rows that give the follower of the token at hand the highest logit."""
        return self._rows(self.embeddings, self.cycle, np.roll(self.cycle, -1), sharpness)

    def partial_readout(self, dimensions: int, sharpness: float, known: float) -> Array:
        """The same from the first `dimensions` of an embedding, right for a part of the cycle.

        Behind the part that is `known` it names each token's follower but one.
        """
        right = round(len(self.cycle) * known)
        followers = np.roll(self.cycle, -1)
        followers[right:] = np.roll(followers[right:], -1)
        return self._rows(self.embeddings[:, :dimensions], self.cycle, followers, sharpness)

    @staticmethod
    def _rows(
        embeddings: Array,
        tokens: npt.NDArray[np.int64],
        followers: npt.NDArray[np.int64],
        sharpness: float,
    ) -> Array:
        rows = np.zeros_like(embeddings)
        rows[followers] = embeddings[tokens] * sharpness
        return rows


def table(dice: Dice, words: Vocabulary, hidden: int, leading: int) -> Table:
    """A random table; the first `leading` dimensions tell most about a token."""
    embeddings = dice.normal(words.size, hidden)
    embeddings[:, leading:] *= 0.3
    cycle = words.first_text + dice.order(words.size - words.first_text)
    return Table(embeddings, cycle)
