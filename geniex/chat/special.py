"""Special tokens that somebody typed stay text: they are hidden from the template, then marked.

A control token's text inside a message (`<|im_end|>`) must not end the turn. Before rendering,
each occurrence is replaced by one private-use character that occurs nowhere else, so the template
can still trim, split, slice or join the text. After rendering the prompt is cut: a stretch between
two of the template's own control tokens that holds such a character becomes a literal piece, with
the typed text back in place. Cutting only where the tokenizer cuts anyway keeps all other tokens
as they would be.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

from geniex_catalogue.errors import TemplateError
from geniex_runtimes.contract import PromptPiece

_PRIVATE_RANGES = ((0xF0000, 0xFFFFE), (0x100000, 0x10FFFE), (0xE000, 0xF900))
_PRIVATE = re.compile("[\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd]")


class ControlTokens:
    """The control-token texts of a vocabulary, made quick to find in text."""

    def __init__(self, texts: frozenset[str]) -> None:
        self._texts = texts
        self._lengths: dict[str, list[int]] = {}
        for text in filter(None, texts):
            lengths = self._lengths.setdefault(text[0], [])
            if len(text) not in lengths:
                lengths.append(len(text))
        for lengths in self._lengths.values():
            lengths.sort(reverse=True)
        firsts = "".join(re.escape(first) for first in self._lengths)
        # a pattern that never matches when there are no tokens at all
        self._first = re.compile(f"[{firsts}]" if firsts else r"(?!)")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Spans of the tokens in a text, from left to right, the longest at each place."""
        at = 0
        while match := self._first.search(text, at):
            start = match.start()
            at = start + 1
            for length in self._lengths[match[0]]:
                if text[start : start + length] in self._texts:
                    at = start + length
                    yield start, at
                    break


class Guard:
    """Hides typed control tokens in the values of one rendering, and cuts its result.

    `values` is everything that the template will see besides its own text `source`.
    """

    def __init__(self, tokens: ControlTokens, source: str, values: object) -> None:
        self._tokens = tokens
        taken = set(_PRIVATE.findall(source))
        for text in _strings(values):
            taken.update(_PRIVATE.findall(text))
        spare = chain.from_iterable(range(*limits) for limits in _PRIVATE_RANGES)
        self._spare = (chr(code) for code in spare if chr(code) not in taken)
        self._stand_ins: dict[str, str] = {}

    @property
    def hidden(self) -> Mapping[str, str]:
        """Each private character in use, and the token text that it stands for."""
        return {stand_in: text for text, stand_in in self._stand_ins.items()}

    def cover(self, value: object, *, exempt: frozenset[str] = frozenset()) -> object:
        """The same JSON-like value with all control tokens but the `exempt` ones hidden.

        Half surrogate pairs, which no tokenizer takes, become U+FFFD.
        """
        return _mapped(value, lambda text: self.cover_text(text, exempt))

    def cover_text(self, text: str, exempt: frozenset[str] = frozenset()) -> str:
        """`cover` for one text."""
        text = _whole(text)
        out: list[str] = []
        at = 0
        for begin, end in self._tokens.find(text):
            token = text[begin:end]
            out += [text[at:begin], token if token in exempt else self._stand_in(token)]
            at = end
        return "".join(out) + text[at:] if out else text

    def restore(self, text: str) -> str:
        """A text with the typed tokens back in place."""
        return text.translate({ord(char): token for char, token in self.hidden.items()})

    def cut(self, rendered: str) -> tuple[PromptPiece, ...]:
        """The prompt in pieces; those that hold typed control tokens are literal."""
        table = {ord(char): token for char, token in self.hidden.items()}
        pieces: list[PromptPiece] = []
        plain: list[str] = []
        start = 0
        for begin, end in chain(self._tokens.find(rendered), [(len(rendered), len(rendered))]):
            stretch = rendered[start:begin]
            restored = stretch.translate(table)
            if restored == stretch:
                plain.append(stretch)
            else:
                pieces += [PromptPiece("".join(plain)), PromptPiece(restored, literal=True)]
                plain = []
            plain.append(rendered[begin:end])
            start = end
        pieces.append(PromptPiece("".join(plain)))
        return tuple(piece for piece in pieces if piece.text)

    def _stand_in(self, token: str) -> str:
        if token not in self._stand_ins:
            char = next(self._spare, None)
            if char is None:
                raise TemplateError("the messages use every private character of Unicode")
            self._stand_ins[token] = char
        return self._stand_ins[token]


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _strings(item)


def _mapped(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {_mapped(key, change): _mapped(item, change) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_mapped(item, change) for item in value]
    return value


def _whole(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
