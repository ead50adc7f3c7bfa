"""What `POST /v1/responses` takes, and what is refused by name.

Every documented field is honoured, or changes nothing of an answer, or is refused. Fields that
nobody knows are ignored; null is the same as absent.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, model_validator

from geniex.answering import AnswerOptions
from geniex.chat.response_format import ResponseFormat
from geniex.chat.tools import Tool, ToolChoice, checked
from geniex.server.errors import RequestError
from geniex.server.fields import ChatExtras
from geniex.server.refusals import Unsupported, refuse_unsupported
from geniex.server.shapes import Labels
from geniex.server.state import ServerState
from geniex_catalogue.errors import SchemaError, UsageError

T = TypeVar("T")

LOGPROBS: Final = "message.output_text.logprobs"
# what this asks for is in the reasoning items as plain text already
_ENCRYPTED: Final = "reasoning.encrypted_content"
_STATELESS: Final = "nothing is stored between requests: send the whole conversation as `input`"
_NO_SUMMARY: Final = "reasoning is given itself, not summarised: use `auto`"

UNSUPPORTED: Final = {
    "access_programs": Unsupported("there are no access programs"),
    "background": Unsupported("answers are not made in the background", (False,)),
    "background_options": Unsupported("answers are not made in the background"),
    "context_management": Unsupported("contexts are not compacted", ([],)),
    "conversation": Unsupported(_STATELESS),
    "image": Unsupported("models here read text only"),
    "moderation": Unsupported("nothing is moderated here"),
    "previous_response_id": Unsupported(_STATELESS),
    "prompt": Unsupported("there are no stored prompts"),
    "prompt_cache_options": Unsupported(
        "prompts are cached as they are", ({}, {"mode": "implicit"})
    ),
    "prompt_cache_retention": Unsupported("prompts stay in memory", ("in_memory",)),
    "reasoning.context": Unsupported("the model's template decides", ("auto",)),
    "reasoning.generate_summary": Unsupported(_NO_SUMMARY, ("auto",)),
    "reasoning.mode": Unsupported("there is one mode", ("standard",)),
    "reasoning.summary": Unsupported(_NO_SUMMARY, ("auto",)),
    "service_tier": Unsupported("there is one tier", ("auto", "default")),
    "stream_options.include_obfuscation": Unsupported("nothing is padded here", (False,)),
    "text.verbosity": Unsupported("ask for it in a message", ("medium",)),
    "truncation": Unsupported("what is too long is refused", ("disabled",)),
}
TOOL_UNSUPPORTED: Final = {
    "allowed_callers": Unsupported("only the answer itself calls", (["direct"],)),
    "async": Unsupported("calls do not run beside the answer", (False,)),
    "defer_loading": Unsupported("tools are not loaded later", (False,)),
    "output_schema": Unsupported("models are not told of it"),
}

# read by hand (`items`), so that what is wrong is named by its place
Input = Annotated[
    Any,
    WithJsonSchema(
        {
            "description": "A text, or a list of items: messages, `reasoning`, `function_call`, "
            "`function_call_output`.",
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}],
        }
    ),
]
_KINDS: Final = {str: "a text", bool: "true or false"}
_STRICT: Final = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)


class TextConfig(BaseModel):
    """The form of the answer's text."""

    model_config = _STRICT

    format: dict[str, Any] | None = Field(
        None,
        description='`{"type": ...}`: text, json_object, or json_schema with `name` and `schema`.',
    )


class Reasoning(BaseModel):
    """How the model is to think."""

    model_config = _STRICT

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = Field(
        None, description="none and minimal turn thinking off, the others on."
    )


