"""A stranger sends requests, poses as a leader, and answers."""

from __future__ import annotations

import pytest

from pykraft.core.messages import BeginQuorumEpochRequest, FetchRequest, FetchResponse, Request
from pykraft.core.on import epoch_raise
from pykraft.host.ports import ConnectionId
from pykraft.sim.clients.stranger import STRANGER_LISTENERS, Stranger, StrangerAnswer
from pykraft.sim.facts.claims import STRANGER_ID
from pykraft.types import Epoch, NodeId, Offset
from tests.sim.worlds import led_world, run_for, run_until

EPOCH = Epoch(300)


def test_whoever_takes_it_for_a_leader_asks_it_and_gets_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    # As a node that has lost its leader.
    monkeypatch.setattr(epoch_raise, "_hears_leader", lambda _: False)
    world, _ = led_world()
    asked: list[FetchRequest] = []

    def answer(request: Request) -> StrangerAnswer | None:
        assert isinstance(request, FetchRequest)
        asked.append(request)
        if len(asked) > 2:
            return None
        empty = FetchResponse(
            error=0, epoch=EPOCH, leader_id=NodeId(STRANGER_ID), high_watermark=None, log_start_offset=Offset(0)
        )
        return empty, b""

    stranger = Stranger(world.facts, world.watch, answer)
    world.facts.claims.epochs.add(EPOCH)
    node = world.nodes[1]
    message = BeginQuorumEpochRequest(
        epoch=EPOCH, leader_id=NodeId(STRANGER_ID), voter=None, listeners=STRANGER_LISTENERS
    )
    stranger.ask(node.node_id, message)
    run_until(world, lambda: bool(asked))
    assert node.host is not None
    assert (asked[0].epoch, node.host.status.epoch) == (EPOCH, EPOCH)
    run_until(world, lambda: any("is given up as the leader of epoch 300" in line for line in world.trace.lines))
    stranger.leave()
    run_until(
        world,
        lambda: (
            world.facts.newest_leader() is not None and len({host.status.epoch for host in world.facts.hosts()}) == 1
        ),
    )


def test_a_stranger_that_hung_up_asks_nothing_and_waits_for_nothing() -> None:
    world, _ = led_world()
    stranger = Stranger(world.facts, world.watch, lambda _: None)
    message = BeginQuorumEpochRequest(
        epoch=EPOCH, leader_id=NodeId(STRANGER_ID), voter=None, listeners=STRANGER_LISTENERS
    )
    stranger.hang_up(stranger.ask(NodeId(1), message))
    stranger.connected(ConnectionId(10_000))
    stranger.closed(ConnectionId(10_000))
    run_for(world, 200_000)
    assert all(host.status.epoch < EPOCH for host in world.facts.hosts())
    stranger.leave()
