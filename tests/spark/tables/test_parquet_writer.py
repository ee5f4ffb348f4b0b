"""A file is whole before it is reported, and its report is what it holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pykraft.spark.tables.file_statistics import statistics_json
from pykraft.spark.tables.parquet_writer import ParquetOutput, write_parquet_file
from tests.spark.tables.files import LOG_COLUMNS, log_rows, written

pytestmark = pytest.mark.spark


def test_each_batch_is_a_row_group_and_empty_ones_are_left_out(tmp_path: Path) -> None:
    groups = [log_rows([]), log_rows(range(3)), log_rows(range(3, 5))]
    file = written(tmp_path, *groups)
    path = tmp_path / file.name
    assert pq.read_table(path).equals(pa.Table.from_batches(groups))
    footer = pq.read_metadata(path)
    assert (footer.num_row_groups, footer.num_rows, path.stat().st_size) == (2, file.rows, file.size_bytes)
    assert abs(path.stat().st_mtime * 1_000 - file.modified_ms) < 2
    assert file.statistics == statistics_json(footer, LOG_COLUMNS)


def test_small_batches_wait_for_each_other(tmp_path: Path) -> None:
    groups = [log_rows([offset]) for offset in range(10)]
    with ParquetOutput(tmp_path, LOG_COLUMNS, group_size_bytes_min=4 * groups[0].nbytes) as output:
        for group in groups:
            output.write(group)
        file = output.finish()
    assert file is not None
    path = tmp_path / file.name
    assert pq.read_table(path).equals(pa.Table.from_batches(groups))
    footer = pq.read_metadata(path)
    assert [footer.row_group(place).num_rows for place in range(footer.num_row_groups)] == [4, 4, 2]
    assert file.statistics == statistics_json(footer, LOG_COLUMNS)


def test_columns_of_the_same_values_in_another_type_are_converted(tmp_path: Path) -> None:
    rows = log_rows(range(3))
    other = rows.set_column(2, "epoch", rows.column("epoch").cast(pa.int64()))
    file = written(tmp_path, rows)
    with ParquetOutput(tmp_path, LOG_COLUMNS) as output:
        output.write(other)
        same = output.finish()
    assert same is not None
    assert pq.read_table(tmp_path / same.name).equals(pq.read_table(tmp_path / file.name))


def test_a_file_that_is_not_finished_is_deleted(tmp_path: Path) -> None:
    with ParquetOutput(tmp_path, LOG_COLUMNS) as output:
        output.write(log_rows(range(3)))
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    assert write_parquet_file(iter([log_rows([])]), tmp_path, LOG_COLUMNS) is None
    assert list(tmp_path.iterdir()) == []


def test_rows_that_end_with_an_error_leave_no_file(tmp_path: Path) -> None:
    def groups() -> Iterator[pa.RecordBatch]:
        yield log_rows(range(3))
        raise ValueError("gone")

    with pytest.raises(ValueError, match="gone"):
        write_parquet_file(groups(), tmp_path, LOG_COLUMNS)
    assert list(tmp_path.iterdir()) == []
