"""Every error a user can meet, drawn as a tree; texts and codes are added at the edges.

Those of running a model are in `geniex_runtimes/errors.py`.

GenieXError
├── UsageError                   a flag, field or config key that cannot be honoured
├── ModelRefError                a name that is not a name
├── ModelNotFoundError           nothing of that name (with suggestions)
│   ├── ModelPathError           a path with no file, or a folder with no model
│   └── DraftNotFoundError       a draft that is named and not here
├── PrecisionNotFoundError       the model is there, this precision is not
├── AmbiguousModelError          several files answer to the name
├── CatalogueError               the curated entries are faulty (every fault at once)
├── StoreError                   the data folder cannot be read or written
│   ├── DiskSpaceError           not enough room
│   ├── ManifestError            a damaged geniex.json
│   └── StoreBusyError           another process holds the model
├── ModelFileError               a file that cannot be read, or an unusable zip
├── GGUFError                    a file that is not a usable GGUF
│   └── IncompleteShardsError    a split model with parts missing
├── HubError                     the hub did not give what was asked
│   ├── HubAuthError  HubNotFoundError  HubRateLimitError  HubOfflineError
│   ├── ChipsetError             a chipset that nobody named, or that a hub does not know
│   ├── NotCompiledError         a model that is not there for this chipset
│   └── LicenceError             a model that its licence keeps the hub from giving out
├── TransferError                bytes that did not arrive
│   └── ChecksumError            bytes that arrived wrong
├── LoadError                    a model that does not load
│   ├── RoleError                a file that is no model of its own
│   ├── BundleError              a compiled bundle that is incomplete or damaged
│   └── LoadCancelledError       nobody waits for it any more
├── ServerBusyError              no room for one more request now, or the server ends
├── AddressError                 an address that cannot be listened at
├── ServerError                  the server that was asked failed, or refused
│   └── ServerUnreachableError   nobody answers where the server should be
└── TemplateError                the model's chat template refused the messages
"""

from collections.abc import Sequence
from pathlib import Path

from geniex_catalogue.sizes import size_text

_MISSING_SHOWN = 10
_NAMES_SHOWN = 40


class GenieXError(Exception):
    """Base of all errors that a user can meet.

    `message` says what is wrong and names the thing; `hint` says the next step, if there is one.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(GenieXError):
    """Raised for a flag, field or config key that cannot be honoured."""


class SchemaError(UsageError):
    """Raised for a JSON schema that answers cannot be held to: `keyword` at `path` is why."""

    def __init__(self, message: str, keyword: str, path: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.keyword = keyword
        self.path = path


class ModelRefError(GenieXError):
    """Raised for text that is not a model's name."""


class ModelNotFoundError(GenieXError):
    """Raised when nothing answers to a name; `suggestions` are near names."""

    def __init__(
        self, name: str, suggestions: Sequence[str] = (), *, hint: str | None = None
    ) -> None:
        if hint is None and suggestions:
            hint = "did you mean " + " or ".join(f"`{s}`" for s in suggestions) + "?"
        super().__init__(f"model `{name}` not found", hint=hint)
        self.name = name
        self.suggestions = tuple(suggestions)


class ModelPathError(ModelNotFoundError):
    """Raised for a path with no model: `problem` says why, else nothing is there at all."""

    def __init__(self, path: str, *, problem: str | None = None, hint: str | None = None) -> None:
        super().__init__(path, hint=hint or "check the path, or give a name like `org/repo`")
        self.message = problem or f"file `{path}` does not exist"
        self.args = (self.message,)


class DraftNotFoundError(ModelNotFoundError):
    """Raised when the draft that was asked for is not here; nothing is pulled for it."""

    def __init__(
        self, name: str, suggestions: Sequence[str] = (), *, hint: str | None = None
    ) -> None:
        super().__init__(name, suggestions, hint=hint or f"run `geniex pull {name}` first")
        self.message = f"draft model `{name}` not found"
        self.args = (self.message,)


class PrecisionNotFoundError(GenieXError):
    """Raised when a model has no file of the precision asked for; `available` is what it has."""

    def __init__(
        self, name: str, asked: str, available: Sequence[str], *, nearest: str | None = None
    ) -> None:
        there = ", ".join(available) if available else "none"
        super().__init__(
            f"`{name}` has no precision `{asked}`; available: {there}",
            hint=f"did you mean `{nearest}`?" if nearest else None,
        )
        self.name = name
        self.asked = asked
        self.available = tuple(available)


class AmbiguousModelError(GenieXError):
    """Raised when several files answer to one name; `candidates` are their file names.

    The message has the first dozen: a folder such as `/tmp` may hold hundreds.
    """

    def __init__(self, name: str, candidates: Sequence[str], *, hint: str | None = None) -> None:
        shown = ", ".join(candidates[:12])
        more = f", and {len(candidates) - 12} more" if len(candidates) > 12 else ""
        super().__init__(
            f"`{name}` could be any of: {shown}{more}",
            hint=hint or "choose one with `:<file name>`",
        )
        self.name = name
        self.candidates = tuple(candidates)


