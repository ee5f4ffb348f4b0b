"""A query's columns are those for Spark, Arrow and on the page; filters become bounds that leave out no wanted row."""

import re
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
from pyspark.sql.types import StructType

from pykraft.errors import UsageError
from pykraft.protocol.records import encode_control_batch
from pykraft.spark.data_source.headers import headers_of
from pykraft.spark.data_source.options import parse_options
from pykraft.spark.data_source.selection import (
    BATCHES,
    KAFKA,
    METADATA,
    RECORDS,
    Selection,
    arrow_of,
    arrow_schema,
    bounds_of,
    columns_of,
    select,
    spark_columns,
)
from pykraft.spark.data_source.splits import Bounds
from pykraft.types import Epoch, KRaftVersion, Offset
from tests.spark.logs import EPOCH, START_MS, batch
from tests.tidy.repository import ROOT

pytestmark = pytest.mark.spark

CONTROL = encode_control_batch(
    [KRaftVersion(level=1)], base_offset=Offset(2), epoch=Epoch(EPOCH), timestamp_ms=START_MS
)
HEADERS = headers_of(batch([b"a", b"b"], base_offset=0) + CONTROL.data)


@pytest.mark.parametrize("columns", [RECORDS, KAFKA, columns_of("topic string, epoch int, value binary")])
def test_columns_of_the_source_are_taken_in_their_order(columns: StructType) -> None:
    selection = select(columns, parse_options({"path": "p"}))
    assert selection.schema.equals(arrow_of(columns), check_metadata=True)
    assert selection.wanted(HEADERS)[0]


@pytest.mark.parametrize(
    ("columns", "options", "problem"),
    [
        ("a int", {}, "has no column a; it has replica"),
        ("content binary", {}, "has no column content"),
        ("topic string", {"rows": "batches"}, "has no column topic"),
        ("offset int", {}, "the column offset of the source pykraft is a bigint, not int"),
        ("offset bigint, offset bigint", {}, "each once"),
        ("offset bigint", {"corrupt": "mark"}, "must include corrupt"),
    ],
)
def test_other_columns_are_refused(columns: str, options: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        select(columns_of(columns), parse_options({"path": "p"} | options))


def test_no_column_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one column"):
        select(StructType([]), parse_options({"path": "p"}))


@pytest.mark.parametrize(
    ("selection", "is_wanted"),
    [
        (
            Selection(
                schema=None, bounds=Bounds(epoch_min=Epoch(EPOCH), epoch_max=Epoch(EPOCH), timestamp_ms_min=START_MS)
            ),
            True,
        ),
        (Selection(schema=None, bounds=Bounds(epoch_min=Epoch(EPOCH + 1))), False),
        (Selection(schema=None, bounds=Bounds(epoch_max=Epoch(EPOCH - 1))), False),
        (Selection(schema=None, bounds=Bounds(timestamp_ms_min=START_MS + 1)), False),
        (Selection(schema=None, leaves_out_control=True), True),
    ],
)
def test_a_batch_is_left_out_if_its_header_proves_that_no_row_is_wanted(selection: Selection, is_wanted: bool) -> None:
    assert selection.wanted(HEADERS)[0] == is_wanted


def test_control_batches_can_be_left_out() -> None:
    selection = select(KAFKA, parse_options({"path": "p", "columns": "kafka"}))
    assert selection.wanted(HEADERS).tolist() == [True, False]


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


@pytest.mark.parametrize(("rows", "columns"), [("records", RECORDS), ("batches", BATCHES)])
def test_arrow_s_columns_are_spark_s(rows: str, columns: StructType) -> None:
    assert spark_columns(arrow_schema(rows)) == columns
    assert spark_columns(columns) is columns
    times = {str(field.type) for field in arrow_schema(rows) if "timestamp" in field.name}
    assert times == {"timestamp[us, tz=UTC]"}


@pytest.mark.parametrize(("rows", "columns"), [("records", RECORDS), ("batches", BATCHES), ("metadata", METADATA)])
def test_the_page_names_each_column_with_type_and_nullability(rows: str, columns: StructType) -> None:
    page = (ROOT / "docs" / "spark-reference.md").read_text(encoding="utf-8")
    table = page.partition(f"<!-- {rows} -->")[2].partition(f"<!-- end {rows} -->")[0]
    told = re.findall(r"^\| `(\w+)` \| (\w+) \| (yes|no) \| .+ \|$", table, re.MULTILINE)
    assert told == [(each.name, each.dataType.simpleString(), "yes" if each.nullable else "no") for each in columns]
