"""The sockets that the server listens at."""

import asyncio
import socket
from contextlib import ExitStack

import pytest

from geniex.address import Address
from geniex.server.listening import listen_at
from geniex_catalogue.errors import AddressError


def test_a_free_port() -> None:
    [one], address = listen_at(Address("127.0.0.1", 0))
    with one:
        assert one.getsockname() == ("127.0.0.1", address.port)
        assert address.port > 0
        socket.create_connection((address.host, address.port)).close()


def test_localhost_is_one_port_of_each_family() -> None:
    sockets, address = listen_at(Address("localhost", 0))
    with ExitStack() as stack:
        for one in sockets:
            stack.enter_context(one)
        assert {one.getsockname()[1] for one in sockets} == {address.port}
        assert sockets[0].getsockname()[0] == "127.0.0.1"


def test_a_port_that_is_taken_is_taken() -> None:
    [one], address = listen_at(Address("127.0.0.1", 0))
    with one:
        # a second server beside it would get half of the requests
        with pytest.raises(AddressError, match=f"port {address.port}"):
            listen_at(address)
        with pytest.raises(AddressError, match=f"port {address.port}"):
            listen_at(Address("0.0.0.0", address.port))


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1", "\udc80", "x" * 300])
def test_no_host_of_this_machine(host: str) -> None:
    with pytest.raises(AddressError):
        listen_at(Address(host, 0))


def test_small_pieces_are_sent_at_once() -> None:
    """Nagle's algorithm would hold each event of a stream until the one before is confirmed."""
    delays: list[int] = []

    class Accepted(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted = transport.get_extra_info("socket")
            delays.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            transport.close()

    async def play() -> None:
        [one], address = listen_at(Address("127.0.0.1", 0))
        server = await asyncio.get_running_loop().create_server(Accepted, sock=one)
        async with server:
            reader, writer = await asyncio.open_connection(address.host, address.port)
            await reader.read()
            writer.close()

    asyncio.run(play())
    assert delays and all(delays)