class ResponsesRequest(ChatExtras, Labels):
    """A response that is asked for."""

    model_config = _STRICT

    said = "input"

    input: Input = Field(examples=["Say hello."])
    instructions: str | None = Field(None, description="The system's message, before the input.")
    max_output_tokens: int | None = Field(None, ge=1)
    tools: list[dict[str, Any]] | None = Field(
        None, description='Functions: `{"type": "function", "name": ..., "parameters": ...}`.'
    )
    tool_choice: str | dict[str, Any] | None = Field(
        None, description="none, auto, required, a function by its name, or `allowed_tools`."
    )
    parallel_tool_calls: bool | None = None
    text: TextConfig | None = None
    reasoning: Reasoning | None = None
    top_logprobs: int | None = Field(None, ge=0, le=20)
    include: list[str] | None = Field(None, description=f"`{LOGPROBS}`, `{_ENCRYPTED}`.")
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    max_tool_calls: int | None = Field(None, description="Counts built-in tools: there are none.")
    store: bool | None = Field(None, description="Nothing is stored, whatever is asked for.")

    @model_validator(mode="before")
    @classmethod
    def _finite(cls, body: Any) -> Any:
        """Refuse what Python reads as a number and JSON does not know: it could not come back."""
        left = [body]
        while left:
            value = left.pop()
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError("NaN and infinity are no JSON")
            if isinstance(value, dict | list):
                left += value.values() if isinstance(value, dict) else value
        return body

    @property
    def wants_logprobs(self) -> bool:
        """Whether the answer's tokens are to come with their likelihood."""
        return self.top_logprobs is not None or LOGPROBS in (self.include or ())

    @property
    def effort(self) -> str | None:
        """How hard to think."""
        return self.reasoning.effort if self.reasoning is not None else None

    def check(self) -> None:
        """Raise RequestError for what cannot be honoured, by its name."""
        refuse_unsupported(self.model_extra, UNSUPPORTED)
        for name, part in (
            ("reasoning", self.reasoning and self.reasoning.model_extra),
            ("stream_options", self.stream_options),
            ("text", self.text and self.text.model_extra),
        ):
            refuse_unsupported({f"{name}.{key}": v for key, v in (part or {}).items()}, UNSUPPORTED)
        for index, tool in enumerate(self.tools or ()):
            at = f"tools[{index}]"
            for key, row in TOOL_UNSUPPORTED.items():
                refuse_unsupported({f"{at}.{key}": tool.get(key)}, {f"{at}.{key}": row})
        for index, wanted in enumerate(self.include or ()):
            if wanted not in (LOGPROBS, _ENCRYPTED):
                raise RequestError(
                    f"`include` cannot have `{wanted}`: there is nothing of that kind here",
                    param=f"include[{index}]",
                    code="unsupported_value",
                )

    def read_tools(self) -> tuple[Tool, ...]:
        """The functions. Raises RequestError, naming the place."""
        given = enumerate(self.tools or ())
        read = [_reading(f"tools[{at}]", partial(Tool.from_dict, tool)) for at, tool in given]
        return _reading("tools", lambda: checked(read))

    def read_format(self) -> ResponseFormat | None:
        """The form of the text. Raises RequestError."""
        given = self.text.format if self.text is not None else None
        for name, kind in (("name", str), ("description", str), ("strict", bool)):
            if given is not None and not isinstance(given.get(name), kind | None):
                raise RequestError(
                    f"`text.format.{name}` is {_KINDS[kind]}",
                    param=f"text.format.{name}",
                    code="invalid_value",
                )
        return _reading("text.format", lambda: ResponseFormat.from_dict(given))

    def options(self, state: ServerState) -> AnswerOptions:
        """How to answer. Raises RequestError, naming the field."""
        sampling, form, tools = self.sampling(state), self.read_format(), self.read_tools()
        if sampling.grammar and form is not None:
            raise RequestError(
                "a grammar and `text.format` are both given: send one of them",
                param="text.format",
                code="invalid_value",
            )
        choice = _reading("tool_choice", lambda: ToolChoice.from_dict(self.tool_choice))
        _reading("tool_choice", lambda: choice.pick(tools))
        return AnswerOptions(
            sampling=sampling,
            max_tokens=self.max_output_tokens,
            think=self.thinks(self.effort),
            tools=tools,
            tool_choice=choice,
            parallel_tool_calls=self.parallel_tool_calls is not False,
            response_format=form,
            template_variables=self.variables(self.effort),
            logprobs=(self.top_logprobs or 0) if self.wants_logprobs else None,
            separate_reasoning=self.separates_reasoning(),
        )


def _reading(param: str, read: Callable[[], T]) -> T:
    """What `read` gives. Raises its UsageError as one about the field `param`."""
    try:
        return read()
    except UsageError as exc:
        code = "invalid_json_schema" if isinstance(exc, SchemaError) else "invalid_value"
        raise RequestError(exc.message, param=param, code=code, hint=exc.hint) from exc
