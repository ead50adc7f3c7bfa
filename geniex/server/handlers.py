"""Every way in which a request can fail, turned into an answer with the error body."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from geniex.server.errors import ErrorBody, RequestError, describe, note
from geniex_catalogue.errors import GenieXError, LoadError, ModelNotFoundError, ServerBusyError
from geniex_runtimes.errors import GenerationError

if TYPE_CHECKING:
    from geniex.server.state import ServerState

_SHOWN = 3  # problems of one request
_FIELD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# what pydantic calls the members of a union, between the names of fields
_TYPES = frozenset(
    {"str", "int", "float", "bool", "bytes", "list", "dict", "tuple", "NoneType", "none", "any"}
)


def answer(error: BaseException) -> JSONResponse:
    """The answer to a request that failed; what is our fault is noted in the log."""
    status, body, headers = describe(error)
    note(error, status)
    return respond(status, body, headers)


def respond(status: int, body: ErrorBody, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """An answer with the error body."""
    return JSONResponse(body.model_dump(), status, headers)


def install(app: FastAPI, state: ServerState) -> None:
    """Have the app answer all that its routes raise."""

    async def ours(request: Request, exc: Exception) -> JSONResponse:
        if state.draining and isinstance(exc, GenerationError | LoadError):
            # it was the end that took the model away
            exc = ServerBusyError("the server has ended this answer, as it ends itself")
        if isinstance(exc, ModelNotFoundError) and not exc.suggestions:
            exc = await run_in_threadpool(_with_suggestions, exc, state)
        return answer(exc)

    async def invalid(request: Request, exc: Exception) -> JSONResponse:
        assert isinstance(exc, RequestValidationError)
        return answer(_invalid(exc, request.headers.get("content-type")))

    async def refused(request: Request, exc: Exception) -> JSONResponse:
        assert isinstance(exc, HTTPException)
        error = _refused(exc, request)
        status, body, _ = describe(error)
        return respond(status, body, exc.headers)

    app.add_exception_handler(GenieXError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, refused)


def _refused(exc: HTTPException, request: Request) -> RequestError:
    where = f"{request.method} {request.url.path}"
    match exc.status_code:
        case 404:
            message, code = f"there is no route `{where}`; `GET /` lists them", "route_not_found"
        case 405:
            message = f"`{request.url.path}` does not take {request.method}"
            code = "method_not_allowed"
        case 400:
            # how FastAPI tells of JSON that is too deep, or is no UTF-8
            message, code = "the body cannot be read as JSON", "invalid_json"
        case 408:
            message, code = str(exc.detail), "request_timeout"
        case 413:
            message, code = str(exc.detail), "request_too_large"
        case status:
            message, code = str(exc.detail) or HTTPStatus(status).phrase, "invalid_request"
    return RequestError(message, code=code, status=exc.status_code)


def _invalid(exc: RequestValidationError, content_type: str | None) -> RequestError:
    """What pydantic found wrong with a request, the first field being `param`."""
    errors: Sequence[Mapping[str, Any]] = exc.errors()
    if any(error["type"] == "json_invalid" for error in errors):
        what = errors[0].get("ctx", {}).get("error", "it does not parse")
        return RequestError(f"the body is not valid JSON: {what}", code="invalid_json")
    if isinstance(exc.body, bytes) and exc.body:
        given = f"`{content_type}`" if content_type else "none"
        return RequestError(
            f"the body must be JSON, with the header `Content-Type: application/json`, not {given}",
            code="invalid_content_type",
        )
    if errors[0]["loc"] == ("body",) and errors[0]["type"] == "missing":
        return RequestError("there is no body: send JSON", code="missing_required_parameter")
    problems: dict[str, str] = {}
    for error in errors:
        name = _name(error["loc"])
        problems.setdefault(name, f"`{name}`: {_sentence(error)}" if name else _sentence(error))
    shown = [*problems.values()][:_SHOWN]
    if len(problems) > _SHOWN:
        shown.append(f"and {len(problems) - _SHOWN} more")
    missing = errors[0]["type"] == "missing"
    return RequestError(
        "; ".join(shown),
        param=next(iter(problems)) or None,
        code="missing_required_parameter" if missing else "invalid_value",
    )


def _sentence(error: Mapping[str, Any]) -> str:
    cause = error.get("ctx", {}).get("error")
    # a ValueError of a validator: pydantic puts its own words before it
    return str(cause) if isinstance(cause, Exception) else str(error["msg"])


def _name(place: Sequence[str | int]) -> str:
    """Where in the body: `messages[0].content`, without pydantic's names for union members."""
    name = ""
    for part in place[1:]:
        if isinstance(part, int):
            name += f"[{part}]"
        elif not _FIELD.fullmatch(part) or part in _TYPES:
            break
        else:
            name += f".{part}" if name else part
    return name


def _with_suggestions(error: ModelNotFoundError, state: ServerState) -> ModelNotFoundError:
    """The same error, with names that are here and alike."""
    from geniex.server.models.listing import names_like

    try:
        error.suggestions = names_like(error.name, state.settings)
    except GenieXError:
        return error  # the store does not read: the first error is the one to tell
    return error
