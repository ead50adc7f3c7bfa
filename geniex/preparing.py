"""From messages and options to a prompt, the sampling it is answered with, and how it is read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from geniex.answering import AnswerOptions
from geniex.chat.constraint import Constraint, Thinking, constraint
from geniex.chat.flow import Flow
from geniex.chat.messages import Message
from geniex.chat.reasoning import ReasoningFormat
from geniex.chat.template import ChatTemplate, Rendered
from geniex.chat.tool_calls.bare import Bare
from geniex.chat.tool_calls.families import FAMILIES, family_of
from geniex.chat.tool_calls.reader import CallReader, Family
from geniex.chat.tools import Tool, checked
from geniex.grammar import Marks
from geniex_catalogue.errors import UsageError
from geniex_runtimes.options import SamplingOptions

_STRICT = (
    "this model's calls are only held to the schema of a strict tool where a call is required, "
    "not where it may choose"
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prompt, and how it is to be answered and the answer to be read.

    `more`: the answer may hold more than content, such as reasoning or calls.
    """

    rendered: Rendered
    sampling: SamplingOptions
    tools: tuple[Tool, ...]
    notes: tuple[str, ...]
    options: AnswerOptions
    more: bool

    def flow(self) -> Flow:
        """What parts the answer."""
        reader = None
        if self.tools:
            reader = CallReader(
                self.tools,
                FAMILIES,
                parallel=self.options.parallel_tool_calls,
                required=self.options.tool_choice.mode == "required",
            )
        inline = not self.options.separate_reasoning
        stop = self.options.stop if self.more else ()
        return Flow(self.rendered.splitter(), reader, inline=inline, stop=stop)


def render(
    template: ChatTemplate, messages: Sequence[Message], options: AnswerOptions
) -> tuple[Rendered, tuple[Tool, ...]]:
    """The prompt, and the tools that may be called. Raises TemplateError and UsageError."""
    tools = options.tool_choice.pick(checked(options.tools))
    think = options.think
    if think is None and is_held(options) and template.stops_thinking:
        # what is held to a form is not to be thought about at length, unless that is asked for
        think = False
    rendered = template.render(
        messages,
        think=think,
        tools=[tool.as_dict() for tool in tools] or None,
        extra=options.template_variables,
    )
    return rendered, tools


def prepare(
    template: ChatTemplate, marks: Marks, messages: Sequence[Message], options: AnswerOptions
) -> Prepared:
    """Render the messages, and make the grammar. Raises TemplateError, UsageError, SchemaError."""
    if is_held(options) and options.sampling.grammar is not None:
        raise UsageError("a grammar cannot be combined with `response_format` or required tools")
    rendered, tools = render(template, messages, options)
    sampling, notes = options.sampling, rendered.notes
    if is_held(options):
        held = _constraint(template, rendered, tools, options)
        sampling = marks.held_to(held.grammar, sampling, held.kept)
        notes += held.notes
    elif any(tool.strict for tool in tools):
        if _family(template).enforced and sampling.grammar is None:
            held = _constraint(template, rendered, tools, options)
            sampling = replace(sampling, grammar=held.grammar)
            notes += held.notes
        else:
            notes += (_STRICT,)
    more = bool(tools) or rendered.reasoning_open or bool(_named(template, rendered))
    return Prepared(rendered, sampling, tools, notes, options, more)


def is_held(options: AnswerOptions) -> bool:
    """Whether a grammar is made for the answer."""
    return options.response_format is not None or options.tool_choice.mode == "required"


def _constraint(
    template: ChatTemplate, rendered: Rendered, tools: tuple[Tool, ...], options: AnswerOptions
) -> Constraint:
    choice = options.tool_choice
    form = None if choice.mode == "required" else options.response_format
    return constraint(
        form,
        _family(template),
        tools,
        several=options.parallel_tool_calls and len(choice.names) != 1,
        thinking=_thinking(template, rendered, options),
        free=not is_held(options),
    )


def _family(template: ChatTemplate) -> Family:
    # a template without tools has been told of them in the form of `Bare`
    return family_of(template.source) if template.knows_tools else Bare()


def _thinking(template: ChatTemplate, rendered: Rendered, options: AnswerOptions) -> Thinking:
    if rendered.reasoning_open:
        return Thinking(True, rendered.formats)
    thinks = not is_held(options) if options.think is None else options.think
    if not thinks and template.stops_thinking:
        return Thinking()
    return Thinking(False, _named(template, rendered))


def _named(template: ChatTemplate, rendered: Rendered) -> list[ReasoningFormat]:
    """The ways of marking reasoning that the template itself speaks of."""
    return [
        form for form in rendered.formats if any(mark in template.source for mark in form.opens)
    ]


def with_prompt_options(prepared: Prepared) -> AnswerOptions:
    """The options of a request for this prompt.

    The runtime looks for stop strings in all that the model writes: it gets those of the format,
    and the user's where all of it is content; else only the flow tells the content from the rest.
    """
    own = () if prepared.more else prepared.options.stop
    stop = (*own, *prepared.rendered.stop)
    return replace(prepared.options, stop=stop, sampling=prepared.sampling)
