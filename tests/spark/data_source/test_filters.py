"""Filters become bounds that leave out no wanted row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from pykraft.spark.data_source.filters import EVERYTHING, Bounds, bounds_of
from pykraft.spark.data_source.selection import EVERY_RECORD
from pykraft.spark.data_source.splits import BatchIdentity, Split
from pykraft.types import Epoch, Offset

pytestmark = pytest.mark.spark

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1_000)


@pytest.mark.parametrize(
    ("filters", "bounds"),
    [
        ([EqualTo(("offset",), 5)], {"offset_min": 5, "offset_end": 6}),
        ([GreaterThan(("offset",), 5), LessThan(("offset",), 9)], {"offset_min": 6, "offset_end": 9}),
        ([GreaterThanOrEqual(("offset",), 5), LessThanOrEqual(("offset",), 9)], {"offset_min": 5, "offset_end": 10}),
        ([In(("offset",), (7, 3))], {"offset_min": 3, "offset_end": 8}),
        ([GreaterThan(("offset",), 5), GreaterThan(("offset",), 2)], {"offset_min": 6}),
        ([EqualTo(("epoch",), 4)], {"epoch_min": 4, "epoch_max": 4}),
        ([LessThan(("epoch",), 4)], {"epoch_max": 3}),
        ([EqualTo(("replica",), "n1")], {"replicas": frozenset({"n1"})}),
        ([In(("replica",), ("n1", "n2")), In(("replica",), ("n2",))], {"replicas": frozenset({"n2"})}),
        ([GreaterThan(("timestamp",), NOON + timedelta(microseconds=1))], {"timestamp_ms_min": NOON_MS}),
        ([EqualTo(("timestamp",), NOON)], {"timestamp_ms_min": NOON_MS}),
        ([LessThan(("timestamp",), NOON)], {}),
        ([GreaterThan(("timestamp",), NOON.replace(tzinfo=None))], {}),
        ([In(("offset",), (3, None))], {}),
        ([In(("replica",), ())], {}),
        ([EqualTo(("offset", "field"), 5), EqualTo(("value",), b"x"), EqualTo(("is_control",), True)], {}),
        ([Not(EqualTo(("offset",), 5)), StringStartsWith(("replica",), "n")], {}),
        ([], {}),
    ],
)
def test_filters_and_what_they_bound(filters: list[Filter], bounds: dict[str, Any]) -> None:
    assert bounds_of(filters) == Bounds(**bounds)


def test_a_selection_only_gets_narrower() -> None:
    bounds = Bounds(epoch_min=Epoch(3), timestamp_ms_min=7)
    narrow = bounds.narrow(EVERY_RECORD)
    assert (narrow.epoch_min, narrow.timestamp_ms_min, narrow.schema) == (3, 7, EVERY_RECORD.schema)
    assert EVERYTHING.narrow(narrow) == narrow


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
