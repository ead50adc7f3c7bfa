"""SentencePiece-like BPE, trained and run as llama.cpp runs the tokenizer `gemma4`.

Spaces become U+2581, text is split at newlines only, merges go by rank, and what has no token
becomes bytes.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from ci.tiny_pair.markup import BYTE, CONTROL, NORMAL, SPECIAL_ID, SPECIAL_TEXT, SPECIALS

SPACE = "\u2581"
# what no merge crosses, so that its tokens can be remembered
CHUNK = re.compile(f"{SPACE}*[^{SPACE}]+|{SPACE}+")
# what merges are learned within
WORD = re.compile(f"{SPACE}?[A-Za-z]+|{SPACE}+(?={SPACE})|[0-9]|{SPACE}|[^A-Za-z0-9{SPACE}]")
NEVER = 1 << 30

Pair = tuple[str, str]


class Tokenizer:
    """A vocabulary with its merges."""

    def __init__(self, tokens: list[str], types: list[int], merges: list[Pair]) -> None:
        self.tokens, self.types, self.merges = tokens, types, merges
        self._ids = {text: number for number, text in enumerate(tokens)}
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._known_chunks: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """Token ids; special tokens in the text count."""
        ids: list[int] = []
        for part in SPECIAL_TEXT.split(text):
            if part in SPECIAL_ID:
                ids.append(SPECIAL_ID[part])
                continue
            for segment in re.findall(r"[^\n]+|\n+", part):
                if segment in ("\n", "\n\n"):
                    ids.append(self._ids[segment])
                elif segment[0] == "\n":
                    ids += [self._ids["\n"]] * len(segment)
                else:
                    for chunk in CHUNK.findall(segment.replace(" ", SPACE)):
                        ids += self._encode_chunk(chunk)
        return ids

    def _encode_chunk(self, chunk: str) -> list[int]:
        if chunk in self._known_chunks:
            return self._known_chunks[chunk]
        pieces = list(chunk)
        while len(pieces) > 1:
            pairs = enumerate(pairwise(pieces))
            rank, at = min((self._ranks.get(pair, NEVER), index) for index, pair in pairs)
            if rank == NEVER:
                break
            pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
        ids: list[int] = []
        for piece in pieces:
            if piece in self._ids:
                ids.append(self._ids[piece])
            else:
                ids += [self._ids[f"<0x{byte:02X}>"] for byte in piece.encode()]
        self._known_chunks[chunk] = ids
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids."""
        data = b""
        for number in ids:
            text = self.tokens[number]
            is_byte = self.types[number] == BYTE
            data += bytes([int(text[3:5], 16)]) if is_byte else text.replace(SPACE, " ").encode()
        return data.decode(errors="replace")


def train(texts: Sequence[str], size: int) -> Tokenizer:
    """Learn a vocabulary of that size: special tokens, newlines, bytes, characters, merges."""
    words: Counter[str] = Counter()
    for text in texts:
        for part in SPECIAL_TEXT.split(text):
            if part not in SPECIAL_ID:
                for line in part.replace(" ", SPACE).split("\n"):
                    words.update(WORD.findall(line))
    tokens = [text for text, _ in SPECIALS] + ["\n", "\n\n"] + [f"<0x{b:02X}>" for b in range(256)]
    types = [kind for _, kind in SPECIALS] + [NORMAL, NORMAL] + [BYTE] * 256
    printable = {chr(code) for code in range(33, 127)}
    characters = sorted({char for word in words for char in word} | printable | {SPACE})
    tokens += characters
    types += [NORMAL] * len(characters)
    merges = _Merger(words).learn(tokens, types, size)
    while len(tokens) < size:  # a corpus too small for the size
        tokens.append(f"<unused{len(tokens)}>")
        types.append(CONTROL)
    return Tokenizer(tokens, types, merges)


class _Merger:
    """Counts of neighbouring pieces over all words, kept up to date merge by merge."""

    def __init__(self, words: Counter[str]) -> None:
        self._pieces = [list(word) for word in words]
        self._counts = list(words.values())
        self._pairs: Counter[Pair] = Counter()
        self._places: defaultdict[Pair, set[int]] = defaultdict(set)
        for index in range(len(self._pieces)):
            self._add(index)

    def _neighbours(self, index: int) -> Iterable[Pair]:
        return pairwise(self._pieces[index])

    def _add(self, index: int) -> None:
        for pair in self._neighbours(index):
            self._pairs[pair] += self._counts[index]
            self._places[pair].add(index)

    def _remove(self, index: int) -> None:
        for pair in self._neighbours(index):
            self._pairs[pair] -= self._counts[index]
            self._places[pair].discard(index)

    def learn(self, tokens: list[str], types: list[int], size: int) -> list[Pair]:
        """Merge the commonest pair until there are `size` tokens; append them as they come."""
        merges: list[Pair] = []
        have = set(tokens)
        while len(tokens) < size:
            pair, count = max(self._pairs.items(), key=lambda item: (item[1], item[0]))
            if count < 2:
                break
            merges.append(pair)
            merged = pair[0] + pair[1]
            if merged not in have:
                tokens.append(merged)
                types.append(NORMAL)
                have.add(merged)
            for index in list(self._places[pair]):
                self._remove(index)
                self._pieces[index] = _merge(self._pieces[index], pair)
                self._add(index)
            self._pairs.pop(pair, None)
        return merges


def _merge(pieces: list[str], pair: Pair) -> list[str]:
    """The pieces with every occurrence of the pair joined, left to right."""
    out: list[str] = []
    at = 0
    while at < len(pieces):
        if at + 1 < len(pieces) and (pieces[at], pieces[at + 1]) == pair:
            out.append(pieces[at] + pieces[at + 1])
            at += 2
        else:
            out.append(pieces[at])
            at += 1
    return out
