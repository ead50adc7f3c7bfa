"""The official client's own types as a judge: every object must be exactly of its shape."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import BaseModel, TypeAdapter

# what the types do not know: our own object, how reasoning is told by all who tell it, and a field
# of the API that the client's types have lost
EXTENSIONS = frozenset({"geniex", "reasoning_content", "store"})


def strictly(kind: Any, data: str | bytes) -> Any:
    """The object of that type in a JSON text: no field has another type, none is unknown."""
    value = _adapter(kind).validate_json(data, strict=True)
    unknown = [name for name in _extras(value, "") if name.rpartition(".")[2] not in EXTENSIONS]
    assert not unknown, f"{kind} does not know {unknown} in {data!r}"
    return value


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _extras(value: object, place: str) -> Iterator[str]:
    """The fields that are not of the type, as paths."""
    if isinstance(value, BaseModel):
        yield from (f"{place}.{name}" for name in value.model_extra or ())
        for name in type(value).model_fields:
            yield from _extras(getattr(value, name), f"{place}.{name}")
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _extras(each, f"{place}[{index}]")
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _extras(each, f"{place}.{name}")
