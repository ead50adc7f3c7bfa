"""The body of a chat completion: its fields, what of them is refused, and how they are read."""

from collections.abc import Sequence
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from geniex.answering import AnswerOptions
from geniex.chat.response_format import ResponseFormat
from geniex.chat.tools import Tool, ToolChoice, checked
from geniex.server.fields import ChatExtras
from geniex.server.refusals import Unsupported, invalid, named, refuse_unsupported, unsupported
from geniex.server.shapes import Labels, Stop
from geniex.server.state import ServerState
from geniex_catalogue.errors import UsageError

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

UNSUPPORTED: Final = {
    "audio": Unsupported("answers are text"),
    "function_call": Unsupported("use `tool_choice`"),
    "functions": Unsupported("use `tools`"),
    "modalities": Unsupported("answers are text", (["text"],)),
    "moderation": Unsupported("nothing is moderated here"),
    "prediction": Unsupported("use `spec_type`, such as `ngram-simple`, to draft from the prompt"),
    "prompt_cache_options": Unsupported(
        "prompts are cached as they are", ({}, {"mode": "implicit"})
    ),
    "prompt_cache_retention": Unsupported("prompts stay in memory", ("in_memory",)),
    "service_tier": Unsupported("there is one tier", ("auto", "default")),
    "store": Unsupported("nothing is stored here", (False,)),
    "verbosity": Unsupported("ask for it in a message", ("medium",)),
    "web_search_options": Unsupported("this server does not search the web"),
}


class StreamOptions(BaseModel):
    """How to stream."""

    model_config = ConfigDict(extra="ignore", strict=True)

    include_usage: bool | None = Field(None, description="One more chunk, with the usage.")
    include_obfuscation: bool | None = Field(None, description="Only false: nothing is padded.")


class ChatRequest(ChatExtras, Labels):
    """A chat completion that is asked for."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)

    messages: list[dict[str, Any]] = Field(
        min_length=1,
        description="The chat so far. Text is read, images and audio are left out and warned of.",
    )
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_completion_tokens: int | None = Field(
        None, ge=-1, description="Most tokens of the answer; -1, as none: until the context ends."
    )
    max_tokens: int | None = Field(
        None, ge=-1, description="The same; where both are given the smaller counts."
    )
    n: int | None = Field(None, ge=1, le=128, description="How many choices.")
    stop: Stop = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=20)
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = Field(
        None, description="none, auto, required, or a function by its name."
    )
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = Field(
        None, description="text, json_object, or json_schema, which answers are held to."
    )
    reasoning_effort: Effort | None = Field(
        None, description="none and minimal turn thinking off, the others on."
    )

    @property
    def choices(self) -> int:
        """How many choices are asked for."""
        return self.n or 1

    @property
    def include_usage(self) -> bool:
        """Whether the stream ends with a chunk of usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    def check(self) -> None:
        """Raise RequestError for what cannot be honoured, by its name."""
        refuse_unsupported(self.model_extra, UNSUPPORTED)
        check_stream(self.stream, self.stream_options)
        if self.top_logprobs is not None and not self.logprobs:
            raise invalid("`top_logprobs` needs `logprobs: true`", "top_logprobs")

    def options(self, state: ServerState) -> AnswerOptions:
        """How to answer. Raises RequestError, naming the field."""
        sampling = self.sampling(state)
        form, tools = self._format(), self._tools()
        if sampling.grammar and form is not None:
            raise invalid(
                "a grammar and `response_format` are both given: send one of them",
                "response_format",
            )
        return AnswerOptions(
            sampling=sampling,
            max_tokens=limit(self.max_completion_tokens, self.max_tokens),
            stop=stops(self.stop),
            think=self.thinks(self.reasoning_effort),
            tools=tools,
            tool_choice=self._choice(tools),
            parallel_tool_calls=self.parallel_tool_calls is not False,
            response_format=form,
            template_variables=self.variables(self.reasoning_effort),
            logprobs=(self.top_logprobs or 0) if self.logprobs else None,
            separate_reasoning=self.separates_reasoning(),
        )

    def _tools(self) -> tuple[Tool, ...]:
        read: list[Tool] = []
        for index, tool in enumerate(self.tools or ()):
            try:
                read.append(Tool.from_dict(tool))
            except UsageError as exc:
                raise named(exc, f"tools[{index}]") from exc
        try:
            return checked(read)
        except UsageError as exc:
            raise named(exc, "tools") from exc

    def _choice(self, tools: Sequence[Tool]) -> ToolChoice:
        try:
            choice = ToolChoice.from_dict(self.tool_choice)
            choice.pick(tools)
            return choice
        except UsageError as exc:
            raise named(exc, "tool_choice") from exc

    def _format(self) -> ResponseFormat | None:
        try:
            return ResponseFormat.from_dict(self.response_format)
        except UsageError as exc:
            raise named(exc, "response_format") from exc


def limit(*given: int | None) -> int | None:
    """The smallest limit that is given; -1 is none."""
    return min((value for value in given if value is not None and value >= 0), default=None)


def stops(given: str | list[str] | None) -> tuple[str, ...]:
    """The stop strings, in either form."""
    return (given,) if isinstance(given, str) else tuple(given or ())


def check_stream(stream: bool | None, options: StreamOptions | None) -> None:
    """Raise RequestError for stream options that cannot be honoured."""
    if options is None:
        return
    if not stream:
        raise invalid("`stream_options` is only for `stream: true`", "stream_options")
    if options.include_obfuscation:
        raise unsupported(
            "`include_obfuscation` is not supported: nothing is padded here",
            "stream_options.include_obfuscation",
        )
