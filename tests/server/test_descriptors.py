"""How many descriptors clients may use: the rest is for the node, other nodes and the application."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from pykraft.errors import UsageError
from pykraft.server.descriptors import ACCEPTED_MAX, OWN_DESCRIPTORS, UNLIMITED, accepted_max, descriptor_max
from tests.server.station import Station, everything_closed, on_station


@pytest.mark.parametrize(
    ("soft", "hard", "accepted", "asks_for"),
    [
        (256, 256, 256 - OWN_DESCRIPTORS, 256),
        (256, 1_000, 1_000 - OWN_DESCRIPTORS, 1_000),
        (1_024, 1_048_576, ACCEPTED_MAX, ACCEPTED_MAX + OWN_DESCRIPTORS),
        (1_024, resource.RLIM_INFINITY, ACCEPTED_MAX, ACCEPTED_MAX + OWN_DESCRIPTORS),
        (1_048_576, 1_048_576, ACCEPTED_MAX, None),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, ACCEPTED_MAX, None),
    ],
)
def test_clients_are_as_many_as_the_process_may_have_descriptors_for(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, accepted: int, asks_for: int | None
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    assert accepted_max() == accepted
    assert asked == ([] if asks_for is None else [(asks_for, hard)])


def test_too_few_descriptors_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, OWN_DESCRIPTORS))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: None)
    with pytest.raises(UsageError, match="ulimit -n"):
        accepted_max()


@pytest.mark.parametrize(
    ("soft", "most"),
    [(1_024, 1_023 - OWN_DESCRIPTORS), (256, 127), (64, 31), (resource.RLIM_INFINITY, UNLIMITED)],
)
def test_the_largest_number_of_a_client_leaves_some(monkeypatch: pytest.MonkeyPatch, soft: int, most: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, resource.RLIM_INFINITY))
    assert descriptor_max() == most


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


def test_silent_clients_leave_descriptors_for_whoever_else_is_in_the_process(runner: asyncio.Runner) -> None:
    """Both ends are in this process: the clients' own take two thirds of what there is."""
    clients_count = 60
    holding = ExitStack()
    descriptors_max = take_gaps(holding) + clients_count * 3 // 2

    async def main(station: Station) -> None:
        user, links = station.user, station.links
        with ExitStack() as closing:
            for number in range(clients_count):
                closing.enter_context(socket.create_connection((station.endpoint.host, station.endpoint.port)))
                await user.wait_for(lambda number=number: ("accepted", number + 1) in user.heard)  # type: ignore[misc]
                await everything_closed(asyncio.get_running_loop())  # a closed one gives its number back a little later
                largest = max(link.descriptor for link in links._accepted.values())
                assert largest <= descriptors_max + 10
            assert 0 < links.accepted_count < clients_count * 2 // 3
        await user.wait_for(lambda: len(user.heard) == 2 * clients_count)

    with holding:
        user = on_station(runner, main, descriptor_max=descriptors_max)
    assert all("it has been silent the longest" in report for report in user.reports)


def test_when_others_have_all_descriptors_a_client_is_turned_away(runner: asyncio.Runner) -> None:
    async def main(station: Station) -> None:
        reader, writer = await station.client()
        assert await reader.read(1) == b""
        writer.close()
        await writer.wait_closed()

    assert on_station(runner, main, descriptor_max=0).heard == []
