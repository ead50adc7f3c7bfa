"""The one table from error classes to HTTP status and OpenAI error body.

Every body is `{"error": {"message", "type", "param", "code"}}`. Errors speak of flags, as the
terminal does: here they are told with the names of the fields, and without the paths of this
machine.
"""

import errno
import logging
import math
import re
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field

from geniex.server.observed import observed
from geniex.server.request_id import current_request_id
from geniex.server.unforeseen import untold
from geniex_catalogue import errors as e
from geniex_runtimes import errors as r

_log = logging.getLogger("geniex.server")

INVALID, FAILED = "invalid_request_error", "server_error"


class ErrorDetail(BaseModel):
    """What is wrong; `param` is the field that it is about, `code` a word for programs."""

    message: str
    type: str = Field(examples=[INVALID])
    param: str | None = None
    code: str | None = None


class ErrorBody(BaseModel):
    """The body of every answer that is an error."""

    error: ErrorDetail


class RequestError(e.GenieXError):
    """Raised for a request that cannot be honoured; `param` is the field, `code` its kind."""

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        status: int = 400,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.param = param
        self.code = code
        self.status = status


@dataclass(frozen=True, slots=True)
class Row:
    """How a class of errors is answered; a 5xx with `retry` says when to come again."""

    status: int
    code: str
    param: str | None = None
    retry: bool = False


# what any route may answer beside its own, for the OpenAPI document
ANSWERS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": text}
    for status, text in {
        400: "The request cannot be honoured",
        401: "The API key is missing or wrong",
        403: "The request comes from a web page that may not call",
        404: "There is no such model or route",
        405: "The route does not take this method",
        408: "The body did not come in time",
        413: "The body is too large",
        415: "The body is compressed",
        421: "The server is called by a name that is not this machine's",
        500: "The server failed",
        503: "The server is busy or about to end; `Retry-After` says when to come again",
    }.items()
}

_NOT_FOUND = Row(404, "model_not_found", "model")

ROWS: dict[type[e.GenieXError], Row] = {
    e.GenieXError: Row(500, "internal_error"),
    e.UsageError: Row(400, "invalid_value"),
    e.SchemaError: Row(400, "unsupported_schema", "response_format"),
    e.ModelRefError: _NOT_FOUND,
    e.ModelNotFoundError: _NOT_FOUND,
    e.ModelPathError: _NOT_FOUND,
    e.DraftNotFoundError: Row(400, "draft_model_not_found", "spec_draft_model"),
    e.PrecisionNotFoundError: _NOT_FOUND,
    e.AmbiguousModelError: Row(400, "model_ambiguous", "model"),
    e.CatalogueError: Row(500, "internal_error"),
    e.StoreError: Row(500, "store_error"),
    e.ManifestError: Row(500, "store_error"),
    e.StoreBusyError: Row(503, "model_changing", "model", retry=True),
    e.ModelFileError: Row(500, "model_unusable"),
    e.GGUFError: Row(500, "model_unusable"),
    e.IncompleteShardsError: Row(500, "model_unusable"),
    e.HubError: Row(500, "hub_error"),
    e.HubAuthError: Row(500, "hub_error"),
    e.HubNotFoundError: Row(500, "hub_error"),
    e.HubRateLimitError: Row(500, "hub_error"),
    e.HubOfflineError: Row(500, "hub_error"),
    e.ChipsetError: Row(500, "hub_error"),
    e.NotCompiledError: Row(500, "hub_error"),
    e.LicenceError: Row(500, "hub_error"),
    e.TransferError: Row(500, "transfer_failed"),
    e.ChecksumError: Row(500, "transfer_failed"),
    e.DiskSpaceError: Row(500, "disk_full"),
    r.NoRuntimeError: Row(400, "no_runtime", "model"),
    r.RuntimeNotInstalledError: Row(500, "runtime_not_installed"),
    e.LoadError: Row(500, "model_load_failed"),
    e.RoleError: Row(400, "model_not_usable", "model"),
    e.BundleError: Row(500, "model_unusable"),
    r.BundleTargetError: Row(400, "model_not_usable", "model"),
    e.LoadCancelledError: Row(503, "model_load_cancelled", retry=True),
    r.MemoryBudgetError: Row(400, "insufficient_memory", "model"),
    e.ServerBusyError: Row(503, "server_busy", retry=True),
    e.AddressError: Row(500, "internal_error"),
    e.ServerError: Row(500, "internal_error"),
    e.ServerUnreachableError: Row(500, "internal_error"),
    # a draft that is here and does not fit, for which clients know one code
    r.SpeculativeError: Row(400, "draft_model_not_found", "spec_draft_model"),
    r.ContextLengthError: Row(400, "context_length_exceeded", "messages"),
    e.TemplateError: Row(400, "template_error", "messages"),
    r.GenerationError: Row(500, "generation_failed"),
    r.WorkerCrashedError: Row(500, "worker_crashed"),
    r.WorkerRestingError: Row(503, "worker_crashed", retry=True),
}

# hints that are said in other words, or for the terminal
_VAGUE = ("did you mean", "a name looks like")
_COMMANDS = ("`geniex infer", " -m pip install ")
_NO_FILES = (errno.EMFILE, errno.ENFILE)
_LONGEST = 4000  # characters of a message
_RETRY_AFTER = 1.0  # seconds, where an error does not know better

