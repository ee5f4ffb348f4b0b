"""Listening sockets share a port that is free; clients leave descriptors for the node; no name waits for another."""

import asyncio
import errno
import gc
import os
import resource
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path

import pytest

from pykraft.errors import AddressInUseError, UsageError
from pykraft.local.voters import HOST, free_ports
from pykraft.server import binding
from pykraft.types import Endpoint
from tests.server.station import everything_closed, on_station, turns


@pytest.fixture
def taken() -> Iterator[Endpoint]:
    """An address that somebody listens on."""
    [port] = free_ports(1)
    [listening] = binding.listening_sockets(Endpoint(HOST, port))
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
        binding.listening_sockets(taken)


def test_an_address_of_another_machine_is_an_error() -> None:
    [port] = free_ports(1)
    with pytest.raises(OSError, match=r"[Cc]annot assign|not available"):
        binding.listening_sockets(Endpoint("192.0.2.1", port))


def test_an_address_that_is_absent_is_passed_over_for_one_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    [port] = free_ports(1)
    monkeypatch.setattr("pykraft.server.binding.addresses_to_bind", lambda endpoint: ["192.0.2.1", HOST])
    [listening] = binding.listening_sockets(Endpoint("both", port))
    with closing(listening):
        assert listening.getsockname() == (HOST, port)


@pytest.mark.parametrize("host", [HOST, "localhost", ""])
def test_a_free_port_is_the_same_one_on_all_addresses(host: str) -> None:
    sockets = binding.listening_sockets(Endpoint(host, 0))
    assert {each.getsockname()[1] for each in sockets} == {binding.port_of(sockets)}
    assert binding.port_of(sockets) != 0
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
    sockets = binding.listening_sockets(Endpoint("both", 0))
    assert [each.getsockname()[0] for each in sockets] == ["127.0.0.2", HOST]
    assert tried[::2] == [0, 0]
    close(sockets)


def test_a_crowd_waits_in_the_queue_and_is_accepted_a_few_in_each_turn() -> None:
    """Each has a descriptor from then on; a hundred in one turn were more than a small process had left."""
    [port] = free_ports(1)
    [listening] = binding.listening_sockets(Endpoint(HOST, port))
    made: list[asyncio.Protocol] = []

    class Guest(asyncio.Protocol):
        def __init__(self) -> None:
            made.append(self)

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transport.close()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await binding.serve(loop, Guest, listening)
        with ExitStack() as crowd:
            for _ in range(binding.BACKLOG):  # the loop does not turn meanwhile: all of them wait in the kernel's queue
                crowd.enter_context(socket.create_connection((HOST, port), timeout=10))
            counts = [0]

            def count() -> None:  # once in each turn
                counts.append(len(made))
                if counts[-1] < binding.BACKLOG:
                    loop.call_soon(count)

            loop.call_soon(count)
            while counts[-1] < binding.BACKLOG:
                await turns(loop, 1)
            assert max(after - before for before, after in pairwise(counts)) == binding.ACCEPTS_PER_TURN
            await turns(loop, binding.BACKLOG)
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
    refused = binding.not_bound("listeners", "A://:1", error)
    assert (refused.key, refused.value, refused.allowed) == ("listeners", "A://:1", told)
    assert isinstance(refused, AddressInUseError) is (error.errno == errno.EADDRINUSE)


@pytest.mark.parametrize(
    ("soft", "hard", "accepted", "asks_for"),
    [
        (256, 256, 256 - binding.OWN_DESCRIPTORS, 256),
        (256, 1_000, 1_000 - binding.OWN_DESCRIPTORS, 1_000),
        (1_024, 1_048_576, binding.ACCEPTED_MAX, binding.ACCEPTED_MAX + binding.OWN_DESCRIPTORS),
        (1_024, resource.RLIM_INFINITY, binding.ACCEPTED_MAX, binding.ACCEPTED_MAX + binding.OWN_DESCRIPTORS),
        (1_048_576, 1_048_576, binding.ACCEPTED_MAX, None),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, binding.ACCEPTED_MAX, None),
    ],
)
def test_clients_are_as_many_as_the_process_may_have_descriptors_for(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, accepted: int, asks_for: int | None
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    assert binding.accepted_max() == accepted
    assert asked == ([] if asks_for is None else [(asks_for, hard)])


def test_too_few_descriptors_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, binding.OWN_DESCRIPTORS))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: None)
    with pytest.raises(UsageError, match="ulimit -n"):
        binding.accepted_max()


@pytest.mark.parametrize(
    ("soft", "most"),
    [(1_024, 1_023 - binding.OWN_DESCRIPTORS), (256, 127), (64, 31), (resource.RLIM_INFINITY, binding.UNLIMITED)],
)
def test_the_largest_number_of_a_client_leaves_some(monkeypatch: pytest.MonkeyPatch, soft: int, most: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, resource.RLIM_INFINITY))
    assert binding.descriptor_max() == most


def take_gaps(holding: ExitStack) -> int:
    """Use every free descriptor below the largest one in use; returns the first above it.

    Earlier tests of this process leave gaps. The number of a new connection jumps over them, and then does not say how
    many descriptors are in use.
    """
    gc.collect()  # what is collected later would leave new gaps
    largest = max(int(each.name) for each in Path("/dev/fd").iterdir())
    with socket.socket() as one:
        while (taken := os.dup(one.fileno())) < largest:
            holding.callback(os.close, taken)
    os.close(taken)
    return taken


