"""What `POST /v1/responses` takes, and what is refused by name.

Every documented field is here: it is honoured, or it changes nothing of an answer, or its value is
refused. Fields that nobody knows are ignored; null is the same as absent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from geniex.server.errors import RequestError
from geniex.server.fields import Extras
from geniex_catalogue.errors import UsageError

T = TypeVar("T")

LOGPROBS = "message.output_text.logprobs"
# what this asks for is in the reasoning items as plain text already
_ENCRYPTED = "reasoning.encrypted_content"
_STATELESS = "nothing is stored between requests: send the whole conversation as `input`"

Metadata = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]],
    Field(max_length=16),
]


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


EXAMPLES: dict[str, Any] = {
    "text": {
        "summary": "A question",
        "value": {
            "model": "geniex/tiny-chat:Q8_0",
            "input": "What is the capital of France?",
            "temperature": 0,
        },
    },
}


class Part(BaseModel):
    """An object within the request, as strict as the request itself."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class TextConfig(Part):
    """The form of the answer's text."""

    format: dict[str, Any] | None = Field(
        None, description='`{"type": ...}`: text, json_object, or json_schema with `schema`.'
    )
    verbosity: Literal["low", "medium", "high"] | None = Field(
        None, description="Only `medium` is supported: models here know no other."
    )


class ReasoningConfig(Part):
    """How the model is to think."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = Field(
        None, description="`none` and `minimal` turn thinking off, where the model can be told."
    )
    summary: Literal["auto", "concise", "detailed"] | None = Field(
        None, description="Only `auto`: the reasoning itself is given, there are no summaries."
    )
    generate_summary: Literal["auto", "concise", "detailed"] | None = None
    context: Literal["auto", "current_turn", "all_turns"] | None = None
    mode: str | None = None


class StreamOptions(Part):
    """How to stream."""

    include_obfuscation: bool | None = None


class ResponsesRequest(Extras):
    """A request for a response."""

    input: Input = Field(examples=["Say hello."])
    instructions: str | None = Field(None, description="The system's message, before the input.")
    max_output_tokens: int | None = Field(None, ge=1)
    tools: list[dict[str, Any]] | None = Field(
        None, description='Functions: `{"type": "function", "name", "parameters"}`.'
    )
    tool_choice: str | dict[str, Any] | None = Field(
        None, description="none, auto, required, a function, or `allowed_tools`."
    )
    parallel_tool_calls: bool | None = None
    text: TextConfig | None = None
    reasoning: ReasoningConfig | None = None
    enable_think: bool | None = Field(None, description="Whether to think, over `reasoning`.")
    chat_template_kwargs: dict[str, Any] | None = Field(
        None, description="Variables for the model's chat template."
    )
    top_logprobs: int | None = Field(None, ge=0, le=20)
    include: list[str] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    # these change no answer
    metadata: Metadata | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    max_tool_calls: int | None = Field(None, description="Counts built-in tools: there are none.")
    store: bool | None = Field(None, description="Nothing is stored, whatever is asked for.")
    service_tier: str | None = None
    truncation: Literal["auto", "disabled"] | None = None
    prompt_cache_retention: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    # these are refused
    previous_response_id: str | None = None
    conversation: str | dict[str, Any] | None = None
    background: bool | None = None
    background_options: dict[str, Any] | None = None
    prompt: dict[str, Any] | None = None
    context_management: list[dict[str, Any]] | None = None
    access_programs: dict[str, Any] | None = None
    image: dict[str, Any] | None = None
    moderation: dict[str, Any] | None = None

    @property
    def wants_logprobs(self) -> bool:
        """Whether the answer's tokens are to come with their likelihood."""
        return self.top_logprobs is not None or LOGPROBS in (self.include or ())


@dataclass(frozen=True, slots=True)
class Refusal:
    """A field whose value, unless it is one of `takes`, is refused with `reason`."""

    reason: str
    takes: tuple[object, ...] = ()


_TAKEN_ALONE = "only {} is supported"

REFUSALS: dict[str, Refusal] = {
    "previous_response_id": Refusal(_STATELESS),
    "conversation": Refusal(_STATELESS),
    "background": Refusal("answers are not made in the background", (False,)),
    "background_options": Refusal("answers are not made in the background"),
    "prompt": Refusal("there are no stored prompts"),
    "context_management": Refusal("contexts are not compacted", ([],)),
    "access_programs": Refusal("there are no access programs"),
    "image": Refusal("models here read text only"),
    "moderation": Refusal("there is no moderation"),
    "truncation": Refusal(_TAKEN_ALONE.format("`disabled`"), ("disabled",)),
    "service_tier": Refusal(_TAKEN_ALONE.format("`auto` or `default`"), ("auto", "default")),
    "prompt_cache_retention": Refusal(_TAKEN_ALONE.format("`in_memory`"), ("in_memory",)),
    "prompt_cache_options": Refusal("prompts are cached without options", ({},)),
    "text.verbosity": Refusal(_TAKEN_ALONE.format("`medium`"), ("medium",)),
    "reasoning.summary": Refusal("reasoning is not summarised; use `auto`", ("auto",)),
    "reasoning.generate_summary": Refusal("reasoning is not summarised; use `auto`", ("auto",)),
    "reasoning.context": Refusal(_TAKEN_ALONE.format("`auto`"), ("auto",)),
    "reasoning.mode": Refusal(_TAKEN_ALONE.format("`standard`"), ("standard",)),
    "stream_options.include_obfuscation": Refusal("streams are not obfuscated", (False,)),
}

# the same for a tool's own fields
TOOL_REFUSALS: dict[str, Refusal] = {
    "allowed_callers": Refusal(_TAKEN_ALONE.format('["direct"]'), (["direct"],)),
    "async": Refusal("calls do not run beside the answer", (False,)),
    "defer_loading": Refusal("tools are not loaded later", (False,)),
    "output_schema": Refusal("models are not told of it"),
}


def refuse(request: ResponsesRequest) -> None:
    """Raise RequestError for the first field that asks for what is not there."""
    for path, refusal in REFUSALS.items():
        value: Any = request
        for name in path.split("."):
            value = getattr(value, name, None)
        _refuse_value(path, value, refusal)
    for index, tool in enumerate(request.tools or ()):
        for name, refusal in TOOL_REFUSALS.items():
            _refuse_value(f"tools[{index}].{name}", tool.get(name), refusal)
    for index, wanted in enumerate(request.include or ()):
        if wanted not in (LOGPROBS, _ENCRYPTED):
            raise RequestError(
                f"`include` cannot have `{wanted}`: there is nothing of that kind here",
                param=f"include[{index}]",
                code="unsupported_value",
            )


def _refuse_value(path: str, value: object, refusal: Refusal) -> None:
    if value is not None and value not in refusal.takes:
        raise RequestError(
            f"`{path}` is not supported: {refusal.reason}", param=path, code="unsupported_parameter"
        )


def reading(param: str, read: Callable[[], T]) -> T:
    """What `read` gives. Raises its UsageError as one about the field `param`."""
    try:
        return read()
    except UsageError as exc:
        raise RequestError(exc.message, param=param, code="invalid_value", hint=exc.hint) from exc
