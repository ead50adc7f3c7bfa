"""Reading the JSON of a request: what other readers could read in another way is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

MAX_VALUES = 500_000  # each takes time from everybody, and up to a kilobyte
MAX_DEPTH = 200  # objects and lists within each other; a schema may take 60, three for each


class StrictRoute(APIRoute):
    """A route whose bodies are strict JSON: no name twice, no NaN, not too deep."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, given requests that read so."""
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return strict


class _StrictRequest(Request):
    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = loads(await self.body())
        return self._json


def loads(body: bytes) -> Any:
    """The value. Raises json.JSONDecodeError."""
    # those within texts are counted too: a text with so many is longer than a context
    if sum(map(body.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise _fault(f"it has more than {MAX_VALUES} commas and brackets")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise json.JSONDecodeError("it is not UTF-8", "", exc.start) from None
    try:
        value = _decoder.decode(text.removeprefix("\ufeff"))
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise _fault("it is nested too deeply") from None
    except ValueError as exc:
        # a number with thousands of digits, or what the hooks below refuse
        raise _fault(str(exc)) from None
    if _is_deep(value):
        raise _fault("it is nested too deeply")
    return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        nested = [one for one in level if isinstance(one, dict | list)]
        if not nested:
            return False
        level = [
            inner
            for one in nested
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
    return True


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            raise ValueError(f"`{name[:64]}` is given twice")
        made[name] = value
    return made


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _fault(text: str) -> json.JSONDecodeError:
    return json.JSONDecodeError(text, "", 0)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:64]} is too large a number")
    return number


_decoder = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite)
