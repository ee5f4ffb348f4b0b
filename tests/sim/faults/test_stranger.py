"""Each act of a stranger and of a false leader reaches its nodes; the quorum works meanwhile and afterwards."""

from random import Random

import pytest

from pykraft.core.messages import BeginQuorumEpochRequest, FetchRequest, FetchResponse, Request
from pykraft.core.on import epoch_raise
from pykraft.host.ports import ConnectionId
from pykraft.sim.facts.facts import STRANGER_ID
from pykraft.sim.faults.stranger import (
    ANSWERS,
    STRANGER_LISTENERS,
    FalseLeader,
    Stranger,
    StrangerAnswer,
    StrangerFaults,
)
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import STRANGER
from pykraft.types import Epoch, NodeId, Offset
from tests.sim.worlds import calm_world, dynamic_world, harm_to, has_noted, led, led_world, run_for, run_until


def made(world: World, seed: int = 1) -> StrangerFaults:
    faults = StrangerFaults(harm_to(world))
    faults.use_dice(Random(seed))
    return faults


@pytest.mark.parametrize("kind", STRANGER)
def test_a_quorum_goes_on_whatever_a_stranger_does(kind: str) -> None:
    world, _ = led(dynamic_world())
    world.users.begin()
    for seed in range(3):
        faults = made(world, seed)
        run_until(world, faults.kinds[kind])
        run_for(world, 700_000)
        faults.stop()
    assert world.facts.claims.is_any
    goal = world.users.acknowledged + 20
    run_until(world, lambda: world.users.acknowledged > goal, limit_us=20_000_000)


def test_nobody_is_there_to_be_spoken_to_where_nothing_runs() -> None:
    for kind in STRANGER:
        assert not made(calm_world()).kinds[kind]()


def test_nobody_forges_a_fetch_that_could_not_be_told_from_the_voters_own() -> None:
    world, _ = led_world()
    assert not made(world).kinds["forged fetch"]()


def test_a_false_voter_answers_for_a_while_and_a_later_claim_is_not_ended_by_it() -> None:
    world, _ = led_world()
    faults = made(world)
    run_until(world, faults.kinds["false voter"])
    assert world.facts.claims.is_posing
    run_until(world, lambda: not world.facts.claims.is_posing, limit_us=4_000_000)
    run_until(world, faults.kinds["false voter"])
    run_until(world, faults.kinds["false leader"])
    assert not world.facts.claims.is_posing
    run_for(world, 3_000_000)
    assert has_noted(world, "a stranger answers Fetches with")
    faults.stop()


def test_its_name_is_a_voters_or_nobodys() -> None:
    world, _ = led_world()
    assert made(world)._sender().id in {1, 2, 3, STRANGER_ID}


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


def false_leader(world: World) -> FalseLeader:
    leader = FalseLeader(world.facts)
    assert set(leader.claims(Epoch(99), NodeId(1), Random(1))) <= set(ANSWERS)
    return leader


def answers_to(world: World, manner: str, *, offset: int = 3) -> StrangerAnswer | None:
    """What the node that leads would be told if it followed the stranger in its epoch."""
    faults, node = false_leader(world), world.nodes[1]
    assert node.host is not None
    assert node.host.status.leader_id is not None
    epoch = Epoch(node.host.status.epoch)
    faults._leaders[epoch] = (NodeId(node.host.status.leader_id), (manner,))
    asked = FetchRequest(
        replica=node.key,
        epoch=epoch,
        fetch_offset=Offset(offset),
        last_fetched_epoch=Epoch(1),
        wait_ms_max=0,
        size_bytes_max=1,
        high_watermark=None,
    )
    return faults.answer(asked)


def test_every_manner_has_an_answer_that_no_leader_gives() -> None:
    world, _ = led_world()
    found = {manner: answers_to(world, manner) for manner in ANSWERS}
    assert found["no answer"] is None
    assert {manner for manner, answer in found.items() if answer is not None and answer[1]} == {
        "records of another leader",
        "older records",
        "later records",
        "records behind a hole",
        "broken records",
    }
    assert len(world.facts.claims.batches) == 3  # a batch of a later epoch has the same CRC
    at_the_beginning = answers_to(world, "older records", offset=0)
    assert at_the_beginning is not None
    assert at_the_beginning[1] == b""


def test_nobody_answers_who_is_not_taken_for_the_leader() -> None:
    world, _ = led_world()
    faults = false_leader(world)
    for replica in (None, world.nodes[1].key):
        asked = FetchRequest(
            replica=replica,
            epoch=Epoch(77),
            fetch_offset=Offset(0),
            last_fetched_epoch=Epoch(0),
            wait_ms_max=0,
            size_bytes_max=1,
            high_watermark=None,
        )
        assert faults.answer(asked) is None
    assert faults._other_id(NodeId(1)) in {2, 3}
