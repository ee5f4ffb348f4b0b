"""Bounds leave out splits and replicas without a wanted row; a plan needs them where there is no Spark."""

from __future__ import annotations

import pytest

from pykraft.spark.data_source.bounds import EVERYTHING, Bounds
from pykraft.spark.data_source.splits import BatchIdentity, Split
from pykraft.types import Epoch, Offset


@pytest.mark.parametrize(
    ("bounds", "may_hold"),
    [
        (Bounds(epoch_min=Epoch(3), epoch_max=Epoch(3)), True),
        (Bounds(epoch_min=Epoch(5)), False),
        (Bounds(epoch_max=Epoch(1)), False),
        (Bounds(epoch_min=Epoch(4), epoch_max=Epoch(9)), True),
    ],
)
def test_a_split_is_left_out_by_its_epochs(bounds: Bounds, may_hold: bool) -> None:
    first, last = (
        BatchIdentity(base_offset=Offset(0), end_offset=Offset(1), epoch=Epoch(epoch), crc=0) for epoch in (2, 4)
    )
    split = Split(replica="n1", path="1.log", position=0, end_position=9, first=first, last=last)
    assert bounds.may_hold(split) is may_hold
    assert bounds.may_hold(Split(replica="n1", path="1.log", position=0, end_position=9))


def test_replicas() -> None:
    assert EVERYTHING.has_replica("n1")
    assert not Bounds(replicas=frozenset()).has_replica("n1")
