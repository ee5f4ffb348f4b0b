"""Columns made of buffers equal those that pyarrow converts, and a process that makes them has no pandas."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.spark.arrow_columns import array_column, bytes_column, list_column, number_column, text_column, true_cells
from tests.tidy.repository import ROOT

NUMBERS = st.integers(-(2**31), 2**31 - 1)
LISTS = pa.list_(pa.int32())


def cells(one: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Values and nulls."""
    return st.lists(st.none() | one, max_size=20)


@pytest.mark.parametrize(
    ("make", "kind", "one"),
    [
        (bytes_column, pa.binary(), st.binary(max_size=5)),
        (text_column, pa.string(), st.text(max_size=5)),
        (list_column, LISTS, st.lists(NUMBERS, max_size=3)),
        (lambda values: number_column(values, pa.int32()), pa.int32(), NUMBERS),
        (lambda values: number_column(values, pa.int64()), pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    ],
    ids=["bytes", "texts", "lists", "int32", "int64"],
)
def test_values_and_nulls(
    make: Callable[[Sequence[Any]], pa.Array], kind: pa.DataType, one: st.SearchStrategy[Any]
) -> None:
    @given(values=cells(one))
    def check(values: list[Any]) -> None:
        made = make(values)
        made.validate(full=True)
        assert made.equals(pa.array(values, kind))

    check()


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
def test_arrays(count: int) -> None:
    numbers = np.arange(count, dtype=np.int64)
    assert array_column(numbers, pa.int64()).equals(pa.array(numbers))
    assert array_column(numbers[::-1], pa.int64()).equals(pa.array(numbers[::-1].copy()))
    assert array_column(numbers % 3 == 0, pa.bool_()).equals(pa.array(numbers % 3 == 0))


@given(values=st.lists(st.none() | st.booleans(), max_size=30), begin=st.integers(0, 30), count=st.integers(0, 30))
def test_booleans_are_read_from_a_slice(values: list[bool | None], begin: int, count: int) -> None:
    column, wanted = pa.array(values, pa.bool_()).slice(begin, count), values[begin : begin + count]
    assert true_cells(column).tolist() == [value is True for value in wanted]
    assert not true_cells(pa.nulls(3, pa.bool_())).any()


def test_a_number_that_does_not_fit_is_refused() -> None:
    with pytest.raises(OverflowError):
        number_column([2**31], pa.int32())


PROGRAM = """
import sys, tempfile
from pathlib import Path
from pykraft.spark.data_source import decode
from pykraft.spark.data_source.options import parse_options
from pykraft.spark.data_source.selection import KAFKA, METADATA, columns_for
from pykraft.spark.data_source.selection import select
from pykraft.spark.data_source.splits import Split
from pykraft.spark.pipeline import silver
from pykraft.spark.tables.delta import column_types
from pykraft.spark.tables.commit import ParquetOutput
from tests.spark.logs import three_batches, batch

data = b"".join([*three_batches(), batch([b"a" * (1 + i % 3) for i in range(100)], base_offset=6)])
split = Split(replica="n1", path="/n1/p-0/00000000000000000000.log", position=0, end_position=len(data))
options = parse_options({"path": "/n1/p-0"})
for columns in (columns_for(options), KAFKA, METADATA):
    rows = list(decode.records_of(split, data, selection=select(columns, options)))
    assert sum(map(len, rows)) == 106
groups = list(decode.batches_of(split, data))
records = [rows for group in groups for rows in silver.records_in(group)]
assert sum(map(len, records)) == 106
tables = ((records, silver.RECORD_COLUMNS), (map(silver.control_in, records), silver.CONTROL_COLUMNS))
with tempfile.TemporaryDirectory() as folder:
    for rows, columns in tables:
        with ParquetOutput(Path(folder), column_types(columns)) as output:
            for group in rows:
                output.write(group)
            output.finish()
list(decode.records_of(split, data[:-1], tolerant=True))
assert "pyarrow" in sys.modules
print("pandas" in sys.modules)
"""


def test_a_process_that_decodes_does_not_import_pandas() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
