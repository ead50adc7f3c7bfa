"""The one table from error classes to exit codes and next steps, and how an error is told.

Exit codes: 0 done; 1 failed; 2 wrong use; 3 not found; 4 network or hub; 5 disk; 130 interrupted.
"""

import errno
import os
import traceback
from dataclasses import dataclass

from geniex.cli.output import one_line, say
from geniex_catalogue import errors as e
from geniex_runtimes import errors as r

FAILED, WRONG_USE, NOT_FOUND, NETWORK, DISK, INTERRUPTED = 1, 2, 3, 4, 5, 130
BROKEN_PIPE = 141  # 128 + SIGPIPE, as other programs end when their reader is gone


@dataclass(frozen=True, slots=True)
class Row:
    """How a class of errors ends the program; `hint` stands in where the error brings none."""

    code: int
    hint: str | None = None


_LOOK = "`geniex list` shows what is here, `geniex pull org/repo` fetches a model"
_AGAIN = "check the network and run it again; what has arrived is kept"

ROWS: dict[type[e.GenieXError], Row] = {
    e.GenieXError: Row(FAILED),
    e.UsageError: Row(WRONG_USE),
    e.SchemaError: Row(WRONG_USE),
    e.ModelRefError: Row(WRONG_USE, "a name is `org/repo[:precision]`, or the path of a file"),
    e.ModelNotFoundError: Row(NOT_FOUND, _LOOK),
    e.ModelPathError: Row(NOT_FOUND),
    e.DraftNotFoundError: Row(NOT_FOUND, _LOOK),
    e.PrecisionNotFoundError: Row(NOT_FOUND, "name one of these after a colon"),
    e.AmbiguousModelError: Row(WRONG_USE),
    e.CatalogueError: Row(FAILED, "install geniex-local again"),
    e.StoreError: Row(DISK, "check the data folder, or choose another with `--data-dir`"),
    e.ManifestError: Row(DISK, "`geniex list --all` shows damaged models, `geniex rm` removes one"),
    e.StoreBusyError: Row(FAILED, "wait for the other process, or end it"),
    e.ModelFileError: Row(FAILED, "download it again, or unpack it yourself and give the folder"),
    e.GGUFError: Row(FAILED),
    e.IncompleteShardsError: Row(NOT_FOUND),
    e.HubError: Row(NETWORK, _AGAIN),
    e.HubAuthError: Row(NETWORK, "set HF_TOKEN to a token that may read this model"),
    e.HubNotFoundError: Row(NOT_FOUND, "check the spelling of the name"),
    e.HubRateLimitError: Row(NETWORK, "wait some minutes, or set HF_TOKEN"),
    e.HubOfflineError: Row(NETWORK, _AGAIN),
    e.ChipsetError: Row(FAILED, "`geniex config set chipset NAME` names the chipset"),
    e.NotCompiledError: Row(NOT_FOUND),
    e.LicenceError: Row(FAILED),
    e.TransferError: Row(NETWORK, _AGAIN),
    e.ChecksumError: Row(NETWORK, "run it again; the damaged part is fetched anew"),
    e.DiskSpaceError: Row(DISK),
    r.NoRuntimeError: Row(FAILED, "`geniex doctor MODEL` shows what was found and why"),
    r.RuntimeNotInstalledError: Row(FAILED, "`geniex devices` shows what is installed"),
    e.LoadError: Row(FAILED, "`--log debug` tells more"),
    e.RoleError: Row(FAILED),
    e.BundleError: Row(FAILED),
    r.BundleTargetError: Row(FAILED),
    e.LoadCancelledError: Row(FAILED),
    r.MemoryBudgetError: Row(FAILED),
    e.ServerBusyError: Row(FAILED, "try again in a while"),
    e.AddressError: Row(FAILED, "choose another with `--host` and `--port`"),
    e.ServerError: Row(FAILED, "the server's own output says more"),
    e.ServerUnreachableError: Row(
        NETWORK, "`geniex serve` starts a server; `--host` or GENIEX_HOST says where one is"
    ),
    r.SpeculativeError: Row(FAILED, "without `--require-spec` the answer comes all the same"),
    r.ContextLengthError: Row(FAILED, "shorten the prompt, or raise the context with `--nctx`"),
    e.TemplateError: Row(FAILED, "the model's chat template decides what it takes"),
    r.GenerationError: Row(FAILED, "run it again with `--log debug` to see more"),
    r.WorkerCrashedError: Row(FAILED),
    r.WorkerRestingError: Row(FAILED),
}


def row_of(kind: type[e.GenieXError]) -> Row:
    """The row of a class, or of its nearest base."""
    return next(ROWS[base] for base in kind.__mro__ if base in ROWS)


def tell(error: BaseException) -> int:
    """Write `Error: ...` and `hint: ...` to stderr, a line each; the answer is the exit code.

    With GENIEX_DEBUG=1 the traceback comes first.
    """
    if os.environ.get("GENIEX_DEBUG") == "1":
        say("".join(traceback.format_exception(error)).rstrip() + "\n")
    message, hint, code = _facts(error)
    say(f"Error: {one_line(message)}\n")
    if hint:
        say(f"hint: {one_line(hint)}\n")
    return code


def first_of(code: int, other: int) -> int:
    """The exit code of a command that goes on after an error: the first one."""
    return code or other


def _facts(error: BaseException) -> tuple[str, str | None, int]:
    if isinstance(error, e.GenieXError):
        row = row_of(type(error))
        return error.message, error.hint or row.hint, row.code
    if isinstance(error, OSError) and error.strerror:
        name = f"`{error.filename}`: " if error.filename is not None else ""
        disk = error.errno in (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO)
        return f"{name}{error.strerror}", None, DISK if disk else FAILED
    if isinstance(error, MemoryError):
        return "out of memory", "choose a smaller model or a shorter `--nctx`", FAILED
    text = f"unexpected {type(error).__name__}: {error}"
    return text, "this is a fault of geniex; GENIEX_DEBUG=1 shows where", FAILED
