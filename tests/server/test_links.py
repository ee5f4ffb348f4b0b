"""All connections of a node, over real sockets: the events that its user gets, and the limits that clients share.

Source: Kafka's ``socket.request.max.bytes``; ours (ADR 033, ADR 065).
"""

import asyncio
import socket
import struct
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace

import pytest

from pykraft.host.ports import ConnectionId
from pykraft.local.voters import HOST, free_ports
from pykraft.protocol.api import frame
from pykraft.security.principal import RemoteEnd
from pykraft.server import links
from pykraft.server.binding import Names, listening_sockets
from pykraft.server.links import REQUEST_SIZE_BYTES_MAX, REQUESTS_PER_TURN_MAX, LinkLimits
from pykraft.types import Endpoint
from tests.server.manual_loop import FakeTransport
from tests.server.station import (
    LISTENER,
    TIMEOUT_S,
    Station,
    closed_by_peer,
    everything_closed,
    framed,
    hang_up,
    on_station,
    turns,
)
from tests.test_config import NODE


async def test_a_client_is_accepted_heard_answered_and_gone() -> None:
    async with on_station() as station:
        station.user.answer = lambda connection, message: station.links.send(connection, frame([message * 2]))
        reader, writer = await station.client()
        writer.write(framed(b"abc") + framed(b"d"))
        assert await asyncio.wait_for(reader.readexactly(4 + 6 + 4 + 2), TIMEOUT_S) == framed(b"abcabc") + framed(b"dd")
        await hang_up(writer)
        await station.user.hears(("accepted", 1), ("closed", 1))
        station.links.send(ConnectionId(1), [b"nobody"])
        station.links.close(ConnectionId(1))


async def test_nothing_is_called_back_within_send() -> None:
    """A host that answers amid a change of its state would get the next request, which may change it again."""
    async with on_station() as station:
        user = station.user
        _, writer = await station.client()
        writer.write(framed(b"first") + framed(b"next"))
        await user.wait_for(lambda: user.frames == [b"first"])
        station.links.send(ConnectionId(1), frame([b"answer"]))
        assert user.frames == [b"first"]
        await user.wait_for(lambda: user.frames == [b"first", b"next"])
        await hang_up(writer)
        await user.wait_for(lambda: user.heard == [("accepted", 1), ("closed", 1)])


async def test_two_nodes_talk_over_a_dialed_connection() -> None:
    async with on_station() as station:
        links, user = station.links, station.user
        user.answer = lambda connection, message: (
            links.send(connection, frame([b"pong"])) if message == b"ping" else None
        )
        dialed = links.dial(station.endpoint)
        await user.wait_for(lambda: len(user.heard) == 2)
        assert sorted(user.heard) == [("accepted", 2), ("connected", 1)]
        assert (links.accepted_count, links.dialed_count) == (1, 1)
        links.send(dialed, frame([b"ping"]))
        await user.wait_for(lambda: user.frames == [b"ping", b"pong"])
        links.close(dialed)
        await user.wait_for(lambda: len(user.heard) == 3)
        assert user.heard[-1] == ("closed", 2)
        assert (links.accepted_count, links.dialed_count, links.violations) == (0, 0, 0)


async def test_an_answer_may_be_larger_than_a_request() -> None:
    answer = b"x" * 3_000
    async with on_station(request_size_bytes_max=2_000) as station:
        links, user = station.links, station.user
        user.answer = lambda connection, message: (
            links.send(connection, frame([answer])) if message == b"ping" else None
        )
        dialed = links.dial(station.endpoint)
        await user.wait_for(lambda: len(user.heard) == 2)
        links.send(dialed, frame([b"ping"]))
        await user.wait_for(lambda: user.frames == [b"ping", answer])
        links.send(dialed, frame([answer]))
        await user.wait_for(lambda: len(user.heard) == 4)
        assert links.violations == 1
    user = station.user
    assert "a frame of 3000 bytes: allowed are 1 to 2000" in user.reports[0]


