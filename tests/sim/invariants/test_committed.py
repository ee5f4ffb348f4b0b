"""Deliveries that differ, leave something out or come twice are found."""

from __future__ import annotations

import pytest

from pykraft.host.delivery import CommittedBatch
from pykraft.protocol.records import encode_batch, encode_control_batch
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.committed import CommittedOnce
from pykraft.types import Epoch, LeaderChange, NodeId, Offset
from tests.sim.invariants.fakes import node


def batch(base_offset: int, *values: bytes, epoch: int = 1) -> CommittedBatch:
    """A batch of these values; without values, one of a leader change."""
    change = LeaderChange(leader_id=NodeId(1), voters=(NodeId(1),), granting_voters=(NodeId(1),))
    data = (
        encode_batch(values, base_offset=Offset(base_offset), epoch=Epoch(epoch), timestamp_ms=0)
        if values
        else encode_control_batch([change], base_offset=Offset(base_offset), epoch=Epoch(epoch), timestamp_ms=0)
    )
    return CommittedBatch(
        base_offset=Offset(base_offset),
        end_offset=Offset(base_offset + (len(values) or 1)),
        epoch=Epoch(epoch),
        timestamp_ms=0,
        is_control=not values,
        data=data,
    )


def test_the_same_deliveries_everywhere_are_accepted_and_remembered() -> None:
    invariant = CommittedOnce()
    for node_id in (1, 2):
        invariant.started(node(node_id))
        invariant.delivered(node(node_id), [batch(0), batch(1, b"a", b"b")])
        invariant.delivered(node(node_id), [batch(3, b"c")])
    assert invariant.values_by_offset() == {1: b"a", 2: b"b", 3: b"c"}


def test_a_new_process_begins_at_the_beginning() -> None:
    invariant = CommittedOnce()
    for _ in range(2):
        invariant.started(node())
        invariant.delivered(node(), [batch(0, b"a")])


@pytest.mark.parametrize("base_offset", [0, 2])
def test_a_batch_that_comes_twice_or_is_left_out_is_found(base_offset: int) -> None:
    invariant = CommittedOnce()
    invariant.started(node())
    invariant.delivered(node(), [batch(0, b"a")])
    with pytest.raises(ViolationError, match=f"was given offset {base_offset}, 1 is next"):
        invariant.delivered(node(), [batch(base_offset, b"a")])


@pytest.mark.parametrize("other", [batch(0, b"x"), batch(0, b"a", epoch=2), batch(0, b"a", b"b"), batch(0)])
def test_another_batch_at_the_same_offset_is_found(other: CommittedBatch) -> None:
    invariant = CommittedOnce()
    for node_id, given in ((1, batch(0, b"a")), (2, other)):
        invariant.started(node(node_id))
        if node_id == 1:
            invariant.delivered(node(1), [given])
            continue
        with pytest.raises(ViolationError, match="another batch"):
            invariant.delivered(node(2), [given])
