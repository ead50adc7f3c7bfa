"""The sockets that the server listens at."""

import errno
import os
import socket
from collections.abc import Sequence
from dataclasses import replace

from geniex.address import Address
from geniex_catalogue.errors import AddressError

_MOST = 8  # addresses of one host


def listen_at(address: Address) -> tuple[list[socket.socket], Address]:
    """Bound sockets, and the address with the port that was found where it was 0.

    `localhost` is both 127.0.0.1 and ::1 where the machine has both. Raises AddressError.
    """
    sockets: list[socket.socket] = []
    try:
        for family, place in _places(address):
            try:
                sockets.append(_bound(family, (place, address.port)))
            except OSError as exc:
                if not sockets or exc.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise _refusal(address, exc) from exc
            address = replace(address, port=sockets[0].getsockname()[1])
    except BaseException:
        for one in sockets:
            one.close()
        raise
    return sockets, address


def _places(address: Address) -> Sequence[tuple[socket.AddressFamily, str]]:
    try:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as exc:
        raise AddressError(f"`{address.host}` is no host that is known here: {exc}") from exc
    places = dict.fromkeys((family, str(place[0])) for family, _, _, _, place in found)
    # 127.0.0.1 first: it decides, ::1 is a bonus
    return sorted(places, key=lambda place: place[0] != socket.AF_INET)[:_MOST]


def _bound(family: socket.AddressFamily, place: tuple[str, int]) -> socket.socket:
    # with the protocol named, asyncio sends small pieces at once; else each answer waits 40 ms
    one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # on Windows the same option lets two programs share a port
        if os.name == "posix":
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(place)
        one.listen()
    except BaseException:
        one.close()
        raise
    return one


def _refusal(address: Address, exc: OSError) -> AddressError:
    if exc.errno == errno.EADDRINUSE:
        return AddressError(
            f"port {address.port} of `{address.host}` is taken by another program",
            hint="end that one (`geniex ps` shows whether it is a server of geniex), or choose "
            "another with `--port`",
        )
    if exc.errno == errno.EACCES:
        return AddressError(
            f"port {address.port} of `{address.host}` may not be used: {exc.strerror}",
            hint="choose one above 1023 with `--port`",
        )
    return AddressError(f"cannot listen at `{address.url}`: {exc.strerror or exc}")