async def test_small_requests_are_not_held_back() -> None:
    async with on_station() as station:
        no_delay: list[int] = []

        def read_no_delay(connection: ConnectionId, message: bytes) -> None:
            transport = station.links._links[connection]._transport
            assert transport is not None
            raw = transport.get_extra_info("socket")
            no_delay.append(raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

        station.user.answer = read_no_delay
        station.links.send(station.links.dial(station.endpoint), [])
        await station.user.wait_for(lambda: len(station.user.heard) == 2)
        station.links.send(ConnectionId(1), frame([b"x"]))
        await station.user.wait_for(lambda: bool(no_delay))
        assert no_delay[0] != 0


async def test_a_dial_that_is_refused_is_told_as_such() -> None:
    async with on_station() as station:
        [port] = free_ports(1)
        dialed = station.links.dial(Endpoint(HOST, port))
        await station.user.hears(("refused", dialed))
        assert station.user.reasons == ["connection refused"]


@pytest.mark.parametrize("addresses", [[HOST, "255.255.255.255"], ["255.255.255.255", HOST]])
async def test_a_dial_is_not_refused_while_another_address_may_be_the_peers(addresses: list[str]) -> None:
    async with on_station(names=lambda loop: Names(loop, lookup=lambda endpoint: addresses)) as station:
        [port] = free_ports(1)
        dialed = station.links.dial(Endpoint("kafka", port))
        await station.user.hears(("closed", dialed))


async def test_a_host_without_addresses_is_closed() -> None:
    async with on_station(names=lambda loop: Names(loop, lookup=lambda endpoint: [])) as station:
        dialed = station.links.dial(Endpoint("kafka", 9_092))
        await station.user.hears(("closed", dialed))


async def test_the_next_address_of_a_host_is_tried() -> None:
    addresses = ["127.0.0.99", HOST]
    async with on_station(names=lambda loop: Names(loop, lookup=lambda endpoint: addresses)) as station:
        station.links.dial(Endpoint("kafka", station.endpoint.port))
        await station.user.wait_for(lambda: len(station.user.heard) == 2)
        assert ("connected", 1) in station.user.heard


async def test_a_dial_takes_no_longer_than_it_may() -> None:
    gate = threading.Event()

    def never(endpoint: Endpoint) -> list[str]:
        assert gate.wait(TIMEOUT_S)
        return []

    async with on_station(dial_ms_max=10, names=lambda loop: Names(loop, lookup=never)) as station:
        dialed = station.links.dial(Endpoint("kafka", 9_092))
        await station.user.hears(("closed", dialed))
        gate.set()
        assert station.user.reasons == ["its name was not resolved within 10 ms"]


async def test_of_a_dial_that_was_closed_nothing_is_heard() -> None:
    async with on_station() as station:
        station.links.close(station.links.dial(station.endpoint))
        other = station.links.dial(station.endpoint)
        await station.user.wait_for(lambda: ("connected", other) in station.user.heard)
        assert not [event for event, connection in station.user.heard if connection == other - 1]


async def test_a_dial_that_succeeds_after_it_was_closed_is_given_up() -> None:
    async with on_station() as station:
        dialed = station.links.dial(station.endpoint)
        link = station.links._new_link(None)
        link.connection = dialed
        station.links.close(dialed)
        transport = FakeTransport()
        link.connection_made(transport)
        link.connection_lost()
        assert transport.is_aborted
        assert station.user.heard == []


@pytest.mark.parametrize("runner", ["uvloop"], indirect=True)
async def test_a_dial_whose_time_is_over_as_it_connects_is_closed(runner: asyncio.Runner) -> None:
    """In uvloop, which looks at timers first.

    1. The process is stopped while a dial is under way, or its machine is busy.
    2. It goes on: the peer has answered, and the time of the dial is over.
    3. The link is made. Then the dial's task is canceled, before it hears of that, and uvloop closes the transport
       without a word to the link. A frame for that link raised, and ended the node.
    """
    dial_s = 0.05

    async with on_station(dial_ms_max=round(dial_s * 1_000)) as station:
        links, user = station.links, station.user
        note = user.link_connected

        def connected_late(connection: ConnectionId, end: RemoteEnd) -> None:
            note(connection, end)
            end_s = time.monotonic() + dial_s
            while time.monotonic() < end_s:
                pass

        user.link_connected = connected_late  # type: ignore[method-assign]
        dialed = links.dial(station.endpoint)
        await asyncio.wait([links._dials[dialed]])
        links.send(dialed, frame([b"anybody there?"]))
        assert [event for event, connection in user.heard if connection == dialed] == ["connected", "closed"]
        assert links.dialed_count == 0
    assert user.frames == []


@pytest.mark.parametrize(
    "host", ["127.0.0.1\0", "::ffff:127.0.0.1\0x", "a\0b", "fe80::1%\0", "..", "\ud800", "x" * 300]
)
async def test_a_dial_of_what_is_no_host_is_closed(host: str) -> None:
    async with on_station() as station:
        [port] = free_ports(1)
        dialed = station.links.dial(Endpoint(host, port))
        # uvloop cuts some of these hosts at their NUL, and this machine refuses what is left.
        await station.user.wait_for(lambda: station.user.heard in ([("closed", dialed)], [("refused", dialed)]))
    assert station.user.failures == []


async def test_a_dial_that_fails_in_a_way_that_nobody_foresaw_is_told() -> None:
    class StrangeNames(Names):
        async def addresses(self, endpoint: Endpoint) -> list[str]:
            raise OverflowError(f"what is {endpoint}?")

    async with on_station(names=StrangeNames) as station:
        dialed = station.links.dial(Endpoint("a\nb", 1))
        await station.user.hears(("closed", dialed))
    user = station.user
    assert user.failures == []
    assert user.reports == ["cannot dial 'a\\nb:1': OverflowError('what is a\\nb:1?')"]


async def test_a_bug_in_a_dial_is_not_lost() -> None:
    class BrokenNames(Names):
        async def addresses(self, endpoint: Endpoint) -> list[str]:
            raise AssertionError(f"a bug at {endpoint}")

    async with on_station(names=BrokenNames) as station:
        station.links.dial(station.endpoint)
        await station.user.wait_for(lambda: bool(station.user.failures))
    user = station.user
    assert "a bug at" in str(user.failures[0])


@pytest.mark.parametrize("garbage", [b"\x16\x03\x01\x02\0\x01\0", b"GET / HTTP/1.1\r\n\r\n", struct.pack(">i", 2**30)])
async def test_garbage_closes_its_connection_with_one_line(garbage: bytes) -> None:
    async with on_station() as station:
        reader, writer = await station.client()
        writer.write(garbage)
        await closed_by_peer(reader, writer)
        await station.user.hears(("accepted", 1), ("closed", 1))
        assert station.links.violations == 1
    user = station.user
    assert len(user.reports) == 1
    assert user.reports[0].startswith("closing connection 1 on PLAINTEXT: a frame of")


async def test_one_client_too_many_costs_the_most_silent_one_its_place() -> None:
    async with on_station(accepted_max=2) as station:
        user = station.user
        clients = []
        for number in range(2):
            clients.append(await station.client())
            await user.wait_for(lambda number=number: len(user.heard) == number + 1)  # type: ignore[misc]
        links = station.links._links
        links[ConnectionId(1)].heard_s += 1
        clients.append(await station.client())
        await closed_by_peer(*clients[1])
        assert user.heard == [("accepted", 1), ("accepted", 2), ("closed", 2), ("accepted", 3)]
        for _, writer in (clients[0], clients[2]):
            await hang_up(writer)
    user = station.user
    [report] = user.reports
    assert report == "closing connection 2 on PLAINTEXT: 2 connections are open, and it has been silent the longest"


async def test_silent_clients_are_closed_after_a_while_and_dialed_connections_are_not() -> None:
    async with on_station(idle_ms_max=40) as station:
        dialed = station.links.dial(station.endpoint)
        await station.user.wait_for(lambda: ("connected", dialed) in station.user.heard)
        station.links._links[dialed].heard_s -= 1_000
        reader, writer = await station.client()
        await closed_by_peer(reader, writer)
        await station.user.wait_for(lambda: [event for event, _ in station.user.heard].count("closed") >= 2)
    user = station.user
    closed = [connection for event, connection in user.heard if event == "closed"]
    assert sorted(closed) == [1, 2, 3]
    assert user.heard.index(("closed", 2)) < user.heard.index(("closed", 1)), "the client's end goes first"


async def test_unfinished_frames_of_all_clients_are_bounded_together() -> None:
    async with on_station(held_size_bytes_max=200_000) as station:
        user = station.user
        small_reader, small = await station.client()
        small.write(struct.pack(">i", 1_000) + b"x" * 900)
        reader, large = await station.client()
        large.write(struct.pack(">i", 400_000) + b"x" * 300_000)
        await closed_by_peer(reader, large)
        small.write(b"x" * 100)
        await user.wait_for(lambda: user.frames == [b"x" * 1_000])
        assert ("closed", 2) in user.heard
        assert station.links._held_size_bytes == 0
        await hang_up(small)
        await closed_by_peer(small_reader, small)
    user = station.user
    assert "unfinished frames take" in user.reports[0]


async def test_large_requests_wait_for_room_until_others_are_answered() -> None:
    size_bytes = 400_000
    async with on_station(room_size_bytes_max=2 * size_bytes) as station:
        user, frames = station.user, station.user.frames
        clients = [await station.client() for _ in range(6)]
        for _, writer in clients:
            writer.write(framed(b"x" * size_bytes))
        for count in (2, 4, 6):
            await received(station, count)
            await turns(asyncio.get_running_loop(), 20)
            assert len(frames) == count
            for connection in range(count - 1, count + 1):
                station.links.send(ConnectionId(connection), frame([b"done"]))
        for _, writer in clients:
            await hang_up(writer)
        await user.wait_for(lambda: [event for event, _ in user.heard].count("closed") == 6)
        assert station.links._room_size_bytes == 0
        assert not station.links._room_since_s


async def test_a_request_larger_than_all_room_comes_alone() -> None:
    async with on_station(room_size_bytes_max=100_000) as station:
        for connection in (1, 2):
            _, writer = await station.client()
            writer.write(framed(b"x" * 300_000))
            await received(station, connection)
            station.links.send(ConnectionId(connection), frame([b"done"]))
            await hang_up(writer)


async def test_who_holds_room_and_sends_nothing_gives_way_to_those_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "ROOM_LOOK_S", 0.01)
    monkeypatch.setattr(links, "ROOM_SILENT_S", 0.05)
    async with on_station(room_size_bytes_max=400_000) as station:
        reader, silent = await station.client()
        silent.write(struct.pack(">i", 400_000) + b"x" * 10)
        await station.user.wait_for(lambda: bool(station.user.heard))
        while not station.links._room_size_bytes:
            await turns(asyncio.get_running_loop(), 1)
        _, other = await station.client()
        other.write(framed(b"y" * 300_000))
        await closed_by_peer(reader, silent)
        await received(station, 1)
        assert "its request of 400000 bytes does not come, and others wait" in station.user.reports[0]
        await hang_up(other)


