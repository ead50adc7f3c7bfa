"""The few calls of QNN's C interface that compile a graph, by ctypes; for the x86-64 libraries.

QNN's libraries may end the process, so this is only used in one that was started for it.
"""

import ctypes
from collections.abc import Callable
from ctypes import c_char_p, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

# where a function stands in the table that a library hands out
_FUNCTIONS = {
    "backendCreate": 1,
    "contextCreate": 9,
    "contextGetBinarySize": 11,
    "contextGetBinary": 12,
    "graphCreate": 15,
    "graphFinalize": 19,
    "graphRetrieve": 20,
    "deviceCreate": 40,
}
_SYSTEM_FUNCTIONS = {"dlcCreateFromFile": 8, "dlcComposeGraphs": 10}
# words before the table: id, name, and one or two versions
_HEAD, _SYSTEM_HEAD = 5, 4
_CUSTOM, _WEIGHT_SHARING, _SOC, _ARCH = 0, 1, 0, 1


class QnnError(Exception):
    """Raised when a call fails."""


class _Library:
    def __init__(self, path: Path, providers: str, head: int, places: dict[str, int]) -> None:
        library = ctypes.CDLL(str(path))
        entry = getattr(library, providers)
        entry.restype = c_uint64
        found, count = ctypes.POINTER(c_void_p)(), c_uint32()
        _check(entry(ctypes.byref(found), ctypes.byref(count)), providers)
        self.table: int = found[0] or 0
        self._head, self._places = head, places

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function whose arguments are pointers and whole numbers."""
        plain = (c_char_p, c_uint32, c_uint64)
        kinds = [type(one) if isinstance(one, plain) else c_void_p for one in arguments]
        function = ctypes.CFUNCTYPE(c_uint64, *kinds)(self.address(name))
        _check(function(*arguments), name)

    def address(self, name: str) -> int:
        """Where a function is."""
        return c_uint64.from_address(self.table + 8 * (self._head + self._places[name])).value


class Compiler:
    """The HTP back end as an offline compiler, for one Hexagon."""

    def __init__(self, libraries: Path, arch: int, soc: int) -> None:
        self._system = _Library(
            libraries / "libQnnSystem.so",
            "QnnSystemInterface_getProviders",
            _SYSTEM_HEAD,
            _SYSTEM_FUNCTIONS,
        )
        self._htp = _Library(
            libraries / "libQnnHtp.so", "QnnInterface_getProviders", _HEAD, _FUNCTIONS
        )
        self._backend, self._device = c_void_p(), c_void_p()
        self._htp.call("backendCreate", c_void_p(), c_void_p(), ctypes.byref(self._backend))
        self._kept: list[Any] = []
        target = self._list(self._custom(_SOC, soc, 0), self._custom(_ARCH, 0, arch))
        self._htp.call("deviceCreate", c_void_p(), target, ctypes.byref(self._device))

    def compile(self, graphs: dict[str, Path], weight_sharing: bool) -> bytes:
        """A context binary with a graph of each name, composed from a DLC file."""
        settings = c_void_p()
        if weight_sharing:
            settings = self._list(self._custom(_WEIGHT_SHARING, 1, 0))
        context = c_void_p()
        self._htp.call(
            "contextCreate", self._backend, self._device, settings, ctypes.byref(context)
        )
        for name, dlc in graphs.items():
            self._compose(context, name, dlc)
            graph = c_void_p()
            self._htp.call("graphRetrieve", context, c_char_p(name.encode()), ctypes.byref(graph))
            self._htp.call("graphFinalize", graph, c_void_p(), c_void_p())
        size, written = c_uint64(), c_uint64()
        self._htp.call("contextGetBinarySize", context, ctypes.byref(size))
        room = ctypes.create_string_buffer(size.value)
        self._htp.call("contextGetBinary", context, room, size, ctypes.byref(written))
        return room.raw[: written.value]

    def _compose(self, context: c_void_p, name: str, dlc: Path) -> None:
        """Add a DLC's graph to a context, under a name of our own.

        The DLC reader is handed the table of functions by value; in our copy `graphCreate` is one
        that puts the name in.
        """
        words = _table_length(self._htp.table, _HEAD)

        class Table(ctypes.Structure):
            _fields_ = [("words", c_uint64 * words)]

        kind = ctypes.CFUNCTYPE(c_uint64, c_void_p, c_char_p, c_void_p, c_void_p)
        create: Callable[..., int] = kind(self._htp.address("graphCreate"))
        named = kind(lambda owner, _, config, out: create(owner, name.encode(), config, out))
        table = Table.from_buffer_copy(ctypes.string_at(self._htp.table, 8 * words))
        place = _HEAD + _FUNCTIONS["graphCreate"]
        table.words[place] = ctypes.cast(named, c_void_p).value or 0
        handle, graphs, count = c_void_p(), c_void_p(), c_uint32()
        self._system.call(
            "dlcCreateFromFile", c_void_p(), c_char_p(str(dlc).encode()), ctypes.byref(handle)
        )
        compose = ctypes.CFUNCTYPE(
            c_uint64,
            c_void_p,
            c_void_p,
            c_uint32,
            c_void_p,
            c_void_p,
            Table,
            c_uint32,
            c_void_p,
            c_void_p,
        )(self._system.address("dlcComposeGraphs"))
        answer = compose(
            handle,
            None,
            0,
            self._backend,
            context,
            table,
            1,
            ctypes.addressof(graphs),
            ctypes.addressof(count),
        )
        _check(answer, "dlcComposeGraphs")

    def _custom(self, option: int, first: int, second: int) -> c_void_p:
        """A setting of the back end's own: an option, and its value of one or two words."""
        value = (c_uint32 * 8)(option, 0, first, second)
        setting = (c_uint64 * 2)(_CUSTOM, ctypes.addressof(value))
        self._kept += [value, setting]
        return c_void_p(ctypes.addressof(setting))

    def _list(self, *settings: c_void_p) -> c_void_p:
        """Settings as a list that ends with a null."""
        addresses = (c_uint64 * (len(settings) + 1))(*(one.value or 0 for one in settings))
        self._kept.append(addresses)
        return c_void_p(ctypes.addressof(addresses))


def _check(answer: int, what: str) -> None:
    if answer:
        raise QnnError(f"{what} failed with {answer & 0xFFFF} ({answer:#x})")


def _table_length(table: int, head: int) -> int:
    """The words of a table of functions: they end where no address of code follows."""
    code = []
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        span, rights = line.split()[:2]
        if "x" in rights:
            low, _, high = span.partition("-")
            code.append(range(int(low, 16), int(high, 16)))
    length = head
    while any(c_uint64.from_address(table + 8 * length).value in one for one in code):
        length += 1
    return length
