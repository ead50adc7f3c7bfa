"""The response object before anything is generated."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from geniex.chat.tools import Tool, ToolChoice
from geniex.server.responses.output import Json, new_id
from geniex.server.responses.protocol import ResponsesRequest


class ResponseObject(BaseModel):
    """What a response looks like: the fields that clients read most. All others are there, too."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(examples=["resp_8c1f"])
    object: Literal["response"]
    created_at: int = Field(description="Seconds since the epoch.")
    status: Literal["completed", "incomplete"]
    incomplete_details: dict[str, Any] | None
    model: str = Field(examples=["geniex/tiny-chat:Q8_0"])
    output: list[dict[str, Any]] = Field(
        description="Items: `message`, `reasoning`, `function_call`."
    )
    usage: dict[str, Any]
    geniex: dict[str, Any] = Field(
        description="What ran, how fast, how it speculated, and warnings."
    )


def skeleton(request: ResponsesRequest, model: str, created: int) -> Json:
    """The response of the model of that name, `created` in seconds, with no output yet."""
    return {
        "id": new_id("resp"),
        "object": "response",
        "created_at": created,
        "completed_at": None,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "max_tool_calls": request.max_tool_calls,
        "model": model,
        "output": [],
        "parallel_tool_calls": request.parallel_tool_calls is not False,
        "previous_response_id": None,
        "prompt_cache_key": request.prompt_cache_key,
        "reasoning": {"effort": request.effort, "summary": None},
        "safety_identifier": request.safety_identifier,
        "service_tier": "default",
        "store": False,
        "temperature": request.temperature,
        "text": {"format": _format(request), "verbosity": "medium"},
        "tool_choice": _choice(request),
        "tools": [_tool(tool) for tool in request.read_tools()],
        "top_logprobs": request.top_logprobs or 0,
        "top_p": request.top_p,
        "truncation": "disabled",
        "usage": None,
        "user": request.user,
        "metadata": request.metadata or {},
    }


def _tool(tool: Tool) -> Json:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description or None,
        "parameters": dict(tool.parameters),
        "strict": tool.strict,
    }


def _choice(request: ResponsesRequest) -> Any:
    given = request.tool_choice
    if not isinstance(given, dict):
        return given or "auto"
    choice = ToolChoice.from_dict(given)
    named = [{"type": "function", "name": name} for name in choice.names]
    if given.get("type") == "function":
        return named[0]
    return {"type": "allowed_tools", "mode": choice.mode, "tools": named}


def _format(request: ResponsesRequest) -> Json:
    form = request.read_format()
    given = request.text.format if request.text is not None else None
    if form is None or given is None:
        return {"type": "text"}
    if form.kind == "json_object":
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "name": given.get("name") or "response",
        "description": given.get("description"),
        "schema": form.schema,
        "strict": given.get("strict"),
    }
