"""Fields of more than one form, and what is wrong with a value in words of its own.

Where a value is in none of a field's forms, pydantic tells what is wrong with it as the first one.
"""

from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, Field

MAX_PROMPTS: Final = 2048
_MAX_STOPS: Final = 64

_StopText = Annotated[str, Field(min_length=1)]


def _stop(value: Any) -> Any:
    texts = [value] if isinstance(value, str) else value
    if texts is None:
        return value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError("it takes a text or a list of texts")
    if "" in texts:
        raise ValueError("an empty stop string is not allowed")
    if len(texts) > _MAX_STOPS:
        raise ValueError(f"no more than {_MAX_STOPS} stop strings are allowed")
    return value


def check_inputs(value: Any) -> Any:
    """Raise ValueError for an empty list, too many inputs, or what is neither a text nor a list."""
    if not isinstance(value, str | list):
        raise ValueError("it takes a text or token ids, or a list of either")
    if value == []:
        raise ValueError("an empty list is not allowed")
    if isinstance(value, list) and [] in value:
        raise ValueError("an empty list of tokens is not allowed")
    # before each of them is held against each form that it may have
    many = isinstance(value, list) and len(value) > MAX_PROMPTS
    if many and not all(isinstance(one, int) for one in value):
        raise ValueError(f"no more than {MAX_PROMPTS} inputs are allowed")
    return value


def check_full_inputs(value: Any) -> Any:
    """Raise ValueError as `check_inputs`, and for an empty text."""
    if value == "" or (isinstance(value, list) and "" in value):
        raise ValueError("an empty text is not allowed")
    return check_inputs(value)


Stop = Annotated[
    _StopText | Annotated[list[_StopText], Field(max_length=_MAX_STOPS)] | None,
    BeforeValidator(_stop),
]
Metadata = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]],
    Field(max_length=16),
]


class Labels(BaseModel):
    """What a client may note on a request; it changes no answer."""

    metadata: Metadata | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