async def received(station: Station, count: int) -> None:
    await station.user.wait_for(lambda: len(station.user.frames) == count)


@pytest.mark.conformance("H29")
async def test_a_peer_that_does_not_read_costs_one_buffer() -> None:
    requests = 2_000
    async with on_station() as station:
        user = station.user
        user.answer = lambda connection, message: station.links.send(connection, frame([b"x" * 65_536]))
        reader, writer = await station.client()
        writer.write(framed(b"request") * requests)
        await user.wait_for(lambda: bool(user.frames))
        await everything_closed(asyncio.get_running_loop())
        assert len(user.frames) < requests / 2, "it was not read from while its answers wait"
        for _ in range(requests):
            await asyncio.wait_for(reader.readexactly(4 + 65_536), TIMEOUT_S)
        assert len(user.frames) == requests
        await hang_up(writer)


async def test_what_was_written_before_the_close_arrives() -> None:
    answer = b"x" * 5_000_000
    async with on_station() as station:

        def answer_and_close(connection: ConnectionId, message: bytes) -> None:
            station.links.send(connection, frame([answer]))
            station.links.close(connection)

        station.user.answer = answer_and_close
        reader, writer = await station.client()
        writer.write(framed(b"request") + framed(b"one more"))
        assert await asyncio.wait_for(reader.readexactly(4 + len(answer)), TIMEOUT_S) == framed(answer)
        await closed_by_peer(reader, writer)
        assert station.user.frames == [b"request"]
        assert station.user.heard == [("accepted", 1)]


