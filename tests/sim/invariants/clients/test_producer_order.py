"""Gaps, repeats and old epochs in the committed batches of a producer are found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pykraft.host.delivery import CommittedBatch
from pykraft.sim.clients.others import producer_batch
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.clients.producer_order import ProducersKeepOrder
from tests.sim.invariants.fakes import batch, node, world


def produced(offset: int, sequence: int, *, count: int = 1, epoch: int = 0, producer_id: int = 9) -> CommittedBatch:
    values = [b"v"] * count
    data = producer_batch(values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, timestamp_ms=0)
    return replace(batch(offset, *values), data=data[:0] + offset.to_bytes(8, "big") + data[8:])


def test_consecutive_batches_are_accepted() -> None:
    made = ProducersKeepOrder(world())
    made.delivered(node(1), [batch(0), produced(1, 0, count=2), produced(3, 0, producer_id=8), produced(4, 2)])
    made.delivered(node(2), [produced(1, 0, count=2)])
    made.delivered(node(2), [produced(5, 0, epoch=1), batch(6, b"plain"), produced(7, 1, epoch=1)])


@pytest.mark.parametrize(
    ("sequence", "epoch"),
    [(0, 1), (3, 1), (5, 0), (1, 2)],
)
def test_a_gap_a_repeat_an_old_epoch_and_a_new_one_that_goes_on_are_found(sequence: int, epoch: int) -> None:
    made = ProducersKeepOrder(world())
    made.delivered(node(1), [produced(0, 0, epoch=1), produced(1, 1, epoch=1)])
    with pytest.raises(ViolationError, match=r"at offset 2; the next one is \d of epoch"):
        made.delivered(node(1), [produced(2, sequence, epoch=epoch)])


def test_a_producer_begins_at_0() -> None:
    with pytest.raises(ViolationError, match="the next one is 0 of epoch 0"):
        ProducersKeepOrder(world()).delivered(node(1), [produced(2, 1)])
