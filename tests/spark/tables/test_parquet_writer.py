"""A file is whole before it is reported, and its report is what it holds."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema
from deltalake.transaction import create_table_with_add_actions

from pykraft.spark.tables.commit import add_action
from pykraft.spark.tables.parquet_writer import TEXT_SIZE_BYTES_MAX, ParquetOutput, statistics_json, write_parquet_file
from tests.spark.tables.files import FILES, LOG_COLUMNS, at, log_rows, written

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


def test_bounds_and_nulls_are_those_of_all_row_groups(tmp_path: Path) -> None:
    groups = [log_rows(range(10, 20), epoch=2, replica="n2"), log_rows(range(5), epoch=1, replica="n1")]
    told = json.loads(written(tmp_path, *groups).statistics)
    assert told["numRecords"] == 15
    assert told["minValues"] == {"replica": "n1", "offset": 0, "epoch": 1, "timestamp": "2026-01-02T03:04:00.000000Z"}
    assert told["maxValues"] == {"replica": "n2", "offset": 19, "epoch": 2, "timestamp": "2026-01-02T03:04:19.000000Z"}
    assert told["nullCount"] == {"replica": 0, "offset": 0, "epoch": 0, "timestamp": 0, "value": 0, "corrupt": 15}


def test_a_row_group_of_nulls_takes_no_bound_away(tmp_path: Path) -> None:
    groups = [log_rows(range(3), epoch=1, replica=None), log_rows(range(3, 5), epoch=1, replica="n1")]
    told = json.loads(written(tmp_path, *groups).statistics)
    assert (told["minValues"]["replica"], told["maxValues"]["replica"]) == ("n1", "n1")
    assert told["nullCount"]["replica"] == 3


def test_what_has_no_sure_bound_tells_none(tmp_path: Path) -> None:
    columns = pa.schema(
        [
            ("share", pa.float64()),
            ("body", pa.string()),
            ("voters", pa.list_(pa.int32())),
            ("is_control", pa.bool_()),
            ("local", pa.timestamp("us")),
            ("precise", pa.timestamp("ns")),
        ]
    )
    when = datetime(2026, 1, 2, tzinfo=UTC).replace(tzinfo=None)
    cells = [[float("nan")], ["x" * (TEXT_SIZE_BYTES_MAX + 1)], [[1, 2]], [True], [when], [when]]
    rows = pa.table(cells, schema=columns).to_batches()
    told = json.loads(written(tmp_path, *rows).statistics)
    assert told["minValues"] == {"local": "2026-01-02T00:00:00.000000"}
    assert told["nullCount"] == dict.fromkeys(("share", "body", "is_control", "local", "precise"), 0)


def test_columns_without_statistics_are_left_out(tmp_path: Path) -> None:
    rows = pa.table({"offset": [1, 2], "epoch": [1, 1]})
    path = tmp_path / "t.parquet"
    pq.write_table(rows, path, write_statistics=["epoch"])
    told = json.loads(statistics_json(pq.read_metadata(path), rows.schema))
    assert told == {"numRecords": 2, "minValues": {"epoch": 1}, "maxValues": {"epoch": 1}, "nullCount": {"epoch": 0}}


@pytest.mark.parametrize(
    ("predicate", "arrow", "files"),
    [
        ("offset >= 25", pc.field("offset") >= 25, [2]),
        ("offset = 5", pc.field("offset") == 5, [0]),
        ("epoch < 3", pc.field("epoch") < 3, [0, 1]),
        ("replica = 'n2'", pc.field("replica") == "n2", [1]),
        ([("timestamp", ">", at(15))], pc.field("timestamp") > at(15), [1, 2]),
        ("corrupt IS NOT NULL", pc.field("corrupt").is_valid(), []),
    ],
)
def test_a_filtered_read_skips_files(
    predicate: str | list[tuple[str, str, object]], arrow: pc.Expression, files: list[int], tmp_path: Path
) -> None:
    """Three files: offsets from 0, 10 and 20, epochs 1 to 3, replicas n1, n2, n1."""
    made = [written(tmp_path, log_rows(offsets, epoch=epoch, replica=name)) for offsets, epoch, name in FILES]
    columns = Schema.from_arrow(LOG_COLUMNS)
    create_table_with_add_actions(str(tmp_path), columns, [add_action(file) for file in made])
    table = DeltaTable(tmp_path)
    wanted = {made[place].name for place in files}
    assert {Path(uri).name for uri in table.file_uris(file_pruning_predicate=predicate)} == wanted
    source = table.to_pyarrow_dataset()
    assert {Path(each.path).name for each in source.get_fragments(filter=arrow)} == wanted
    expected = pa.concat_tables([each.to_table() for each in source.get_fragments()]).filter(arrow)
    assert source.to_table(filter=arrow).num_rows == expected.num_rows
