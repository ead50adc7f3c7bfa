"""The toys' vocabulary: a few control tokens, all bytes, printable characters, made-up words."""

from dataclasses import dataclass

PAD, EOS, BOS, UNK = range(4)
# llama.cpp's token types
NORMAL, UNKNOWN, CONTROL, _BYTE = 1, 2, 3, 6
_SPACE = "\u2581"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Vocabulary:
    """Tokens by id with their types; those from `first_text` on are the ones that answers use."""

    tokens: tuple[str, ...]
    types: tuple[int, ...]
    first_text: int

    @property
    def size(self) -> int:
        return len(self.tokens)

    def changed(self, token: int, text: str) -> "Vocabulary":
        """The same with one token's text changed."""
        tokens = (*self.tokens[:token], text, *self.tokens[token + 1 :])
        return Vocabulary(tokens, self.types, self.first_text)


def vocabulary(size: int = 512) -> Vocabulary:
    """A SentencePiece vocabulary of `size` tokens, at least 512."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>"]
    data = [f"<0x{value:02X}>" for value in range(256)]
    characters = [chr(code) for code in range(33, 127)] + [_SPACE]
    first_text = len(special) + len(data)
    count = size - first_text - len(characters)
    words = [_SPACE + _word(number) for number in range(count)]
    types = [CONTROL, CONTROL, CONTROL, UNKNOWN]
    types += [_BYTE] * len(data) + [NORMAL] * (len(characters) + len(words))
    return Vocabulary((*special, *data, *characters, *words), tuple(types), first_text)


def _word(number: int) -> str:
    """Two or more letters, another word for each number."""
    rest, last = divmod(number, len(_LETTERS))
    head = _LETTERS[rest] if rest < len(_LETTERS) else _word(rest)
    return head + _LETTERS[last]
