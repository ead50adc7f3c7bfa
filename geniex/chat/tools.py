"""Tools: what a model may call, and what the caller wants it to do with them."""

import json
import re
import secrets
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self, TypeAlias

from geniex_catalogue.errors import UsageError

Mode: TypeAlias = Literal["none", "auto", "required"]

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_NAME_RULE = "up to 128 letters, digits, `_`, `-` or `.`"
_FORM = 'it looks like {"type": "function", "function": {"name": "weather", "parameters": {...}}}'
_ID_LETTERS = string.ascii_letters + string.digits
_ID_LENGTH = 24


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call; `parameters` is the JSON schema of its arguments.

    `strict`: the caller counts on arguments that fit the schema.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    strict: bool = False

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read a tool in the OpenAI form. Raises UsageError for what is not one."""
        if not isinstance(data, Mapping):
            raise UsageError(f"a tool is an object, not {type(data).__name__}", hint=_FORM)
        if (kind := data.get("type", "function")) != "function":
            raise UsageError(
                f"tools of type `{kind}` are not supported", hint="only functions can be called"
            )
        function = data.get("function", data)  # the Responses API has the fields on the tool itself
        if not isinstance(function, Mapping):
            raise UsageError("a tool needs a `function`", hint=_FORM)
        name = function.get("name")
        if not isinstance(name, str) or not name:
            raise UsageError("a tool's `function` needs a `name`", hint=_FORM)
        if not _NAME.fullmatch(name):
            raise UsageError(f"a tool cannot be named `{name}`", hint=f"a name is {_NAME_RULE}")
        description, strict = function.get("description"), function.get("strict")
        parameters = function.get("parameters")
        if not isinstance(description, str | None):
            raise UsageError(f"the `description` of the tool `{name}` is text")
        if not isinstance(parameters, Mapping | None):
            raise UsageError(f"the `parameters` of the tool `{name}` are a JSON schema")
        if parameters and parameters.get("type", "object") != "object":
            raise UsageError(f"the `parameters` of the tool `{name}` must be of type object")
        if not isinstance(strict, bool | None):
            raise UsageError(f"`strict` of the tool `{name}` is true or false")
        return cls(name, description or "", parameters or {}, bool(strict))

    def as_dict(self) -> dict[str, object]:
        """The OpenAI form, as templates read it: every field is there."""
        parameters = {"type": "object", "properties": {}, **self.parameters}
        function: dict[str, object] = {"name": self.name, "description": self.description}
        return {"type": "function", "function": {**function, "parameters": parameters}}


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether the model calls: `none` never, `auto` as it likes, `required` at least one tool.

    `names` narrows the tools down to these; none of them is all of them.
    """

    mode: Mode = "auto"
    names: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, value: object) -> Self:
        """Read the OpenAI form, text or object. Raises UsageError for what is not one."""
        if value is None:
            return cls()
        if value in ("none", "auto", "required"):
            return cls(value)
        if isinstance(value, Mapping):
            if value.get("type") == "function":
                return cls("required", (_chosen(value),))
            if value.get("type") == "allowed_tools":
                return cls._allowed(value.get("allowed_tools", value))
        shown = value if isinstance(value, str) else json.dumps(value, default=str)
        raise UsageError(
            f"`{shown}` is no `tool_choice`",
            hint="use none, auto, required, or a function by its name",
        )

    @classmethod
    def _allowed(cls, value: object) -> Self:
        tools = value.get("tools") if isinstance(value, Mapping) else None
        mode = value.get("mode") if isinstance(value, Mapping) else None
        if mode not in ("auto", "required") or not isinstance(tools, Sequence) or not tools:
            raise UsageError("`allowed_tools` needs `mode` (auto or required) and `tools`")
        return cls(mode, tuple(_chosen(tool) for tool in tools))

    def pick(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        """The tools that may be called. Raises UsageError for a choice that cannot be met."""
        known = {tool.name: tool for tool in tools}
        for name in self.names:
            if name not in known:
                listed = ", ".join(sorted(known)) or "none"
                raise UsageError(
                    f"`tool_choice` names `{name}`, which is not in `tools`",
                    hint=f"the tools are: {listed}",
                )
        if self.mode == "required" and not tools:
            raise UsageError("`tool_choice` is required, but there are no `tools`")
        if self.mode == "none":
            return ()
        return tuple(known[name] for name in dict.fromkeys(self.names)) or tuple(tools)


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """A piece of a tool call; the first one of each has `id` and `name`, later ones do not.

    `index` counts the answer's calls. The pieces' `arguments` add up to JSON text.
    """

    index: int
    id: str | None
    name: str | None
    arguments: str


def new_call_id() -> str:
    """An id that no other call has."""
    return "call_" + "".join(secrets.choice(_ID_LETTERS) for _ in range(_ID_LENGTH))


def checked(tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """The tools as they are. Raises UsageError where two have one name."""
    seen: set[str] = set()
    for tool in tools:
        if tool.name in seen:
            raise UsageError(f"two tools are named `{tool.name}`")
        seen.add(tool.name)
    return tuple(tools)


def _chosen(value: object) -> str:
    """The name in a choice of one function."""
    if isinstance(value, Mapping):
        function = value.get("function", value)
        name = function.get("name") if isinstance(function, Mapping) else None
        if isinstance(name, str) and name:
            return name
    raise UsageError("a `tool_choice` of one function needs its `name`")
