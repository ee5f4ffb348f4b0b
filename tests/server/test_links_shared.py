"""What all clients of a node share: turns of the loop, and memory for unread answers."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from contextlib import ExitStack

import pytest

from pykraft.host.ports import ConnectionId
from pykraft.protocol.frame import frame
from pykraft.server.links import REQUESTS_PER_TURN_MAX
from tests.server.station import TIMEOUT_S, Station, everything_closed, framed, hang_up, on_station


def test_clients_that_ask_much_take_turns_and_leave_the_loop_to_others(runner: asyncio.Runner) -> None:
    clients_count, requests_count = 40, 200

    async def main(station: Station) -> None:
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

    on_station(runner, main)


@pytest.mark.conformance("H29")
def test_answers_that_clients_do_not_read_are_bounded_together(runner: asyncio.Runner) -> None:
    answer = b"x" * 20_000_000

    async def main(station: Station) -> None:
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

    user = on_station(runner, main, unsent_size_bytes_max=60_000_000)
    assert all("its own have waited the longest" in report for report in user.reports)


def test_who_has_read_meanwhile_is_not_closed(runner: asyncio.Runner) -> None:
    async def main(station: Station) -> None:
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

    user = on_station(runner, main, unsent_size_bytes_max=20_000_000)
    assert user.reports == []
