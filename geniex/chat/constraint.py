"""What an answer is held to: the grammar of its content, of required calls, and of thinking first.

With `response_format` the content is JSON; with a `tool_choice` that requires a call the answer is
one, in the model's own format; with a `response_format` and tools it is either. With strict tools
that the model may call as it likes the content is any text, but what follows the mark of a call is
one. Before that a model may think where its format has a way to mark it and thinking was not
switched off.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from geniex.chat.gbnf.notation import GEMMA, JSON
from geniex.chat.gbnf.rules import Rules, TooLargeError, either, quote, text_until, text_without
from geniex.chat.json_schema import schema_rule
from geniex.chat.reasoning import HARMONY, HARMONY_FINAL, HARMONY_NEXT, ReasoningFormat
from geniex.chat.response_format import ResponseFormat
from geniex.chat.schema_merging import refuse
from geniex.chat.tool_calls.gemma import Gemma
from geniex.chat.tool_calls.reader import Family
from geniex.chat.tools import Tool
from geniex_catalogue.errors import SchemaError

_BLANK = "[ \\n]{0,4}"
_ANY_OBJECT: Mapping[str, object] = {"type": "object", "additionalProperties": True}


@dataclass(frozen=True, slots=True)
class Constraint:
    """A grammar, the marks of the chat format that belong to it, and notes for the user."""

    grammar: str
    kept: frozenset[str]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Thinking:
    """How the answer may begin: inside of reasoning (`open`), or with a block of these formats."""

    open: bool = False
    formats: Sequence[ReasoningFormat] = ()


def constraint(
    form: ResponseFormat | None,
    family: Family,
    tools: Sequence[Tool],
    *,
    several: bool,
    thinking: Thinking,
    free: bool = False,
) -> Constraint:
    """The grammar for content of this form, or calls of these tools; one of both is given.

    With `free` any text may stand before the calls or in their place: for a family whose calls are
    told by a mark (`enforced`). Raises SchemaError for a schema of `form` that cannot be honoured.
    A tool's schema of this kind is left out, with a note, unless the tool is strict.
    """
    rules = Rules()
    notes: list[str] = []
    try:
        ways = [] if form is None else [_content(rules, form, thinking)]
        if tools:
            arguments = {tool.name: _arguments(rules, tool, family, notes) for tool in tools}
            calls = rules.add(family.grammar(rules, arguments, several=several), "calls")
            ways.append(f"{text_without(rules, family.enforced)} {calls}?" if free else calls)
        root = f"{_before(rules, thinking)} {either(ways)}".strip()
    except TooLargeError as exc:
        raise refuse("$schema", "tools", "the schemas are too large together") from exc
    kept = {*family.kept} if tools else set()
    for thoughts in thinking.formats:
        kept |= {*thoughts.opens, *thoughts.closes}
    if HARMONY in thinking.formats:
        kept |= {"<|start|>", "<|channel|>", "<|message|>", "<|end|>"}
    return Constraint(rules.text(root), frozenset(kept), tuple(notes))


def _content(rules: Rules, form: ResponseFormat, thinking: Thinking) -> str:
    schema = _ANY_OBJECT if form.kind == "json_object" else form.schema
    content = schema_rule(rules, schema, path="response_format")
    return f"{quote(HARMONY_FINAL)} {content}" if HARMONY in thinking.formats else content


def _arguments(rules: Rules, tool: Tool, family: Family, notes: list[str]) -> str:
    notation = GEMMA if isinstance(family, Gemma) else JSON
    schema = tool.parameters or {"type": "object"}
    if schema.get("type") == "object":
        # an object of which no more is said has no members: that is how tools without arguments are
        schema = {"properties": {}, **schema}
    path = f"tools/{tool.name}/parameters"
    try:
        schema_rule(Rules(), schema, notation, path)  # tried apart: a failure leaves half of it
        return schema_rule(rules, schema, notation, path)
    except SchemaError as exc:
        if tool.strict:
            raise
        notes.append(f"the arguments of `{tool.name}` are not held to its schema: {exc.message}")
        return schema_rule(rules, _ANY_OBJECT, notation)


def _before(rules: Rules, thinking: Thinking) -> str:
    """The thoughts that may stand before everything else."""
    if thinking.open:
        return f"{_closed(rules, thinking.formats[0])} "
    if HARMONY in thinking.formats:
        block = f"{quote(HARMONY.opens[-1])} {text_until(rules, '<|end|>')} {quote(HARMONY_NEXT)}"
    elif thinking.formats:
        block = either([f"{quote(one.opens[0])} {_closed(rules, one)}" for one in thinking.formats])
    else:
        return ""
    return f"({block})?"


def _closed(rules: Rules, thoughts: ReasoningFormat) -> str:
    """What is thought, up to its end."""
    if thoughts is HARMONY:
        return f"{text_until(rules, '<|end|>')} {quote(HARMONY_NEXT)}"
    return f"{text_until(rules, thoughts.closes[0])} {_BLANK}"
