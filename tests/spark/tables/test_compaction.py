"""Small neighbors become one file; order, rows and bounds stay."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pykraft.errors import StorageError
from pykraft.spark.tables import compaction
from pykraft.spark.tables.compaction import TableFile, merge, plan
from tests.spark.tables.files import LOG_COLUMNS, log_rows, written

pytestmark = pytest.mark.spark


def file(first_offset: int | None, size_bytes: int = 1, *, replica: str | None = "n1") -> TableFile:
    return TableFile(
        name=f"{replica}-{first_offset}", size_bytes=size_bytes, replica=(replica, replica), first_offset=first_offset
    )


def names(groups: list[list[TableFile]]) -> list[list[str]]:
    return [[each.name for each in group] for group in groups]


def test_neighbors_are_merged_in_order_of_replica_and_offset() -> None:
    files = [file(20), file(3, replica="n2"), file(0), file(10), file(1, replica="n2"), file(5, replica=None)]
    assert names(plan(files, target_size_bytes=100)) == [["n1-0", "n1-10", "n1-20"], ["n2-1", "n2-3"]]


def test_full_files_stay_and_separate_their_neighbors() -> None:
    files = [file(0), file(1), file(2, 75), file(3), file(4, 100), file(5), file(6)]
    assert names(plan(files, target_size_bytes=100)) == [["n1-0", "n1-1"], ["n1-5", "n1-6"]]


def test_a_group_has_the_target_size_at_most() -> None:
    files = [file(place, 30) for place in range(7)]
    groups = plan(files, target_size_bytes=100)
    assert names(groups) == [["n1-0", "n1-1", "n1-2"], ["n1-3", "n1-4", "n1-5"]]


def test_files_that_tell_no_place_come_first() -> None:
    assert names(plan([file(0), file(None)], target_size_bytes=100)) == [["n1-None", "n1-0"]]


def test_a_stream_rewrites_each_row_about_once_for_each_doubling() -> None:
    """A thousand micro-batches of one byte; every tenth, the stream merges."""
    sizes: list[int] = []
    rewritten = 0
    for number in range(1, 1_001):
        sizes.append(1)
        if number % 10:
            continue
        files = [file(place, size) for place, size in enumerate(sizes)]
        for group in plan(files, target_size_bytes=10_000, is_tiered=True):
            begin = group[0].first_offset
            assert begin is not None
            rewritten += sum(each.size_bytes for each in group)
            sizes[begin : begin + len(group)] = [sum(each.size_bytes for each in group)]
        assert len(sizes) < 10
    assert sum(sizes) == 1_000
    assert rewritten < 1_000 * 9  # 2 ** 9 is about the size; one file each time would be 50 times the rows


def test_a_stream_fills_what_is_behind_a_full_group() -> None:
    files = [file(0, 60), file(1, 20), file(2, 10), file(3, 50), file(4, 1)]
    assert names(plan(files, target_size_bytes=100, is_tiered=True)) == [["n1-0", "n1-1", "n1-2"]]


def test_a_merged_file_has_the_rows_in_order(tmp_path: Path) -> None:
    groups = [log_rows(range(begin, begin + 5)) for begin in range(0, 20, 5)]
    files = [written(tmp_path, *groups[:2]), written(tmp_path, *groups[2:])]
    made = merge(tmp_path, [each.name for each in files], LOG_COLUMNS)
    assert made is not None
    assert pq.read_table(tmp_path / made.name).equals(pa.Table.from_batches(groups).combine_chunks())
    assert pq.read_metadata(tmp_path / made.name).num_row_groups == 1


def test_row_groups_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [log_rows(range(begin, begin + 5), size_bytes=1_000) for begin in range(0, 50, 5)]
    file = written(tmp_path, *groups)
    monkeypatch.setattr(compaction, "ROW_GROUP_SIZE_BYTES_MAX", 5 * groups[0].nbytes // 2)
    made = merge(tmp_path, [file.name], LOG_COLUMNS)
    assert made is not None
    assert pq.read_metadata(tmp_path / made.name).num_row_groups == 5
    assert made.rows == 50


def test_a_column_that_an_older_file_lacks_is_null(tmp_path: Path) -> None:
    old = log_rows(range(3)).drop_columns(["corrupt", "epoch"])
    made = merge(tmp_path, [written(tmp_path, old).name, written(tmp_path, log_rows(range(3, 5))).name], LOG_COLUMNS)
    assert made is not None
    assert pq.read_table(tmp_path / made.name)["epoch"].to_pylist() == [None, None, None, 1, 1]


def test_a_file_that_cannot_be_read_is_an_error_and_leaves_none(tmp_path: Path) -> None:
    file = written(tmp_path, log_rows(range(3)))
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    with pytest.raises(StorageError, match="cannot be merged"):
        merge(tmp_path, [file.name, "broken.parquet"], LOG_COLUMNS)
    assert {path.name for path in tmp_path.iterdir()} == {file.name, "broken.parquet"}
