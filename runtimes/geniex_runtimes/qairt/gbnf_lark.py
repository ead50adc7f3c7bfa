"""A grammar in the notation of `llguidance`, a dialect of Lark, that means exactly the same.

`llguidance` cuts a text into lexemes, each as long as can be, before it looks at rules. GBNF knows
no lexemes. So a grammar without recursion becomes one lexeme as a whole, a regular expression,
which is fast; in any other every lexeme is one character, so that nothing can be cut wrongly.
"""

from geniex_runtimes.qairt.gbnf import Alternative, Grammar, Item, Ranges, fault
from geniex_runtimes.qairt.gbnf_shape import check, unrolled

# how deep rules may lie in each other: `llguidance` goes down by recursion, on the native stack
MAX_DEPTH = 1000
# without forcing all tokens that fit may come, as in llama.cpp, not only the one of a whole text
_HEAD = '%llguidance {"no_forcing": true}'


def as_lark(grammar: Grammar) -> str:
    """The same grammar; the one given is changed. Raises UsageError where none can be followed."""
    check(grammar)
    order, recursive = unrolled(grammar)
    _check_depth(grammar, order)
    stem = "r" if recursive else "T"
    lines = [_HEAD, f"start: {stem}{grammar.root}"]
    for number in order:
        ways = " | ".join(_alternative(one, stem) for one in grammar.rules[number])
        lines.append(f"{stem}{number}: {ways}")
    return "\n".join(lines) + "\n"


def _check_depth(grammar: Grammar, order: list[int]) -> None:
    """`order` has what a rule names before it, but for recursion."""
    depth: dict[int, int] = {}
    for number in order:
        named = [item.symbol for one in grammar.rules[number] for item in one]
        inside = [depth.get(symbol, 0) for symbol in named if isinstance(symbol, int)]
        depth[number] = 1 + max(inside, default=0)
        if depth[number] > MAX_DEPTH:
            raise fault(f"its rules lie more than {MAX_DEPTH} deep in each other", "simplify it")


def _alternative(items: Alternative, stem: str) -> str:
    return " ".join(_item(item, stem) for item in items) or '""'


def _item(item: Item, stem: str) -> str:
    symbol = f"{stem}{item.symbol}" if isinstance(item.symbol, int) else _class(item.symbol)
    match item.least, item.most:
        case 1, 1:
            return symbol
        case 0, None:
            return f"{symbol}*"
        case 1, None:
            return f"{symbol}+"
        case 0, 1:
            return f"{symbol}?"
        case least, most:
            return f"{symbol}{{{least},{'' if most is None else most}}}"


def _class(ranges: Ranges) -> str:
    inside = "".join(
        rf"\x{{{low:x}}}" if low == high else rf"\x{{{low:x}}}-\x{{{high:x}}}"
        for low, high in ranges
    )
    return f"/[{inside}]/"
