"""The tokens of the texts that were asked for lately, in so many bytes at the most."""

import sys
import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence

# bytes: some chats that fill a long context; a number of texts alone would bound nothing
MOST = 8 << 20
# bytes of an entry beside its text and its tokens: a key, a place in a table, two heads
_OVERHEAD = 300


class Remembered:
    """Finds the tokens of a text, or remembers them. Usable from any thread."""

    def __init__(self, most: int = MOST) -> None:
        """At most `most` bytes of texts and tokens; what was used least recently goes first."""
        self.size = 0
        self._most = most
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, bool], array[int]] = OrderedDict()

    def tokens(
        self, text: str, special: bool, find: Callable[[str, bool], Sequence[int]]
    ) -> Sequence[int]:
        """What `find` gives for these two, asked only where that is not known."""
        key = (text, special)
        with self._lock:
            if (known := self._known.get(key)) is not None:
                self._known.move_to_end(key)
                return known.tolist()
        found = find(text, special)
        with self._lock:
            if key not in self._known:
                self._known[key] = array("i", found)
                self.size += _bytes(text, found)
            while self.size > self._most:
                (oldest, _), tokens = self._known.popitem(last=False)
                self.size -= _bytes(oldest, tokens)
        return found


def _bytes(text: str, tokens: Sequence[int]) -> int:
    return sys.getsizeof(text) + 4 * len(tokens) + _OVERHEAD
