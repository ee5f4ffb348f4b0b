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

from pykraft.spark.data_source.bounds import EVERYTHING, Bounds
from pykraft.spark.data_source.filters import bounds_of
from pykraft.spark.data_source.selection import EVERY_RECORD
from pykraft.types import Epoch

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
    narrow = EVERY_RECORD.within(bounds)
    assert (narrow.epoch_min, narrow.timestamp_ms_min, narrow.schema) == (3, 7, EVERY_RECORD.schema)
    assert narrow.within(EVERYTHING) == narrow