async def test_silent_clients_leave_descriptors_for_whoever_else_is_in_the_process() -> None:
    """Both ends are in this process: the clients' own take two thirds of what there is."""
    clients_count = 60
    with ExitStack() as holding:
        descriptors_max = take_gaps(holding) + clients_count * 3 // 2
        async with on_station(descriptor_max=descriptors_max) as station:
            user, links = station.user, station.links
            with ExitStack() as closing:
                for number in range(clients_count):
                    closing.enter_context(socket.create_connection((station.endpoint.host, station.endpoint.port)))
                    await user.wait_for(lambda number=number: ("accepted", number + 1) in user.heard)  # type: ignore[misc]
                    # A closed one gives its number back a little later.
                    await everything_closed(asyncio.get_running_loop())
                    largest = max(link.descriptor for link in links._accepted.values())
                    assert largest <= descriptors_max + 10
                assert 0 < links.accepted_count < clients_count * 2 // 3
            await user.wait_for(lambda: len(user.heard) == 2 * clients_count)
    assert all("it has been silent the longest" in report for report in user.reports)


async def test_when_others_have_all_descriptors_a_client_is_turned_away() -> None:
    async with on_station(descriptor_max=0) as station:
        reader, writer = await station.client()
        assert await reader.read(1) == b""
        writer.close()
        await writer.wait_closed()
    assert station.user.heard == []


TIMEOUT_S = 10.0


class NameServer:
    """Answers when it is told to; counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.gates: dict[str, threading.Event] = {}

    def look_up(self, endpoint: Endpoint) -> list[str]:
        self.asked.append(endpoint.host)
        gate = self.gates.get(endpoint.host)
        assert gate is None or gate.wait(TIMEOUT_S)
        if endpoint.host == "nobody":
            raise OSError("nobody knows")
        return ["127.0.0.1"]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_number_is_an_address(runner: asyncio.Runner, address: str) -> None:
    server = NameServer()
    names = binding.Names(runner.get_loop(), lookup=server.look_up)
    assert runner.run(names.addresses(Endpoint(address, 9_092))) == [address]
    assert server.asked == []


async def test_many_wait_for_one_lookup_of_a_name() -> None:
    server = NameServer()
    server.gates["kafka"] = threading.Event()
    names = binding.Names(asyncio.get_running_loop(), lookup=server.look_up)
    waiting = [asyncio.create_task(names.addresses(Endpoint("kafka", 9_092))) for _ in range(3)]
    other = await asyncio.wait_for(names.addresses(Endpoint("other", 9_092)), TIMEOUT_S)
    assert other == ["127.0.0.1"]
    assert not any(task.done() for task in waiting)
    server.gates["kafka"].set()
    assert await asyncio.wait_for(asyncio.gather(*waiting), TIMEOUT_S) == [["127.0.0.1"]] * 3
    assert sorted(server.asked) == ["kafka", "other"]
    await names.addresses(Endpoint("other", 9_092))
    assert sorted(server.asked) == ["kafka", "other", "other"]


async def test_who_gave_up_waiting_does_not_end_the_lookup() -> None:
    server = NameServer()
    server.gates["nobody"] = threading.Event()
    names = binding.Names(asyncio.get_running_loop(), lookup=server.look_up)
    impatient = asyncio.create_task(names.addresses(Endpoint("nobody", 9_092)))
    patient = asyncio.create_task(names.addresses(Endpoint("nobody", 9_092)))
    while not server.asked:
        await asyncio.wait([patient], timeout=0.001)
    impatient.cancel()
    server.gates["nobody"].set()
    with pytest.raises(OSError, match="nobody knows"):
        await asyncio.wait_for(patient, TIMEOUT_S)
    assert impatient.cancelled()


def test_a_lookup_that_ends_after_the_loop_has_nobody_to_tell(runner: asyncio.Runner) -> None:
    server = NameServer()
    server.gates["kafka"] = threading.Event()
    loop = runner.get_loop()
    names = binding.Names(loop, lookup=server.look_up)
    with pytest.raises(TimeoutError):
        runner.run(asyncio.wait_for(names.addresses(Endpoint("kafka", 9_092)), 0.01))
    [thread] = [each for each in threading.enumerate() if each.name == "pykraft-name-lookup"]
    runner.close()
    server.gates["kafka"].set()
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()


async def test_no_more_names_than_a_bound_are_looked_up_at_one_time() -> None:
    server = NameServer()
    hosts = [f"kafka-{number}" for number in range(binding.LOOKUPS_MAX)]
    server.gates = {host: threading.Event() for host in hosts}
    names = binding.Names(asyncio.get_running_loop(), lookup=server.look_up)
    waiting = [asyncio.create_task(names.addresses(Endpoint(host, 9_092))) for host in hosts]
    await everything_closed(asyncio.get_running_loop())
    with pytest.raises(OSError, match="64 names are already being looked up"):
        await names.addresses(Endpoint("one-more", 9_092))
    for gate in server.gates.values():
        gate.set()
    await asyncio.wait_for(asyncio.gather(*waiting), TIMEOUT_S)
    assert await asyncio.wait_for(names.addresses(Endpoint("one-more", 9_092)), TIMEOUT_S) == ["127.0.0.1"]


def test_the_machines_own_names_are_known() -> None:
    assert "127.0.0.1" in binding.look_up(Endpoint("localhost", 9_092))


@pytest.mark.parametrize("host", ["x" * 64 + ".org", "a..b", "\ud800"])
def test_what_cannot_be_a_name_is_an_os_error(host: str) -> None:
    with pytest.raises(OSError, match=r"host name|not known|failure"):
        binding.look_up(Endpoint(host, 9_092))


def test_an_error_is_told_without_the_words_of_asyncio() -> None:
    refused = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('::1', 1)")
    assert binding.in_words(refused) == "Connection refused"
    assert (
        binding.in_words(socket.gaierror(socket.EAI_NONAME, "Name or service not known")) == "Name or service not known"
    )
    assert binding.in_words(OSError("no address")) == "no address"
