"""A moment gets the newest snapshot that is not newer; a history the oldest from which the log goes on."""

from __future__ import annotations

import pytest

from pykraft.log.os_fs import OsFs
from pykraft.spark.metadata.moment import NOW, Moment
from pykraft.spark.metadata.snapshots import newest_within, oldest_from, snapshot_records
from pykraft.types import Offset
from tests.spark.metadata.made import GOLDEN

DIRECTORY = GOLDEN / "dynamic" / "disk" / "n1" / "data" / "__cluster_metadata-0"


@pytest.mark.parametrize(
    ("moment", "end_offset"),
    [
        (NOW, 161),
        (Moment(end_offset=Offset(161)), 161),
        (Moment(end_offset=Offset(160)), 123),
        (Moment(end_offset=Offset(30)), 30),
        (Moment(end_offset=Offset(29)), None),
        (Moment(wall_ms=0), None),
    ],
)
def test_the_newest_that_a_moment_allows(moment: Moment, end_offset: int | None) -> None:
    found = newest_within(OsFs(), DIRECTORY, moment)
    assert (None if found is None else found.offset) == end_offset


def test_a_time_allows_what_a_snapshot_contains() -> None:
    newest = newest_within(OsFs(), DIRECTORY, NOW)
    assert newest is not None
    wall_ms = next(snapshot_records(OsFs(), DIRECTORY, newest)).timestamp_ms
    assert newest_within(OsFs(), DIRECTORY, Moment(wall_ms=wall_ms)) == newest
    before = newest_within(OsFs(), DIRECTORY, Moment(wall_ms=wall_ms - 1))
    assert before is not None
    assert before.offset == 123


def test_the_oldest_from_which_the_log_goes_on() -> None:
    assert oldest_from(OsFs(), DIRECTORY, Offset(0)) is None
    found = oldest_from(OsFs(), DIRECTORY, Offset(44))
    assert found is not None
    assert found.offset == 63
    assert oldest_from(OsFs(), DIRECTORY, Offset(162)) is None
