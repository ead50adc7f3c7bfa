"""A model's vocabulary: text to tokens, tokens to bytes, and which tokens are special."""

import ctypes
import functools
import re
from collections.abc import Sequence, Set

from geniex_catalogue.errors import UsageError
from geniex_runtimes.contract import PromptPiece
from geniex_runtimes.errors import GenerationError
from geniex_runtimes.llama_cpp.library import Library
from geniex_runtimes.llama_cpp.remembered import Remembered
from geniex_runtimes.request import runs

# characters of a prompt that llama.cpp gets at once: at each special token it searches all that
# follows for each other one, so the time for a text grows with the square of its length
_LONG = 1 << 14
# and where that is cheap, as little as is remembered together
_AT_ONCE = 1 << 10
# LLAMA_TOKEN_ATTR_UNKNOWN | LLAMA_TOKEN_ATTR_CONTROL: what the tokenizer only takes when asked to
_CONTROL_ATTRIBUTES = 1 << 0 | 1 << 3
# LLAMA_TOKEN_ATTR_USER_DEFINED: taken from any text, asked to or not
_USER_DEFINED = 1 << 4
# what makes such a token a mark of the chat format, and not a piece of HTML or a run of newlines
_MARKER = re.compile(r"<\|\S*>|<\S*\|>")


