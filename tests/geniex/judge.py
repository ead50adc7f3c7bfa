"""llama.cpp as the judge of grammars: whether one lets a text through.

`llguidance`, which holds answers to grammars where llama.cpp is not at hand, has to agree.
"""

import ctypes
from pathlib import Path

import llama_cpp

from geniex_runtimes.qairt.grammar import Grammars


class Judge:
    """The grammar engine of llama.cpp on the vocabulary of a model file; `close` it."""

    def __init__(self, path: Path) -> None:
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self._end = llama_cpp.llama_vocab_eos(self._vocab)
        size = llama_cpp.llama_vocab_n_tokens(self._vocab)
        self._grammars = Grammars([self._piece(token) for token in range(size)], [self._end])

    def accepts(self, grammar: str, text: str) -> bool:
        """Whether the grammar lets a text through, token by token, to its end."""
        data = text.encode()
        room = (llama_cpp.llama_token * (len(data) + 8))()
        count = llama_cpp.llama_tokenize(
            self._vocab, data, len(data), room, len(room), False, False
        )
        native = llama_cpp.llama_sampler_init_grammar(self._vocab, grammar.encode(), b"root")
        assert native, f"llama.cpp does not take the grammar:\n{grammar}"
        tokens = (*room[:count], self._end)
        try:
            accepted = all(_allowed(native, token) for token in tokens)
        finally:
            llama_cpp.llama_sampler_free(native)
        other = self._accepts_too(grammar, tokens)
        assert other == accepted, f"llguidance says {other} to {text!r}:\n{grammar}"
        return accepted

    def _accepts_too(self, grammar: str, tokens: tuple[int, ...]) -> bool:
        matcher = self._grammars.matcher(grammar)
        for token in tokens:
            if not matcher.allows(token):
                return False
            matcher.accept(token)
        return True

    def _piece(self, token: int) -> bytes:
        room = ctypes.create_string_buffer(256)
        size = llama_cpp.llama_token_to_piece(self._vocab, token, room, len(room), 0, True)
        return room.raw[:size]

    def close(self) -> None:
        """Free the vocabulary."""
        llama_cpp.llama_model_free(self._model)


def _allowed(grammar: object, token: int) -> bool:
    one = (llama_cpp.llama_token_data * 1)(llama_cpp.llama_token_data(token, 1.0, 0.0))
    choice = llama_cpp.llama_token_data_array(one, 1, -1, False)
    llama_cpp.llama_sampler_apply(grammar, ctypes.byref(choice))
    if one[0].logit == float("-inf"):
        return False
    llama_cpp.llama_sampler_accept(grammar, token)
    return True