@pytest.mark.parametrize("host", ["localhost", ""])
async def test_a_name_listens_on_the_addresses_that_the_machine_has(host: str) -> None:
    async with on_station() as station:
        [port] = free_ports(1)
        await station.links.listen(LISTENER, listening_sockets(Endpoint(host, port)))
        dialed = station.links.dial(Endpoint("127.0.0.1", port))
        await station.user.wait_for(lambda: ("connected", dialed) in station.user.heard)


async def test_after_the_end_nobody_is_accepted_or_told() -> None:
    async with on_station() as station:
        reader, writer = await station.client()
        await station.user.hears(("accepted", 1))
        station.links.close_all()
        await closed_by_peer(reader, writer)
        with pytest.raises(OSError, match=r"refused|failed|Connect"):
            await station.client()
        assert station.user.heard == [("accepted", 1)]


def test_a_request_may_be_as_large_as_configured_and_no_larger_than_raft_needs() -> None:
    assert LinkLimits.of(NODE).request_size_bytes_max == REQUEST_SIZE_BYTES_MAX < NODE.request_size_bytes_max
    assert LinkLimits.of(replace(NODE, request_size_bytes_max=1_024)).request_size_bytes_max == 1_024


def test_only_listeners_for_clients_take_requests_as_large_as_a_batch() -> None:
    node = replace(NODE, client_listeners=("CLIENTS",))
    limits = LinkLimits.of(node)
    assert limits.frame_size_bytes_max("CONTROLLER") == REQUEST_SIZE_BYTES_MAX
    assert limits.frame_size_bytes_max("clients") == node.raft.batch_size_bytes_max + REQUEST_SIZE_BYTES_MAX
    assert limits.frame_size_bytes_max(None) == limits.answer_size_bytes_max


