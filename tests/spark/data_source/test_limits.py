"""Options become a limit of Spark's, which becomes records and bytes."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from pykraft.spark.data_source.limits import default_limit, records_and_bytes
from pykraft.spark.data_source.options import parse_options

pytestmark = pytest.mark.spark

RECORDS, BYTES = {"maxRecordsPerTrigger": "5"}, {"maxBytesPerTrigger": "7"}


@pytest.mark.parametrize(
    ("given", "limit", "numbers"),
    [
        ({}, ReadAllAvailable(), (None, None)),
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
