"""GBNF grammars of our own."""

from dataclasses import replace

from geniex_runtimes.contract import LoadedModel, PromptPiece, SamplingOptions

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


def json_object(sampling: SamplingOptions, model: LoadedModel) -> SamplingOptions:
    """Sampling of one JSON object, in whose strings no marks of the chat format are drawn.

    To a grammar such a mark is text like any other; the end of an answer comes all the same, as
    nothing else fits behind the last brace.
    """
    marks = (_token_of(text, model) for text in sorted(model.info.control_tokens))
    bias = tuple((token, _UNWANTED) for token in marks if token is not None)
    return replace(sampling, grammar=JSON_GRAMMAR, logit_bias=(*sampling.logit_bias, *bias))


def _token_of(text: str, model: LoadedModel) -> int | None:
    """The one token that a text is, or None."""
    token = model.tokenize([PromptPiece(text)])[-1]
    return token if model.detokenize([token]) == text else None
