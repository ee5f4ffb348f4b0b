"""Forged frames and flipped bits reach the voters, and the quorum works afterwards."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from pykraft.core import messages
from pykraft.protocol.api import decode_request_header
from pykraft.protocol.messages import ApiKey
from pykraft.sim.facts.facts import FORGER_ID
from pykraft.sim.faults.forged import FAR, FlippedFaults, ForgedFaults, Value, values_in
from pykraft.sim.flipped_frame import FlippedFrame
from pykraft.sim.machine.network import FrameUnderWay
from pykraft.sim.run.world import World
from pykraft.types import Buffer, NodeId
from tests.sim.machine.test_ledger import batch
from tests.sim.machine.test_spoken import fetch_request, fetched
from tests.sim.worlds import calm_world, dynamic_world, harm_to, has_noted, led, led_world, run_for, run_until, started


def made(world: World, seed: int = 1) -> ForgedFaults:
    faults = ForgedFaults(harm_to(world))
    faults.use_dice(Random(seed))
    return faults


@pytest.mark.parametrize("seed", range(6))
def test_frames_are_forged_for_a_while_and_the_quorum_works_afterwards(seed: int) -> None:
    world, _ = led(dynamic_world())
    world.users.begin()
    run_for(world, 100_000)
    faults = made(world, seed)
    run_until(world, faults.kinds["forged frames"])
    assert world.facts.claims.is_forging
    assert not faults.kinds["forged frames"](), "one at a time"
    assert has_noted(world, "a stranger sends each voter")
    faults._until_us = world.clock.now_us + 200_000
    run_until(world, lambda: not world.facts.claims.is_forging)
    faults.stop()
    goal = world.users.acknowledged + 20
    run_until(world, lambda: world.users.acknowledged > goal, limit_us=20_000_000)


def test_without_a_leader_nobody_forges_anything() -> None:
    assert not made(calm_world()).kinds["forged frames"]()


def test_every_answer_of_the_forger_names_the_last_epoch_but_one() -> None:
    world, leader = led_world()
    faults = made(world)
    voter = world.facts.members.committed.voters[0]
    node = world.nodes[2]
    answers: list[Any] = []
    for name in ("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch"):
        found = faults._answer(faults._forge[name](node, leader, voter))
        assert found is not None
        answers.append(found[0])
    assert [type(each) for each in answers] == [
        messages.VoteResponse,
        messages.BeginQuorumEpochResponse,
        messages.EndQuorumEpochResponse,
        messages.FetchResponse,
    ]
    assert {each.epoch for each in answers} == {FAR}
    assert faults._answer(messages.ApiVersionsRequest(node_id=NodeId(1))) is None


def test_a_moved_voter_is_at_the_forgers_port() -> None:
    world, leader = led_world()
    faults = made(world)
    request = faults._forge["UpdateRaftVoter"](world.nodes[1], leader, world.facts.members.committed.voters[1])
    assert f":{FORGER_ID}" in str(request) or str(FORGER_ID) in str(request)
    assert world.facts.claims.is_moving_voters


KIND = "flipped bit"


def flipping(world: World, seed: int = 1) -> FlippedFaults:
    faults = FlippedFaults(harm_to(world))
    faults.use_dice(Random(seed))
    return faults


def test_bits_flip_in_requests_and_answers_and_the_quorum_goes_on() -> None:
    world, _ = led_world()
    world.users.begin()
    faults = flipping(world)
    for _ in range(30):
        assert faults.kinds[KIND]()
        run_for(world, 50_000)
    assert has_noted(world, "gets a FETCH request of")
    assert has_noted(world, "gets a FETCH answer of")
    assert has_noted(world, "closing ")
    assert world.facts.claims.is_flipped
    faults.stop()
    goal = world.users.acknowledged + 20
    run_until(world, lambda: world.users.acknowledged > goal)


def test_frames_of_an_election_are_hit() -> None:
    world = calm_world()
    faults = flipping(world)
    for _ in range(60):
        faults.kinds[KIND]()
    started(world)
    run_until(world, lambda: has_noted(world, "gets a VOTE answer of") and has_noted(world, "gets a VOTE request of"))
    faults.stop()
    assert not faults._wanted


def flips(world: World, sent: list[Buffer], asked: list[Buffer], *, is_request: bool) -> Iterator[dict[str, Value]]:
    """What the receiver of this frame reads, with many another bit flipped."""
    faults, data = flipping(world), b"".join(sent)[4:]
    header = decode_request_header(b"".join(asked)[4:])
    end = next(each for each in world.facts.network._ends.values() if each.is_dialed is is_request and each.peer)
    for seed in range(400):
        end.outgoing[:] = [FrameUnderWay(0, 0, data, 0)]
        faults._flip(end, header, data, Random(seed))
        assert isinstance(end.outgoing[-1].frame, FlippedFrame)
        yield values_in(header, end.outgoing[-1].frame, is_request=is_request)


def test_no_fetch_acknowledges_more() -> None:
    world, _ = led_world()
    found = list(flips(world, fetch_request(), fetch_request(), is_request=True))
    path = "topics[0].partitions[0].fetch_offset"
    offsets = [values[path] for values in found if path in values]
    assert all(isinstance(offset, int) and offset <= 9 for offset in offsets)
    assert {values["replica_state.replica_id"] for values in found if path in values} == {3}
    assert len({values.get("topics[0].partitions[0].current_leader_epoch") for values in found}) > 5
    assert world.facts.claims.misnamed


def test_no_answer_raises_the_high_watermark_or_lowers_the_epoch_of_a_batch() -> None:
    world, _ = led_world()
    records = batch(0, b"value", epoch=5)
    found = list(flips(world, fetched(5, records), fetch_request(), is_request=False))
    path = "responses[0].partitions[0].records[0].batch_epoch"
    epochs = {values[path] for values in found if path in values}
    assert 5 in epochs
    assert not epochs & set(range(5))
    assert {values.get("responses[0].partitions[0].high_watermark", 0) for values in found} <= {0, -(2**63)}


def test_a_flipped_answer_about_versions_makes_a_voter_old() -> None:
    world, _ = led_world()
    flipping(world)._claim({"api_keys[0].max_version": (2, 0)}, {})
    assert not world.facts.members.has_pre_votes


def test_values_are_those_that_the_receiver_reads() -> None:
    request = b"".join(fetch_request())[4:]
    header = decode_request_header(request)
    values = values_in(header, request, is_request=True)
    assert values["api_key"] == ApiKey.FETCH
    assert "topics[0].partitions[0].fetch_offset" in values
    assert values_in(header, request[:-1], is_request=True) == {}
    assert values_in(header, b"", is_request=False) == {}
