"""Links over TLS: what they carry, who is at the other end, and a peer that goes away just then."""

import asyncio
import socket
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import frame
from pykraft.security.contexts import Side
from pykraft.security.principal import Principal
from pykraft.server import link as link_module
from pykraft.server import secured
from tests.security.credentials import HOSTS, context, properties
from tests.server.station import TIMEOUT_S, framed, reset, send_in_pieces, turns
from tests.server.test_secured import secured_station


async def test_nodes_talk_over_tls_and_know_each_other(tmp_path: Path) -> None:
    async with secured_station(tmp_path) as station:
        links, user = station.links, station.user
        user.answer = lambda connection, message: (
            links.send(connection, frame([b"x" * 300_000])) if message == b"ping" else None
        )
        dialed = links.dial(station.endpoint)
        await user.wait_for(lambda: len(user.heard) == 2)
        links.send(dialed, frame([b"ping"]))
        await user.wait_for(lambda: user.frames == [b"ping", b"x" * 300_000])
        principals = [link.principal for link in links._links.values()]
        assert principals == [Principal("CN=node")] * 2
        links.close(dialed)
        await user.wait_for(lambda: len(user.heard) == 3)
        assert (links.accepted_count, links.dialed_count, links.failed_handshakes) == (0, 0, 0)


async def test_links_may_end_in_the_turn_in_which_their_peer_has_gone(tmp_path: Path) -> None:
    """asyncio knows that the connection is lost one turn before the link hears of it."""
    async with secured_station(tmp_path) as station:
        loop, links, user = asyncio.get_running_loop(), station.links, station.user
        for _ in range(2):
            links.dial(station.endpoint)
        await user.wait_for(lambda: len(user.heard) == 4)
        [gone, *others] = links._links.values()
        transport = gone._transport
        assert transport is not None
        was_open: asyncio.Future[bool] = loop.create_future()

        def end_when_lost() -> None:
            if transport.is_closing():
                was_open.set_result(gone.is_open)
                links.close_all()
            else:
                loop.call_soon(end_when_lost)

        socket.socket.shutdown(transport.get_extra_info("socket")._sock, socket.SHUT_RDWR)
        end_when_lost()
        assert await was_open, "it has not heard of it"
        assert not any(link.is_open for link in (gone, *others))


async def test_first_request_may_come_with_the_end_of_the_handshake(tmp_path: Path) -> None:
    """A blocking client writes at once; its bytes arrive with its Finished, and none is lost."""
    client = context(properties(tmp_path), Side.CLIENT).current

    def ask(port: int) -> None:
        plain = socket.create_connection((HOSTS[1], port), timeout=TIMEOUT_S)
        with client.wrap_socket(plain, server_hostname="localhost") as wrapped:
            wrapped.sendall(b"\0\0\0\4ping")
            wrapped.recv(1)

    async with secured_station(tmp_path) as station:
        user = station.user
        user.answer = lambda connection, message: station.links.send(connection, frame([message]))
        for _ in range(5):
            await asyncio.wait_for(asyncio.to_thread(ask, station.endpoint.port), TIMEOUT_S)
        assert user.frames == [b"ping"] * 5


def sockets() -> set[str]:
    """The sockets that this process has open."""
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(str(each.readlink()))
    return {each for each in found if each.startswith("socket:")}


async def all_closed(before: set[str]) -> None:
    """Wait until no socket is open that was not open then."""
    async with asyncio.timeout(TIMEOUT_S):
        while sockets() - before:
            await turns(asyncio.get_running_loop(), 50)


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections have little time for their last words."""
    monkeypatch.setattr(link_module, "LAST_WORDS_TIMEOUT_S", 0.05)
    monkeypatch.setattr(secured, "TLS_CLOSE_S_MAX", 0.05)


@pytest.mark.usefixtures("brief")
async def test_peer_that_ends_its_side_while_it_is_not_read_from_is_closed(tmp_path: Path) -> None:
    """asyncio's TLS keeps such a connection open until it is read from again."""
    trust = context(properties(tmp_path), Side.CLIENT).current
    async with secured_station(tmp_path) as station:
        before, user = sockets(), station.user
        _, writer = await asyncio.open_connection(HOSTS[1], station.endpoint.port, ssl=trust, server_hostname=HOSTS[0])
        writer.write(framed(b"waits for its answer") + framed(b"waits for its turn"))
        await user.wait_for(lambda: len(user.frames) == 1)
        [link] = station.links._links.values()
        assert link._is_paused
        writer.get_extra_info("socket")._sock.shutdown(socket.SHUT_WR)
        await turns(asyncio.get_running_loop(), 50)
        station.links.close(link.connection)
        await asyncio.wait_for(reset(writer), TIMEOUT_S)
        await all_closed(before)


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("seed", range(4))
async def test_no_order_of_frames_garbage_and_ends_is_an_error_of_the_loop(tmp_path: Path, seed: int) -> None:
    """`on_station` fails the test for it."""
    random = Random(seed)
    trust = context(properties(tmp_path), Side.CLIENT).current
    pieces = [framed(b"ping"), framed(b"x" * 200_000), framed(b"close"), framed(b"late"), b"\0\0\1", b"\xff" * 9, b""]

    async with secured_station(tmp_path) as station:
        loop, links, user = asyncio.get_running_loop(), station.links, station.user

        def answer(connection: ConnectionId, message: bytes) -> None:
            match message:
                case b"close":
                    links.close(connection)
                case b"late":
                    loop.call_later(0.005, links.send, connection, frame([message]))
                case _:
                    links.send(connection, frame([message] * random.choice([1, 40])))

        async def visit(sent: list[bytes], end: str) -> None:
            reader, writer = await asyncio.open_connection(
                HOSTS[1], station.endpoint.port, ssl=trust, server_hostname=HOSTS[0], limit=1 << 10
            )
            plain = writer.get_extra_info("socket")._sock
            with suppress(OSError):
                await send_in_pieces(reader, writer, sent, random)
                if end == "half":
                    plain.shutdown(socket.SHUT_WR)
                    await turns(loop, 20)
                elif end == "garbage":
                    plain.send(b"garbage after records")
                elif end == "close":
                    writer.close()
                    await turns(loop, 20)
            await reset(writer)

        before, user.answer = sockets(), answer
        for _ in range(5):
            ends = random.choices(["half", "garbage", "close", "abort"], k=10)
            await asyncio.gather(*(visit(random.choices(pieces, k=random.randint(1, 5)), end) for end in ends))
        await user.wait_for(lambda: not links.accepted_count)
        await all_closed(before)
        assert user.failures == []