async def test_a_name_that_nobody_knows_is_told_as_such() -> None:
    def unknown(endpoint: Endpoint) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, f"nobody knows {endpoint.host}")

    async with on_station(names=lambda loop: Names(loop, lookup=unknown)) as station:
        dialed = station.links.dial(Endpoint("kafka", 9_092))
        await station.user.hears(("closed", dialed))
        assert station.user.reasons == ["its name cannot be resolved (nobody knows kafka)"]


async def test_a_dial_that_takes_too_long_is_told_as_such() -> None:
    async with on_station(dial_ms_max=0) as station:
        dialed = station.links.dial(station.endpoint)
        await station.user.wait_for(lambda: ("closed", dialed) in station.user.heard)
        assert "no connection within 0 ms" in station.user.reasons


async def test_garbage_from_a_dialed_address_is_told_as_such() -> None:
    async with on_station() as station:

        async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
            await reader.read()
            writer.close()

        [port] = free_ports(1)
        async with await asyncio.start_server(greet, HOST, port):
            dialed = station.links.dial(Endpoint(HOST, port))
            await station.user.hears(("connected", dialed), ("closed", dialed))
        [reason] = station.user.reasons
        assert "SSH" in reason


async def test_clients_that_ask_much_take_turns_and_leave_the_loop_to_others() -> None:
    clients_count, requests_count = 40, 200
    async with on_station() as station:
        loop = asyncio.get_running_loop()
        taken: list[tuple[int, ConnectionId]] = []
        turn = 0

        def next_turn() -> None:
            nonlocal turn
            turn += 1
            loop.call_soon(next_turn)

        def answer(connection: ConnectionId, message: bytes) -> None:
            taken.append((turn, connection))
            station.links.send(connection, frame([message]))

        station.user.answer = answer
        clients = [await station.client() for _ in range(clients_count)]
        await station.user.wait_for(lambda: len(station.user.heard) == clients_count)
        next_turn()
        for _, writer in clients:
            writer.write(framed(b"request") * requests_count)
        await station.user.wait_for(lambda: len(taken) == clients_count * requests_count)
        turns = Counter(each for each, _ in taken)
        # the turn of the loop that counts may end between two that serve: so twice as many at most
        assert max(turns.values()) <= 2 * REQUESTS_PER_TURN_MAX
        begun = taken.index(next(each for each in taken if each[1] == taken[-1][1]))
        shares = Counter(connection for _, connection in taken[begun : begun + 10 * clients_count])
        assert max(shares.values()) <= 2 * 10 + 2, "nobody has much more than its share"
        for _, writer in clients:
            await hang_up(writer)


