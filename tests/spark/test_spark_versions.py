"""With an older PySpark, or without the requirements, nothing fails when it is imported."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import datasource
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from pykraft.spark import spark_versions
from pykraft.spark.spark_versions import arrow_schema_of

pytestmark = pytest.mark.spark

PROGRAM = """
import importlib, sys
missing, imported = sys.argv[1].split(","), importlib.import_module

def import_module(name):
    # PySpark needs its own modules: only to us they are missing.
    if name in missing:
        raise ImportError(name)
    return imported(name)

importlib.import_module = import_module
for name in missing:
    if not name.startswith("pyspark."):
        sys.modules[name] = None
import pyspark_pykraft
print(hasattr(pyspark_pykraft, "DefaultSource"))
if hasattr(pyspark_pykraft, "DefaultSource"):
    from pykraft.spark.data_source.live import LiveStreamReader
    from pykraft.spark.data_source.options import parse_options
    from pykraft.spark.sink import writers
    from pykraft.spark import spark_versions as versions
    print(versions.HAS_SOURCES, versions.HAS_STREAM_SINK, versions.HAS_LIMITS)
    assert not versions.HAS_SOURCES or pyspark_pykraft.DefaultSource({"path": "n1"}).schema().names[0] == "replica"
    assert LiveStreamReader(parse_options({"bootstrap.controllers": "localhost:1"}))
"""


@pytest.mark.parametrize(
    ("missing", "printed"),
    [
        ("none", ["True", "True True True"]),
        ("pyspark.sql.streaming.datasource", ["True", "True True False"]),
        ("pyspark.sql.datasource,pyspark.sql.streaming.datasource", ["True", "False False False"]),
        ("pyarrow", ["False"]),
        ("pykraft", ["False"]),
    ],
)
def test_what_is_missing_is_left_out(missing: str, printed: list[str]) -> None:
    source = str(Path(spark_versions.__file__).parents[2])
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, missing],
        env=os.environ | {"PYTHONPATH": source},
        check=True,
        capture_output=True,
        text=True,
    )
    assert found.stdout.splitlines() == printed


def test_classes_are_those_of_pyspark() -> None:
    assert spark_versions.DataSource is datasource.DataSource
    assert spark_versions.ReadMaxRows is ReadMaxRows


def test_columns_in_arrow_have_their_times_in_utc() -> None:
    columns = StructType([StructField("a", LongType(), nullable=False), StructField("b", TimestampType())])
    expected = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.timestamp("us", tz="UTC"))])
    assert arrow_schema_of(columns) == expected
