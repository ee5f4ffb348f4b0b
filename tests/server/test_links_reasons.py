"""The user of the links hears why a dial failed."""

from __future__ import annotations

import asyncio
import socket

from pykraft.local.voters import HOST, free_ports
from pykraft.server.binding import Names
from pykraft.types import Endpoint
from tests.server.station import Station, on_station


def test_a_name_that_nobody_knows_is_told_as_such(runner: asyncio.Runner) -> None:
    def unknown(endpoint: Endpoint) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, f"nobody knows {endpoint.host}")

    async def main(station: Station) -> None:
        dialed = station.links.dial(Endpoint("kafka", 9_092))
        await station.user.hears(("closed", dialed))
        assert station.user.reasons == ["its name cannot be resolved (nobody knows kafka)"]

    on_station(runner, main, names=lambda loop: Names(loop, lookup=unknown))


def test_a_dial_that_takes_too_long_is_told_as_such(runner: asyncio.Runner) -> None:
    async def main(station: Station) -> None:
        dialed = station.links.dial(station.endpoint)
        await station.user.wait_for(lambda: ("closed", dialed) in station.user.heard)
        assert "no connection within 0 ms" in station.user.reasons

    on_station(runner, main, dial_ms_max=0)


def test_garbage_from_a_dialed_address_is_told_as_such(runner: asyncio.Runner) -> None:
    async def main(station: Station) -> None:
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

    on_station(runner, main)
