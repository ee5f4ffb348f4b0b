"""Connections between simulated processes: answers, nobody there, silence, and an end in the middle."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pykraft.errors import UnreachableError
from pykraft.machine.testing.link import SimulatedLink, open_link
from pykraft.machine.testing.virtual_loop import VirtualLoop
from pykraft.protocol.messages import ApiKey
from pykraft.sim.machine.node import Process
from pykraft.sim.run.world import World
from pykraft.sim.scenario.settings import LISTENER, rpc_context
from pykraft.types import Endpoint
from tests.sim.worlds import run_until, started_world

DESCRIBE = {"include_cluster_authorized_operations": False, "endpoint_type": 2}


def run(world: World, act: Callable[[Process, Endpoint], Awaitable[Any]]) -> Any:
    """Run this on node 1, with the address of node 2."""
    process = world.nodes[1].process
    assert process is not None
    loop = VirtualLoop(world.nodes[1].clock, process.later, lambda context: None)  # type: ignore[abstract]
    endpoint = world.nodes[2].config.advertised_listeners.get(LISTENER)
    assert endpoint is not None

    async def main() -> Any:
        return await act(process, endpoint)

    task = loop.create_task(main())
    run_until(world, task.done)
    return task.result()


async def opened(process: Process, endpoint: Endpoint) -> SimulatedLink:
    link = await open_link(process, endpoint, rpc_context(process._node.config), 500)
    assert isinstance(link, SimulatedLink)
    return link


def test_a_request_is_answered_by_the_other_node() -> None:
    async def act(process: Process, endpoint: Endpoint) -> Any:
        link = await opened(process, endpoint)
        assert link.endpoint == endpoint
        assert link.offers_key(ApiKey.DESCRIBE_CLUSTER)
        assert not link.offers_key(ApiKey.PRODUCE)
        first = await link.ask_body(ApiKey.DESCRIBE_CLUSTER, DESCRIBE, timeout_ms=500)
        second = await link.ask_body(ApiKey.DESCRIBE_CLUSTER, DESCRIBE, timeout_ms=500)
        await link.close()
        assert not link.is_open
        with pytest.raises(UnreachableError, match="closed"):
            await link.ask_body(ApiKey.DESCRIBE_CLUSTER, DESCRIBE, timeout_ms=500)
        return first, second

    first, second = run(started_world(), act)
    assert first["cluster_id"] == second["cluster_id"] == "simulated"


def test_a_node_that_is_down_is_unreachable() -> None:
    world = started_world()
    world.nodes[2].kill()

    async def act(process: Process, endpoint: Endpoint) -> None:
        with pytest.raises(UnreachableError):
            await opened(process, endpoint)

    run(world, act)


def test_an_answer_that_is_held_back_times_out_and_closes_the_link() -> None:
    world = started_world()

    async def act(process: Process, endpoint: Endpoint) -> None:
        link = await opened(process, endpoint)
        world.network.cut(2, 1)
        with pytest.raises(UnreachableError, match="no answer within 300 ms"):
            await link.ask_body(ApiKey.DESCRIBE_CLUSTER, DESCRIBE, timeout_ms=300)
        assert not link.is_open

    run(world, act)


def test_a_peer_that_dies_breaks_the_link() -> None:
    world = started_world()

    async def act(process: Process, endpoint: Endpoint) -> None:
        link = await opened(process, endpoint)
        world.nodes[2].kill()
        with pytest.raises(UnreachableError):
            await link.ask_body(ApiKey.DESCRIBE_CLUSTER, DESCRIBE, timeout_ms=3_000)
        assert not link.is_open

    run(world, act)
