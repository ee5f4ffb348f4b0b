"""The columns for Spark, for Arrow and on the page about the source are the same."""

from __future__ import annotations

import re

import pytest
from pyspark.sql.types import StructType

from pykraft.spark.data_source.schema import BATCHES, METADATA, RECORDS, arrow_schema, spark_columns
from tests.tidy.repository import ROOT

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(("rows", "columns"), [("records", RECORDS), ("batches", BATCHES)])
def test_arrow_s_columns_are_spark_s(rows: str, columns: StructType) -> None:
    assert spark_columns(arrow_schema(rows)) == columns
    assert spark_columns(columns) is columns
    times = {str(field.type) for field in arrow_schema(rows) if "timestamp" in field.name}
    assert times == {"timestamp[us, tz=UTC]"}


@pytest.mark.parametrize(("rows", "columns"), [("records", RECORDS), ("batches", BATCHES), ("metadata", METADATA)])
def test_the_page_names_each_column_with_type_and_nullability(rows: str, columns: StructType) -> None:
    page = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    table = page.partition(f"<!-- {rows} -->")[2].partition(f"<!-- end {rows} -->")[0]
    told = re.findall(r"^\| `(\w+)` \| (\w+) \| (yes|no) \| .+ \|$", table, re.MULTILINE)
    assert told == [(each.name, each.dataType.simpleString(), "yes" if each.nullable else "no") for each in columns]
