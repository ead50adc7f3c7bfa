"""Which tokens' log probabilities belong to which run of an answer's text."""

import codecs
from bisect import bisect_right
from collections.abc import Iterable
from operator import itemgetter

from geniex_runtimes.contract import TokenLogprob


class Ledger:
    """Keeps entries until the text that their tokens end in is given out.

    A token that is part of a character belongs to where the character ends. Tokens of text that is
    given out nowhere, such as marks of the chat format, are left out.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._characters = 0
        # (where the token's text ends, its entry), in characters of the answer
        self._entries: list[tuple[int, TokenLogprob]] = []

    def add(self, entries: Iterable[TokenLogprob]) -> None:
        """Note the next tokens."""
        for entry in entries:
            self._characters += len(self._decoder.decode(entry.data))
            within = bool(self._decoder.getstate()[0])
            self._entries.append((self._characters + within, entry))

    def take(self, begin: int, end: int) -> tuple[TokenLogprob, ...]:
        """The entries of the text between two places, each once."""
        first, last = (bisect_right(self._entries, at, key=itemgetter(0)) for at in (begin, end))
        taken = tuple(entry for _, entry in self._entries[first:last])
        del self._entries[first:last]
        return taken
