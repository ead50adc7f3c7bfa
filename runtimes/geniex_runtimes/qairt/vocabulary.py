"""A bundle's tokens: text to ids and ids to bytes, by the package `tokenizers`; nothing native."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from geniex_catalogue.errors import BundleError, UsageError
from geniex_catalogue.extras import install
from geniex_runtimes.contract import PromptPiece
from geniex_runtimes.errors import RuntimeNotInstalledError
from geniex_runtimes.request import runs

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "\u2581"
_BREAK = "\n"  # no token goes across it


class Vocabulary:
    """The tokenizer.json of a bundle. Methods may be called from any thread."""

    def __init__(self, path: Path, size: int, bos: int | None) -> None:
        """`size` is how many tokens the model knows, `bos` the one that opens each prompt.

        Raises BundleError for a file that is no tokenizer, RuntimeNotInstalledError.
        """
        try:
            from tokenizers import Tokenizer
        except ImportError as exc:
            raise RuntimeNotInstalledError(
                f"the package `tokenizers` cannot be used: {exc}",
                hint=install("qairt"),
            ) from exc
        try:
            self._tokenizer: Any = Tokenizer.from_file(str(path))
        except Exception as exc:  # the package raises nothing more exact
            raise BundleError(path, f"is no tokenizer that can be used: {exc}") from exc
        self.size = size
        self._bos = bos
        # a file may ask for cut or padded inputs, which prompts are not
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        added = self._tokenizer.get_added_tokens_decoder()
        self._added = {token: str(entry.content) for token, entry in added.items()}
        self._marker_starts = _marker_starts(self._added.values())
        self._byte_of = _byte_alphabet() if self._decodes("\u0120", " ") else None
        self._spaces = self._decodes(f"a{_SPACE}a", "a a")
        self._falls_back = self._decodes("<0x41>", "A")
        self._known: dict[int, bytes] = {}
        # as the tokenizers of Llama 2 and Phi 3 do
        self._prefixes = b"".join(map(self.piece, self._ids("a"))).startswith(b" ")

    def _decodes(self, token: str, text: str) -> bool:
        decoder = self._tokenizer.decoder
        return decoder is not None and decoder.decode([token]) == text

    def tokenize(self, prompt: Sequence[PromptPiece]) -> list[int]:
        """Token ids of a prompt, with exactly one BOS where the model wants one.

        Neighbouring pieces of the same kind are one text. In literal text an added token is only
        text: it is cut behind its first character.
        """
        tokens: list[int] = []
        for text, literal in runs(prompt):
            cut = literal and self._marker_starts is not None
            parts = self._marker_starts.split(text) if cut and self._marker_starts else [text]
            for part in parts:
                goes_on = bool(tokens) and tokens[-1] not in self._added
                tokens += self._encode(part, goes_on=goes_on)
        if self._bos is not None:
            while tokens and tokens[0] == self._bos:
                tokens.pop(0)
            tokens.insert(0, self._bos)
        return tokens

    def _encode(self, text: str, *, goes_on: bool) -> list[int]:
        """The ids of a text; of one that goes on without the space that some put before each."""
        clean = text.encode("utf-8", "replace").decode("utf-8")
        if goes_on and self._prefixes:
            before, whole = self._ids(_BREAK), self._ids(_BREAK + clean)
            if whole[: len(before)] == before:
                return whole[len(before) :]
        return self._ids(clean)

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def detokenize(self, tokens: Sequence[int]) -> str:
        """The text of token ids, special tokens included. Raises UsageError for a bad id."""
        self.check(tokens)
        return b"".join(map(self.piece, tokens)).decode("utf-8", "replace")

    def check(self, tokens: Sequence[int]) -> None:
        """Raise UsageError for a token that does not exist."""
        bad = next((token for token in tokens if not 0 <= token < self.size), None)
        if bad is not None:
            raise UsageError(f"token {bad} is not in the vocabulary of {self.size} tokens")

    def pieces(self) -> list[bytes]:
        """The bytes of every token."""
        return [self.piece(token) for token in range(self.size)]

    def piece(self, token: int) -> bytes:
        """The bytes of one token; none for an id that the tokenizer leaves out."""
        known = self._known.get(token)
        if known is None:
            known = self._known[token] = self._piece(token)
        return known

    def _piece(self, token: int) -> bytes:
        if token in self._added:
            return self._added[token].encode()
        text: str | None = self._tokenizer.id_to_token(token)
        if text is None:
            return b""
        if self._byte_of is not None:
            return b"".join(self._byte_of.get(char, char.encode()) for char in text)
        if self._falls_back and (match := _BYTE_TOKEN.fullmatch(text)):
            return bytes.fromhex(match.group(1))
        return (text.replace(_SPACE, " ") if self._spaces else text).encode()


def _marker_starts(texts: "Sequence[str] | Any") -> re.Pattern[str] | None:
    """Finds the place behind the first character of every added token of two and more."""
    longest_first = sorted({t for t in texts if len(t) > 1}, key=lambda text: (-len(text), text))
    if not longest_first:
        return None
    places = (f"(?<={re.escape(text[0])})(?={re.escape(text[1:])})" for text in longest_first)
    return re.compile("|".join(places))


def _byte_alphabet() -> dict[str, bytes]:
    """The characters that byte-level tokenizers write bytes with, as GPT-2 chose them.

    Printable bytes of Latin-1 stand for themselves, the others for U+0100 and up, in order.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(0x100) if byte not in printable)
    alphabet = {chr(byte): bytes([byte]) for byte in printable}
    return alphabet | {chr(0x100 + at): bytes([byte]) for at, byte in enumerate(others)}
