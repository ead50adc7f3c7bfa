"""GBNF grammars of our own."""

# any JSON object; at most one line of white space between its parts, so that a model
# cannot fill its budget with blanks
JSON_GRAMMAR = r"""
root   ::= object
value  ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" space ( member ( "," space member )* )? "}" space
member ::= string space ":" space value space
array  ::= "[" space ( value space ( "," space value space )* )? "]" space
string ::= "\"" character* "\""
character ::= [^"\\\x00-\x1f\x7f] | "\\" ( ["\\/bfnrt] | "u" hex hex hex hex )
hex    ::= [0-9a-fA-F]
number ::= "-"? ( "0" | [1-9] [0-9]* ) ( "." [0-9]+ )? ( [eE] [-+]? [0-9]+ )?
space  ::= " "? ( "\n" [ ]{0,16} )?
"""
