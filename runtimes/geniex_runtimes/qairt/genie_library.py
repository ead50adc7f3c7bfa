"""The part of libGenie that the engine `genie` calls, by ctypes: a dialog and its sampler.

Signatures are those of Qualcomm's GenieDialog.h and GenieSampler.h, API 1.21 (QAIRT 2.51).
"""

import ctypes
import json
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_char_p, c_int32, c_uint32, c_void_p
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from geniex_runtimes.qairt import native
from geniex_runtimes.qairt.engine import EngineError, EngineMissingError, Floats

OK = 0
CONTEXT_EXCEEDED = 4

_COMPLETE, _REWIND = 0, 5  # how a query stands to those before it
_ERRORS = 1  # a level of the log
_SAMPLER = b"geniex"
_FLOAT = 4  # bytes

_TokenCallback = ctypes.CFUNCTYPE(None, ctypes.POINTER(c_uint32), c_uint32, ctypes.c_int, c_void_p)
_SamplerCallback = ctypes.CFUNCTYPE(
    None, c_uint32, c_void_p, c_uint32, ctypes.POINTER(c_int32), c_void_p
)
_FUNCTIONS: dict[str, list[Any]] = {
    "GenieDialogConfig_createFromJson": [c_char_p, ctypes.POINTER(c_void_p)],
    "GenieDialogConfig_bindLogger": [c_void_p, c_void_p],
    "GenieDialogConfig_free": [c_void_p],
    "GenieDialog_create": [c_void_p, ctypes.POINTER(c_void_p)],
    "GenieDialog_tokenQuery": [
        c_void_p,
        ctypes.POINTER(c_uint32),
        c_uint32,
        ctypes.c_int,
        _TokenCallback,
        c_void_p,
    ],
    "GenieDialog_reset": [c_void_p],
    "GenieDialog_save": [c_void_p, c_char_p],
    "GenieDialog_restore": [c_void_p, c_char_p],
    "GenieDialog_free": [c_void_p],
    "GenieLog_create": [c_void_p, c_void_p, ctypes.c_int, ctypes.POINTER(c_void_p)],
    "GenieSampler_registerUserDataCallback": [c_char_p, _SamplerCallback, c_void_p],
}

# given the logits behind the tokens so far: the token that follows
Sample: TypeAlias = "Callable[[Floats], int]"


class DialogError(EngineError):
    """Raised where libGenie understands a configuration, and cannot load what it names."""


class GenieLibrary:
    """libGenie in this process, and the one sampler that all its dialogs ask."""

    def __init__(self, libraries: Path) -> None:
        """Raises EngineMissingError where it is not there, does not load, or is another one."""
        api = native.load(libraries, "Genie")
        for name, arguments in _FUNCTIONS.items():
            try:
                function = getattr(api, name)
            except AttributeError as exc:
                raise EngineMissingError(f"libGenie has no function `{name}`") from exc
            function.argtypes = arguments
            function.restype = c_int32
        self._api = api
        self.sample: Sample = _nobody
        # libGenie tells no reasons unless there is a log for them
        self.log = c_void_p()
        self.call("GenieLog_create", None, None, _ERRORS, ctypes.byref(self.log))
        # kept: libGenie calls it for as long as it lives
        self._callback = _SamplerCallback(self._sampled)
        self.call("GenieSampler_registerUserDataCallback", _SAMPLER, self._callback, None)

    def call(self, name: str, *arguments: object) -> int:
        """Call a function. Raises EngineError for a negative status; others are warnings."""
        status = int(getattr(self._api, name)(*arguments))
        if status < 0:
            raise EngineError(f"`{name}` of libGenie failed with status {status}")
        return status

    def _sampled(
        self, size: int, logits: int, _count: int, tokens: "ctypes._Pointer[c_int32]", _user: object
    ) -> None:
        row = (ctypes.c_float * (size // _FLOAT)).from_address(logits)
        tokens[0] = self.sample(np.frombuffer(memoryview(row), np.float32))


class Dialog:
    """A loaded bundle and its KV cache. Belongs to one thread."""

    def __init__(self, library: GenieLibrary, config: Mapping[str, Any]) -> None:
        """Load what a genie_config.json with absolute paths names.

        Raises DialogError where that does not load, EngineError where it is not understood.
        """
        self._library = library
        settings, handle = c_void_p(), c_void_p()
        text = json.dumps(config).encode()
        library.call("GenieDialogConfig_createFromJson", text, ctypes.byref(settings))
        try:
            library.call("GenieDialogConfig_bindLogger", settings, library.log)
            library.call("GenieDialog_create", settings, ctypes.byref(handle))
        except EngineError as exc:
            raise DialogError(str(exc)) from exc
        finally:
            library.call("GenieDialogConfig_free", settings)
        self._handle: c_void_p | None = handle

    def query(self, tokens: Sequence[int], *, rewind: bool) -> int:
        """Evaluate tokens and go on with what the sampler says, until that is an EOS.

        `rewind` keeps what the cache holds of their beginning; otherwise they follow all of it.
        The status is OK or CONTEXT_EXCEEDED, or another warning. Raises EngineError.
        """
        array = (c_uint32 * len(tokens))(*tokens)
        code = _REWIND if rewind else _COMPLETE
        return self._call("GenieDialog_tokenQuery", array, len(tokens), code, _UNHEARD, None)

    def reset(self) -> None:
        """Forget all tokens. Raises EngineError."""
        self._call("GenieDialog_reset")

    def save(self, folder: Path) -> None:
        """Write the cache into an existing folder. Raises EngineError."""
        self._call("GenieDialog_save", str(folder).encode())

    def restore(self, folder: Path) -> None:
        """Take the cache that `save` wrote. Raises EngineError."""
        self._call("GenieDialog_restore", str(folder).encode())

    def free(self) -> None:
        """Give everything back; libGenie ends the process at exit where that was not done."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._library.call("GenieDialog_free", handle)

    def _call(self, name: str, *arguments: object) -> int:
        if self._handle is None:
            raise EngineError("the dialog has been freed")
        return self._library.call(name, self._handle, *arguments)


def sampler_settings() -> dict[str, Any]:
    """The `sampler` of a dialog that asks ours."""
    return {"version": 1, "type": "custom", "callback-name": _SAMPLER.decode()}


def _nobody(_logits: Floats) -> int:
    raise EngineError("libGenie asked for a token when nobody had asked it")


# tokens come from our own sampler: libGenie tells no news
_UNHEARD = _TokenCallback(lambda _tokens, _count, _code, _user: None)
