"""Listening sockets: on every available address, on one port, and never on a port in use."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import pairwise

import pytest

from pykraft.errors import AddressInUseError
from pykraft.local.ports import HOST, free_ports
from pykraft.server.binding import ACCEPTS_PER_TURN, BACKLOG, listening_sockets, not_bound, port_of, serve
from pykraft.types import Endpoint
from tests.server.station import turns


@pytest.fixture
def taken() -> Iterator[Endpoint]:
    """An address that somebody listens on."""
    [port] = free_ports(1)
    [listening] = listening_sockets(Endpoint(HOST, port))
    with closing(listening):
        yield Endpoint(HOST, port)


def close(sockets: Sequence[socket.socket]) -> None:
    for each in sockets:
        each.close()


def test_who_listens_can_be_reached_before_anybody_serves(taken: Endpoint) -> None:
    with socket.create_connection((taken.host, taken.port), timeout=10):
        pass


def test_an_address_that_is_taken_is_an_error(taken: Endpoint) -> None:
    with pytest.raises(OSError, match="already in use"):
        listening_sockets(taken)


def test_an_address_of_another_machine_is_an_error() -> None:
    [port] = free_ports(1)
    with pytest.raises(OSError, match=r"[Cc]annot assign|not available"):
        listening_sockets(Endpoint("192.0.2.1", port))


def test_an_address_that_is_absent_is_passed_over_for_one_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    [port] = free_ports(1)
    monkeypatch.setattr("pykraft.server.binding.addresses_to_bind", lambda endpoint: ["192.0.2.1", HOST])
    [listening] = listening_sockets(Endpoint("both", port))
    with closing(listening):
        assert listening.getsockname() == (HOST, port)


@pytest.mark.parametrize("host", [HOST, "localhost", ""])
def test_a_free_port_is_the_same_one_on_all_addresses(host: str) -> None:
    sockets = listening_sockets(Endpoint(host, 0))
    assert {each.getsockname()[1] for each in sockets} == {port_of(sockets)}
    assert port_of(sockets) != 0
    close(sockets)


def test_a_free_port_that_is_taken_on_the_next_address_is_given_back(
    monkeypatch: pytest.MonkeyPatch, taken: Endpoint
) -> None:
    tried: list[int] = []
    create = socket.create_server

    def first_the_taken_one(address: tuple[str, int], *, family: int, backlog: int) -> socket.socket:
        tried.append(address[1])
        port = taken.port if len(tried) == 2 else address[1]
        return create((address[0], port), family=family, backlog=backlog)

    monkeypatch.setattr(socket, "create_server", first_the_taken_one)
    monkeypatch.setattr("pykraft.server.binding.addresses_to_bind", lambda endpoint: ["127.0.0.2", HOST])
    sockets = listening_sockets(Endpoint("both", 0))
    assert [each.getsockname()[0] for each in sockets] == ["127.0.0.2", HOST]
    assert tried[::2] == [0, 0]
    close(sockets)


def test_a_crowd_waits_in_the_queue_and_is_accepted_a_few_in_each_turn() -> None:
    """Each has a descriptor from then on; a hundred in one turn were more than a small process had left."""
    [port] = free_ports(1)
    [listening] = listening_sockets(Endpoint(HOST, port))
    made: list[asyncio.Protocol] = []

    class Guest(asyncio.Protocol):
        def __init__(self) -> None:
            made.append(self)

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transport.close()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await serve(loop, Guest, listening)
        with ExitStack() as crowd:
            for _ in range(BACKLOG):  # the loop does not turn meanwhile: all of them wait in the kernel's queue
                crowd.enter_context(socket.create_connection((HOST, port), timeout=10))
            counts = [0]

            def count() -> None:  # once in each turn
                counts.append(len(made))
                if counts[-1] < BACKLOG:
                    loop.call_soon(count)

            loop.call_soon(count)
            while counts[-1] < BACKLOG:
                await turns(loop, 1)
            assert max(after - before for before, after in pairwise(counts)) == ACCEPTS_PER_TURN
            await turns(loop, BACKLOG)
        server.close()
        await server.wait_closed()

    with asyncio.Runner() as runner:
        runner.run(main())


UNBOUND = {
    "taken": (
        OSError(errno.EADDRINUSE, "Address already in use (while attempting to bind on address ('127.0.0.1', 1))"),
        "cannot be bound: address already in use: stop the process that listens there, or take another port",
    ),
    "elsewhere": (
        OSError(errno.EADDRNOTAVAIL, "far has no address"),
        (
            "cannot be bound: cannot assign requested address: name an address of this machine, or leave the host "
            "empty for every interface"
        ),
    ),
    "not allowed": (
        PermissionError(errno.EACCES, "Permission denied"),
        "cannot be bound: permission denied: this user may not listen on a port below 1024, so take a higher one",
    ),
    "unknown": (
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        ("cannot be bound: name or service not known; correct the host name, or leave it empty for every interface"),
    ),
    "something else": (OSError("odd"), "cannot be bound: odd"),
}


@pytest.mark.parametrize(("error", "told"), UNBOUND.values(), ids=UNBOUND)
def test_an_address_that_cannot_be_bound_is_told_with_what_to_do(error: OSError, told: str) -> None:
    refused = not_bound("listeners", "A://:1", error)
    assert (refused.key, refused.value, refused.allowed) == ("listeners", "A://:1", told)
    assert isinstance(refused, AddressInUseError) is (error.errno == errno.EADDRINUSE)