class CatalogueError(GenieXError):
    """Raised when the curated entries are faulty; `problems` has one line for every fault."""

    def __init__(self, problems: Sequence[str], *, hint: str | None = None) -> None:
        super().__init__("faulty catalogue: " + "; ".join(problems), hint=hint)
        self.problems = tuple(problems)


class StoreError(GenieXError):
    """Raised when the data folder cannot be read or written."""


class DiskSpaceError(StoreError):
    """Raised when a folder has too little room; `needed` and `free` are bytes."""

    def __init__(self, path: str, needed: int, free: int) -> None:
        super().__init__(
            f"not enough disk space at `{path}`: needs {size_text(needed)} "
            f"({needed} bytes), free {size_text(free)} ({free} bytes)",
            hint="free some space (`geniex list`, `geniex remove`), or choose another `--data-dir`",
        )
        self.path = path
        self.needed = needed
        self.free = free


class ManifestError(StoreError):
    """Raised for a `geniex.json` that cannot be used."""


class StoreBusyError(StoreError):
    """Raised when another process holds a model for longer than the caller would wait."""


class ModelFileError(GenieXError):
    """Raised for a file or folder that the system does not let us read, or an unusable zip."""


class GGUFError(GenieXError):
    """Raised for a file that is not a usable GGUF; `path` is its name, `reason` why."""

    def __init__(self, path: str, reason: str, *, hint: str | None = None) -> None:
        super().__init__(
            f"`{path}` is not a usable GGUF file: {reason}",
            hint=hint or "download it again, or check that it is a GGUF file",
        )
        self.path = path
        self.reason = reason


class IncompleteShardsError(GGUFError):
    """Raised for a split model with parts missing; `missing` are their file names."""

    def __init__(self, path: str, missing: Sequence[str]) -> None:
        super().__init__(
            path,
            "part of a split model, missing: "
            + ", ".join(missing[:_MISSING_SHOWN])
            + (f" and {rest} more" if (rest := len(missing) - _MISSING_SHOWN) > 0 else ""),
            hint="put all parts into one folder, or pull the model again",
        )
        self.missing = tuple(missing)


class HubError(GenieXError):
    """Raised when a hub did not give what was asked."""


class HubAuthError(HubError):
    """Raised when a hub refuses access (gated, private, or a bad token)."""


class HubNotFoundError(HubError):
    """Raised when a hub has no such repository, revision or file."""


class HubRateLimitError(HubError):
    """Raised when a hub asks to slow down."""


class HubOfflineError(HubError):
    """Raised when a hub cannot be reached, or offline mode forbids it."""


class ChipsetError(HubError):
    """Raised where a hub compiles for chipsets and this one is not known; `known` are its own."""

    def __init__(self, message: str, known: Sequence[str] = (), *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint or (f"it knows {_some(known)}" if known else None))
        self.known = tuple(known)


class NotCompiledError(HubError):
    """Raised when a hub has a model, but not for this chipset; `supported` are those it has."""

    def __init__(self, name: str, chipset: str, supported: Sequence[str]) -> None:
        super().__init__(
            f"`{name}` is not compiled for `{chipset}`; it is for: {_some(supported)}",
            hint="`geniex hub list` shows the models for this chipset",
        )
        self.name = name
        self.chipset = chipset
        self.supported = tuple(supported)


class LicenceError(HubError):
    """Raised for a model that its licence does not let a hub give out."""


class TransferError(GenieXError):
    """Raised when bytes did not arrive; what did arrive is kept."""


class ChecksumError(TransferError):
    """Raised when a file's bytes do not have the hash or size that its hub states."""


class LoadError(GenieXError):
    """Raised when a model does not load."""


class RoleError(LoadError):
    """Raised for a file that is not for what it was named for, such as a draft without a target."""


class BundleError(LoadError):
    """Raised for a compiled bundle that cannot be used: `file` is at fault, `reason` says why."""

    def __init__(self, file: Path, reason: str, *, hint: str | None = None) -> None:
        super().__init__(
            f"`{file}` {reason}", hint=hint or "pull or import the bundle again, or export it anew"
        )
        self.file = file
        self.reason = reason


class LoadCancelledError(LoadError):
    """Raised when a load was given up, since nobody waits for the model any more."""


class ServerBusyError(GenieXError):
    """Raised when a request cannot be taken now; `retry_after` is seconds until it may be."""

    def __init__(self, message: str, *, retry_after: float = 1.0, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class AddressError(GenieXError):
    """Raised for an address that cannot be listened at."""


class ServerError(GenieXError):
    """Raised when the server that was asked failed, or refused; `code` is its word for why."""

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.code = code


class ServerUnreachableError(ServerError):
    """Raised when nobody answers where the server should be."""


class TemplateError(GenieXError):
    """Raised when a chat template refuses the messages, or is itself faulty."""


def _some(names: Sequence[str]) -> str:
    """The names with commas, where there are very many only the first."""
    rest = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