class Vocab:
    """The tokenizer of loaded weights; safe to use from any thread."""

    def __init__(self, library: Library, model: int, chat_template: str | None = None) -> None:
        """`chat_template` tells which of the model's own tokens are marks of the chat format."""
        self._template = chat_template or ""
        api = library.api
        self._library = library
        self._handle = api.llama_model_get_vocab(model)
        self.size = int(api.llama_vocab_n_tokens(self._handle))
        self.bos = int(api.llama_vocab_bos(self._handle))
        self.eos = int(api.llama_vocab_eos(self._handle))
        self.adds_bos = bool(api.llama_vocab_get_add_bos(self._handle)) and self.bos >= 0
        self._pieces: dict[int, bytes] = {}
        # a chat is told again with each of its turns
        self._remembered = Remembered()
        handle = self._handle  # not by `self`: a cycle would stay until the collector comes
        self._is_end = functools.cache(lambda token: bool(api.llama_vocab_is_eog(handle, token)))

    @property
    def handle(self) -> int:
        """The native vocabulary."""
        return self._handle  # type: ignore[no-any-return]

    def is_end(self, token: int) -> bool:
        """Whether the token ends a generation (any of the model's such tokens)."""
        return self._is_end(token)

    def piece(self, token: int) -> bytes:
        """The bytes of one token, special tokens as their text; often part of a character."""
        known = self._pieces.get(token)
        if known is None:
            known = self._pieces[token] = self._piece(token)
        return known

    def _piece(self, token: int) -> bytes:
        size = 64
        while True:
            buffer = ctypes.create_string_buffer(size)
            length = self._library.token_to_piece(self._handle, token, buffer, size, 0, True)
            if length >= 0:
                return buffer.raw[:length]
            size = -length

    def text(self, token: int) -> str:
        """The text that the vocabulary lists for a token; empty for none (-1)."""
        if token < 0:
            return ""
        raw = self._library.api.llama_vocab_get_text(self._handle, token)
        return raw.decode("utf-8", "replace") if raw else ""

    @functools.cached_property
    def control_tokens(self) -> frozenset[str]:
        """Texts that become special tokens unless they stand in literal text."""
        return frozenset(map(self.text, self._control_ids)) | self._markers

    @functools.cached_property
    def end_tokens(self) -> frozenset[str]:
        """Texts of the control tokens that end a generation."""
        return frozenset(self.text(token) for token in self._control_ids if self.is_end(token))

    @functools.cached_property
    def _control_ids(self) -> list[int]:
        return [token for token in self._with(_CONTROL_ATTRIBUTES) if self.text(token)]

    @functools.cached_property
    def _user_defined(self) -> list[str]:
        return [text for text in map(self.text, self._with(_USER_DEFINED)) if text]

    @functools.cached_property
    def _markers(self) -> frozenset[str]:
        return frozenset(
            text
            for text in self._user_defined
            if _MARKER.fullmatch(text) or (text[0] in "<[" and text in self._template)
        )

    def _with(self, attributes: int) -> list[int]:
        """The tokens that have one of these attributes."""
        attributes_of = self._library.api.llama_vocab_get_attr
        return [t for t in range(self.size) if attributes_of(self._handle, t) & attributes]

    @functools.cached_property
    def _marker_starts(self) -> re.Pattern[str] | None:
        """Finds the place behind the first character of every marker."""
        if not self._markers:
            return None
        longest_first = sorted(self._markers, key=lambda text: (-len(text), text))
        rests = "|".join(f"(?<={re.escape(m[0])})(?={re.escape(m[1:])})" for m in longest_first)
        return re.compile(rests)

    def tokenize(self, prompt: Sequence[PromptPiece]) -> list[int]:
        """Token ids of a prompt, with exactly one BOS where the model wants one.

        Neighbouring pieces of the same kind are one text, so that cutting does not change tokens.
        """
        tokens: list[int] = []
        for text, literal in runs(prompt):
            parts = [text] if literal else self._parts(text)
            if literal and self._marker_starts is not None:
                parts = self._marker_starts.split(text)  # a marker in two parts is only text
            for part in parts:
                if len(part) <= _LONG:
                    tokens += self._remembered.tokens(part, not literal, self._tokens_of)
                else:
                    tokens += self._tokens_of(part, not literal)
        if self.adds_bos:
            while tokens and tokens[0] == self.bos:
                tokens.pop(0)
            tokens.insert(0, self.bos)
        return tokens

    def at_least(self, prompt: Sequence[PromptPiece]) -> int:
        """How many tokens a prompt has at least, by its length alone; 0 where that tells nothing.

        Some tokenizers drop white space, so that a long text may have few tokens.
        """
        api = self._library.api
        kinds = (api.LLAMA_VOCAB_TYPE_SPM, api.LLAMA_VOCAB_TYPE_BPE)
        if api.llama_vocab_type(self._handle) not in kinds:
            return 0
        return sum(len(piece.text) for piece in prompt) // max(1, self._longest)

    @functools.cached_property
    def _longest(self) -> int:
        """Bytes of the longest token's text."""
        text_of = self._library.api.llama_vocab_get_text
        return max((len(text_of(self._handle, t) or b"") for t in range(self.size)), default=0)

    def _parts(self, text: str) -> list[str]:
        """A long text in parts that have the same tokens as the whole.

        A part ends behind a control token, where the tokenizer cuts anyway; not before white space,
        which some of them swallow. Parts are short where the chat format's tokens are, and another
        text that begins alike has the same ones there.
        """
        parts: list[str] = []
        for part in _split(text, self._turn, _AT_ONCE):
            parts += [part] if len(part) <= _LONG else _split(part, self._cut, _LONG)
        return parts

    @functools.cached_property
    def _turn(self) -> re.Pattern[str] | None:
        """Finds a control token of the chat format that a text goes on behind.

        Only one that no other special token can begin within and reach beyond.
        """
        marks = {text for text in self.control_tokens if text in self._template}
        endings = {text[at:] for text in marks for at in range(1, len(text))}
        firsts = {ending[0] for ending in endings}
        reaching = {
            text[:length]
            for text in (*self.control_tokens, *self._user_defined)
            if text[0] in firsts
            for length in range(1, len(text))
            if text[:length] in endings
        }
        return _behind({text for text in marks if not text.endswith(tuple(reaching))})

    @functools.cached_property
    def _cut(self) -> re.Pattern[str] | None:
        """Finds any control token that a text goes on behind."""
        return _behind(self.control_tokens)

    def tokenize_whole(self, text: str) -> list[int]:
        """Token ids of a text on its own, with what the model puts around one (CLS, SEP, EOS).

        Special tokens in the text are text.
        """
        return self._tokenize(text.encode("utf-8", "replace"), special=False, whole=True)

    def check(self, tokens: Sequence[int]) -> None:
        """Raise UsageError for a token that does not exist."""
        bad = next((token for token in tokens if not 0 <= token < self.size), None)
        if bad is not None:
            raise UsageError(f"token {bad} is not in the vocabulary of {self.size} tokens")

    def _tokens_of(self, text: str, special: bool) -> list[int]:
        return self._tokenize(text.encode("utf-8", "replace"), special=special)

    def _tokenize(self, text: bytes, *, special: bool, whole: bool = False) -> list[int]:
        api = self._library.api
        capacity = len(text) + 8
        for _ in range(2):
            buffer = (api.llama_token * capacity)()
            count = api.llama_tokenize(
                self._handle, text, len(text), buffer, capacity, whole, special
            )
            if count >= 0:
                return list(buffer[:count])
            capacity = -count
        raise GenerationError(f"llama.cpp could not tokenize a text of {len(text)} bytes")


def _behind(texts: Set[str]) -> re.Pattern[str] | None:
    """Finds one of these texts where no white space follows; None for no texts."""
    longest_first = sorted(texts, key=lambda text: (-len(text), text))
    found = "|".join(map(re.escape, longest_first))
    return re.compile(rf"(?:{found})(?=\S)") if texts else None


def _split(text: str, cut: re.Pattern[str] | None, length: int) -> list[str]:
    """A text in parts that are at least so long and end with a match, but for the last."""
    parts: list[str] = []
    start = 0
    while cut is not None and len(text) - start > length:
        found = cut.search(text, start + length)
        if found is None:
            break
        parts.append(text[start : found.end()])
        start = found.end()
    return [*parts, text[start:]]