@pytest.mark.conformance("H29")
async def test_answers_that_clients_do_not_read_are_bounded_together() -> None:
    answer = b"x" * 20_000_000
    async with on_station(unsent_size_bytes_max=60_000_000) as station:
        user, links = station.user, station.links
        user.answer = lambda connection, message: links.send(connection, frame([answer]))
        clients: list[socket.socket] = []
        with ExitStack() as closing:
            for number in range(6):
                client = closing.enter_context(socket.socket())
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
                client.connect((station.endpoint.host, station.endpoint.port))
                client.sendall(framed(b"request") * 8)
                clients.append(client)
                await user.wait_for(lambda number=number: len(user.frames) >= number + 1)  # type: ignore[misc]
                await everything_closed(asyncio.get_running_loop())
            assert len(user.frames) == 6, "the others wait for the first answer to be read"
            ended = [connection for event, connection in user.heard if event == "closed"]
            assert ended == list(range(1, len(ended) + 1)), "those go first that have not read for the longest time"
            assert 0 < len(ended) < 6
            assert links._unsent_size_bytes <= 60_000_000
            assert links._unsent_size_bytes == sum(links._unsent.values())
        await user.wait_for(lambda: len(user.heard) == 12)
        assert (links._unsent, links._unsent_size_bytes) == ({}, 0)
    user = station.user
    assert all("its own have waited the longest" in report for report in user.reports)


async def test_who_has_read_meanwhile_is_not_closed() -> None:
    async with on_station(unsent_size_bytes_max=20_000_000) as station:
        user, links = station.user, station.links
        user.answer = lambda connection, message: links.send(connection, frame([b"x" * 8_000_000]))
        writers = []
        for _ in range(5):  # they stay connected: of whoever leaves nothing is counted
            reader, writer = await station.client()
            writers.append(writer)
            writer.write(framed(b"request"))
            await asyncio.wait_for(reader.readexactly(8_000_004), TIMEOUT_S)
        for writer in writers:
            await hang_up(writer)
    user = station.user
    assert user.reports == []
