"""Lookups: numeric addresses at once, one thread for each name, and no name waits for another."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading

import pytest

from pykraft.server.names import LOOKUPS_MAX, Names, in_words, look_up
from pykraft.types import Endpoint
from tests.server.station import everything_closed

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
    names = Names(runner.get_loop(), lookup=server.look_up)
    assert runner.run(names.addresses(Endpoint(address, 9_092))) == [address]
    assert server.asked == []


def test_many_wait_for_one_lookup_of_a_name(runner: asyncio.Runner) -> None:
    server = NameServer()
    server.gates["kafka"] = threading.Event()
    names = Names(runner.get_loop(), lookup=server.look_up)

    async def main() -> None:
        waiting = [asyncio.create_task(names.addresses(Endpoint("kafka", 9_092))) for _ in range(3)]
        other = await asyncio.wait_for(names.addresses(Endpoint("other", 9_092)), TIMEOUT_S)
        assert other == ["127.0.0.1"]
        assert not any(task.done() for task in waiting)
        server.gates["kafka"].set()
        assert await asyncio.wait_for(asyncio.gather(*waiting), TIMEOUT_S) == [["127.0.0.1"]] * 3
        assert sorted(server.asked) == ["kafka", "other"]
        await names.addresses(Endpoint("other", 9_092))
        assert sorted(server.asked) == ["kafka", "other", "other"]

    runner.run(main())


def test_who_gave_up_waiting_does_not_end_the_lookup(runner: asyncio.Runner) -> None:
    server = NameServer()
    server.gates["nobody"] = threading.Event()
    names = Names(runner.get_loop(), lookup=server.look_up)

    async def main() -> None:
        impatient = asyncio.create_task(names.addresses(Endpoint("nobody", 9_092)))
        patient = asyncio.create_task(names.addresses(Endpoint("nobody", 9_092)))
        while not server.asked:
            await asyncio.wait([patient], timeout=0.001)
        impatient.cancel()
        server.gates["nobody"].set()
        with pytest.raises(OSError, match="nobody knows"):
            await asyncio.wait_for(patient, TIMEOUT_S)
        assert impatient.cancelled()

    runner.run(main())


def test_a_lookup_that_ends_after_the_loop_has_nobody_to_tell(runner: asyncio.Runner) -> None:
    server = NameServer()
    server.gates["kafka"] = threading.Event()
    loop = runner.get_loop()
    names = Names(loop, lookup=server.look_up)
    with pytest.raises(TimeoutError):
        runner.run(asyncio.wait_for(names.addresses(Endpoint("kafka", 9_092)), 0.01))
    [thread] = [each for each in threading.enumerate() if each.name == "pykraft-name-lookup"]
    runner.close()
    server.gates["kafka"].set()
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()


def test_no_more_names_than_a_bound_are_looked_up_at_one_time(runner: asyncio.Runner) -> None:
    server = NameServer()
    hosts = [f"kafka-{number}" for number in range(LOOKUPS_MAX)]
    server.gates = {host: threading.Event() for host in hosts}
    names = Names(runner.get_loop(), lookup=server.look_up)

    async def main() -> None:
        waiting = [asyncio.create_task(names.addresses(Endpoint(host, 9_092))) for host in hosts]
        await everything_closed(asyncio.get_running_loop())
        with pytest.raises(OSError, match="64 names are already being looked up"):
            await names.addresses(Endpoint("one-more", 9_092))
        for gate in server.gates.values():
            gate.set()
        await asyncio.wait_for(asyncio.gather(*waiting), TIMEOUT_S)
        assert await asyncio.wait_for(names.addresses(Endpoint("one-more", 9_092)), TIMEOUT_S) == ["127.0.0.1"]

    runner.run(main())


def test_the_machines_own_names_are_known() -> None:
    assert "127.0.0.1" in look_up(Endpoint("localhost", 9_092))


@pytest.mark.parametrize("host", ["x" * 64 + ".org", "a..b", "\ud800"])
def test_what_cannot_be_a_name_is_an_os_error(host: str) -> None:
    with pytest.raises(OSError, match=r"host name|not known|failure"):
        look_up(Endpoint(host, 9_092))


def test_an_error_is_told_without_the_words_of_asyncio() -> None:
    refused = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('::1', 1)")
    assert in_words(refused) == "Connection refused"
    assert in_words(socket.gaierror(socket.EAI_NONAME, "Name or service not known")) == "Name or service not known"
    assert in_words(OSError("no address")) == "no address"
