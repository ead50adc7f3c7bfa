"""Sampling that is held to a grammar, and a grammar of our own."""

from collections.abc import Collection
from dataclasses import replace

from geniex_runtimes.contract import LoadedModel, PromptPiece
from geniex_runtimes.options import SamplingOptions

_UNWANTED = -100.0  # added to a logit: never drawn while the grammar allows anything else

# any JSON object; at most one line of white space between its parts, so that a model
# cannot fill its budget with blanks
JSON_GRAMMAR = r"""
root   ::= object
value  ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" space ( member ( "," space member )* )? "}"
member ::= string space ":" space value space
array  ::= "[" space ( value space ( "," space value space )* )? "]"
string ::= "\"" character* "\""
character ::= [^"\\\x00-\x1f\x7f] | "\\" ( ["\\/bfnrt] | "u" hex hex hex hex )
hex    ::= [0-9a-fA-F]
number ::= "-"? ( "0" | [1-9] [0-9]* ) ( "." [0-9]+ )? ( [eE] [-+]? [0-9]+ )?
space  ::= " "? ( "\n" [ ]{0,16} )?
"""


class Marks:
    """The tokens that mark a model's chat format; each is looked up once."""

    def __init__(self, model: LoadedModel) -> None:
        self._model = model
        self._tokens: dict[str, int] | None = None

    def held_to(
        self, grammar: str, sampling: SamplingOptions, keep: Collection[str] = ()
    ) -> SamplingOptions:
        """Sampling by a grammar, in whose texts no marks are drawn but those to `keep`.

        To a grammar a mark is text like any other. The tokens that end an answer need no bias: they
        are only drawn where the grammar allows the end.
        """
        if self._tokens is None:
            info = self._model.info
            found = {
                text: _token_of(text, self._model)
                for text in sorted(info.control_tokens - info.end_tokens)
            }
            self._tokens = {text: token for text, token in found.items() if token is not None}
        bias = tuple((token, _UNWANTED) for text, token in self._tokens.items() if text not in keep)
        return replace(sampling, grammar=grammar, logit_bias=(*sampling.logit_bias, *bias))


def _token_of(text: str, model: LoadedModel) -> int | None:
    """The one token that a text is, or None."""
    token = model.tokenize([PromptPiece(text)])[-1]
    return token if model.detokenize([token]) == text else None