# flags of the terminal whose fields have other names
_FIELDS = {
    "spec-type": "spec_type",
    "draft-model": "spec_draft_model",
    "draft-tokens": "spec_n_max",
    "draft-min": "spec_n_min",
    "draft-p-min": "spec_p_min",
    "require-spec": "require_spec",
    "nctx": "nctx",
    "ngl": "ngl",
    "compute": "compute",
    "require": "require",
}
_FLAG = re.compile(r"--([a-z][a-z-]*[a-z])")
_ROOT = r"(?:[A-Za-z]:[\\/]|\\\\|~[\\/]|/)"
_QUOTED_PATH = re.compile(rf"([`'\"]){_ROOT}[^`'\"]*?([^\\/`'\"]*)\1")
# not the routes that a text speaks of, nor places in a schema (`#/$defs/x`)
_PLAIN_PATH = re.compile(
    rf"(?<!GET )(?<!POST )(?<![\w.:/\\`'\"~#-]){_ROOT}(?:[^\s\\/`'\"]+[\\/])+([^\s\\/`'\":;,]*)"
)


def row_of(kind: type[e.GenieXError]) -> Row:
    """The row of a class, or of its nearest base."""
    return next(ROWS[base] for base in kind.__mro__ if base in ROWS)


def describe(error: BaseException) -> tuple[int, ErrorBody, dict[str, str]]:
    """Status, body and headers of an error; what is not ours says no more than that it failed."""
    if isinstance(error, RequestError):
        text = _FLAG.sub(_field_of, _with_hint(error.message, error.hint))
        return error.status, _body(error.status, text, error.param, error.code), {}
    if _lacks_files(error):
        error = e.ServerBusyError("the server has as many files open as the system lets it")
    if not isinstance(error, e.GenieXError):
        return 500, _body(500, _failure(error), None, "internal_error"), {}
    row = row_of(type(error))
    headers = {}
    if row.retry:
        seconds = getattr(error, "retry_after", _RETRY_AFTER)
        headers["retry-after"] = str(max(1, math.ceil(seconds)))
    return row.status, _body(row.status, _text(error), row.param, row.code), headers


def note(error: BaseException, status: int) -> None:
    """Write an error that is our fault to the log, with the request that met it."""
    observed().error = type(error).__name__
    if _lacks_files(error):
        _log.warning("request %s was turned away: %s", current_request_id(), error)
    elif status >= 500 and not isinstance(error, e.ServerBusyError):
        name = current_request_id()
        if isinstance(error, e.GenieXError):
            _log.error("request %s failed: %s", name, error)
        else:
            _log.error("request %s failed", name, exc_info=untold(error))


def _lacks_files(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in _NO_FILES


def without_paths(text: str) -> str:
    """Text with the file names of this machine, but not their folders."""
    text = _QUOTED_PATH.sub(r"\1\2\1", text)
    return _PLAIN_PATH.sub(r"\1", text)


def _body(status: int, message: str, param: str | None, code: str | None) -> ErrorBody:
    if len(message) > _LONGEST:
        # what a request says is said again, but not at any length
        message = f"{message[: _LONGEST // 2]} ... {message[-_LONGEST // 2 :]}"
    # a lone surrogate cannot be sent
    message = message.encode("utf-8", "replace").decode()
    kind = FAILED if status >= 500 else INVALID
    return ErrorBody(error=ErrorDetail(message=message, type=kind, param=param, code=code))


def _text(error: e.GenieXError) -> str:
    if isinstance(error, r.ContextLengthError):
        least = "at least " if error.at_least else ""
        more = ": the context of a bundle is fixed." if error.fixed else ", or raise `nctx`."
        return (
            f"This model's maximum context length is {error.context_length} tokens. However, you "
            f"requested {least}{error.prompt_tokens} tokens in the prompt. Please shorten the "
            f"prompt{more}"
        )
    text = _with_hint(error.message, _hint(error)).replace("`geniex list`", "`GET /v1/models`")
    return without_paths(_FLAG.sub(_field_of, text))


def _hint(error: e.GenieXError) -> str | None:
    """The error's own hint; for a model that is not here, how it would get here, too."""
    if error.hint is not None and any(word in error.hint for word in _COMMANDS):
        return None  # a command line is no help to a client
    if isinstance(error, e.ModelNotFoundError) and not isinstance(error, e.ModelPathError):
        return _way_to(error)
    return error.hint


def _way_to(error: e.ModelNotFoundError) -> str:
    """The next step for a model that is not here: the names that are alike, or how it gets here."""
    hint = error.hint
    if hint is None or hint.startswith(_VAGUE):
        hint = "`geniex pull org/repo` on the server fetches a model"
    if not error.suggestions:
        return hint
    near = " or ".join(f"`{name}`" for name in error.suggestions)
    return f"did you mean {near}? If not, {hint}"


def _field_of(flag: re.Match[str]) -> str:
    return _FIELDS.get(flag[1], flag[0])


def _with_hint(message: str, hint: str | None) -> str:
    return f"{message}. {hint[:1].upper()}{hint[1:]}" if hint else message


def _failure(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "the machine is out of memory"
    return f"the server failed at this request; its log says more at {current_request_id()}"
