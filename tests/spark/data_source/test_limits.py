"""Options become a limit of Spark's, which becomes records and bytes."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from pykraft.spark.data_source.limits import TriggerDelay, default_limit, records_and_bytes
from pykraft.spark.data_source.options import parse_options

pytestmark = pytest.mark.spark

GIB = 1024**3
RECORDS, BYTES = {"maxRecordsPerTrigger": "5"}, {"maxBytesPerTrigger": "7"}


@pytest.mark.parametrize(
    ("given", "limit", "numbers"),
    [
        ({}, ReadMaxBytes(GIB), (None, GIB)),
        (RECORDS, ReadMaxRows(5), (5, None)),
        (BYTES, ReadMaxBytes(7), (None, 7)),
        (RECORDS | BYTES, ReadMaxRows(5), (5, 7)),
    ],
)
def test_options_and_what_they_come_to(
    given: dict[str, str], limit: ReadLimit, numbers: tuple[int | None, int | None]
) -> None:
    options = parse_options({"path": "n1"} | given)
    assert default_limit(options) == limit
    assert records_and_bytes(limit, options) == numbers


def test_when_spark_wants_everything_the_options_do_not_count() -> None:
    assert records_and_bytes(ReadAllAvailable(), parse_options({"path": "n1"} | RECORDS | BYTES)) == (None, None)


def test_a_micro_batch_waits_for_enough_records_or_the_longest_delay() -> None:
    now_s = 100.0
    options = parse_options({"path": "n1", "minOffsetsPerTrigger": "10", "maxTriggerDelay": "30s"})
    delay = TriggerDelay(options, lambda: now_s)
    assert not delay.holds_back(1), "the first one after a start does not wait"
    now_s = 129.9
    assert delay.holds_back(9)
    assert not delay.holds_back(10)
    now_s = 130.0
    assert delay.holds_back(9), "the delay began with the last micro-batch"
    now_s = 159.9
    assert not delay.holds_back(9)
    now_s = 300.0
    assert not delay.holds_back(0), "nothing new is no micro-batch, so it does not wait either"


def test_without_a_least_number_nothing_waits() -> None:
    delay = TriggerDelay(parse_options({"path": "n1"}), lambda: 0.0)
    assert not any(delay.holds_back(1) for _ in range(3))
