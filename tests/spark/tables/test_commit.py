"""Commits follow each other, whichever stream wrote them, and are read back from text."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema
from deltalake.transaction import CommitProperties, create_table_with_add_actions

from pykraft.errors import StorageError, UsageError
from pykraft.spark.tables.commit import (
    TEXT_SIZE_BYTES_MAX,
    Commit,
    ParquetOutput,
    add_action,
    carried,
    check_first,
    commit_of,
    end_offset,
    is_new,
    is_same_place,
    named_commit,
    newest_commit,
    statistics_json,
    write_parquet_file,
)
from tests.spark.tables.files import FILES, LOG_COLUMNS, append, at, commit, forget_log, log_rows, make_table, written

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


pytestmark = pytest.mark.spark

FOLDER = Path("t")


def test_a_commit_comes_back_from_its_text() -> None:
    assert Commit.from_json(commit(3).as_json()) == commit(3)


def test_the_next_one_is_new_and_a_repeated_one_is_not() -> None:
    check_first(FOLDER, commit(0))
    assert is_new(FOLDER, commit(1), same=None, newest=commit(0))
    assert not is_new(FOLDER, commit(1), same=commit(1), newest=commit(4))


def test_an_error_tells_both_parts_and_the_way_out() -> None:
    told = r't: .* is {"cluster": "c", "offset": 10} to {"cluster": "c", "offset": 12}, .* "offset": 20} under'
    with pytest.raises(UsageError, match=told) as caught:
        is_new(FOLDER, commit(1, end=12), same=commit(1), newest=commit(1))
    assert "or write to another folder" in str(caught.value)


def test_another_cluster_does_not_follow() -> None:
    other = Commit(stream="s", batch_id=1, start={"cluster": "d", "offset": 10}, end={"cluster": "d", "offset": 20})
    with pytest.raises(UsageError, match="rows would be missing or duplicated"):
        is_new(FOLDER, other, same=None, newest=commit(0))


def maintain(table: DeltaTable) -> None:
    """A commit of ours that is no append, from what this table object knows."""
    properties = CommitProperties(custom_metadata=carried(table))
    table.create_write_transaction([], "append", table.schema(), commit_properties=properties)


def test_an_action_has_what_the_file_has(tmp_path: Path) -> None:
    file = written(tmp_path, log_rows(range(3)))
    action = add_action(file, data_change=False)
    assert (action.path, action.size, action.modification_time) == (file.name, file.size_bytes, file.modified_ms)
    assert (action.stats, action.data_change, action.partition_values) == (file.statistics, False, {})


def test_the_newest_append_is_found_behind_commits_of_others(tmp_path: Path) -> None:
    make_table(tmp_path, appends=3)
    for _ in range(5):
        DeltaTable(tmp_path).create_write_transaction([], "append", DeltaTable(tmp_path).schema())
    assert newest_commit(DeltaTable(tmp_path)) == commit(2)


def test_the_newest_append_outlives_the_entries_of_the_log(tmp_path: Path) -> None:
    make_table(tmp_path, appends=3)
    for _ in range(2):
        maintain(DeltaTable(tmp_path))
        forget_log(tmp_path)
        assert newest_commit(DeltaTable(tmp_path)) == commit(2)


def test_an_append_that_came_before_upkeep_was_committed_is_newer_than_what_it_carries(tmp_path: Path) -> None:
    make_table(tmp_path, appends=2)
    table = DeltaTable(tmp_path)
    append(tmp_path, 2)
    maintain(table)
    assert newest_commit(DeltaTable(tmp_path)) == commit(2)
    maintain(DeltaTable(tmp_path))
    append(tmp_path, 3)
    assert newest_commit(DeltaTable(tmp_path)) == commit(3)


def test_an_append_is_found_by_its_name(tmp_path: Path) -> None:
    make_table(tmp_path, appends=3)
    maintain(DeltaTable(tmp_path))
    append(tmp_path, 3)
    table = DeltaTable(tmp_path)
    assert [named_commit(table, "s", number) for number in range(5)] == [*map(commit, range(4)), None]
    assert named_commit(table, "another", 0) is None
    maintain(table)
    forget_log(tmp_path)
    assert [named_commit(DeltaTable(tmp_path), "s", number) for number in (2, 3)] == [None, commit(3)]


def test_a_table_without_appends_carries_none(tmp_path: Path) -> None:
    make_table(tmp_path, appends=0)
    assert carried(DeltaTable(tmp_path)) == {}
    maintain(DeltaTable(tmp_path))
    assert newest_commit(DeltaTable(tmp_path)) is None


REPLICAS = (
    {
        "cluster": "c",
        "replicas": {
            "n2": {"offset": 8, "began": 2, "path": "/n2/p-0"},
            "n1": {"offset": 6, "began": 0, "path": "/n1/p-0", "id": "A/p-0", "epoch": 1, "crc": 7},
            "old": {"offset": 4, "began": 3, "crc": 7, "epoch": 1},
        },
    },
    {"cluster": "c", "replicas": {"n1": {"offset": 9, "began": 0, "path": "/n1/p-0", "id": "A/p-0"}}},
)
LIVE = ({"cluster": "c", "offset": 6, "began": 1}, {"cluster": "c", "offset": 9, "began": 1})


def checkpoint(folder: Path, *offsets: dict[str, Any]) -> Path:
    (folder / "offsets").mkdir()
    for number, offset in enumerate(offsets):
        (folder / "offsets" / str(number)).write_text(f"v1\n{{}}\n{json.dumps(offset)}")
    return folder


def test_a_micro_batch_goes_from_the_end_of_the_one_before_it_to_its_own(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, *LIVE)
    assert commit_of(folder, "s", 0).start == {"cluster": "c", "offset": 1}
    assert commit_of(folder, "s", 0).end == commit_of(folder, "s", 1).start == {"cluster": "c", "offset": 6}
    assert commit_of(folder, "s", 1).end == {"cluster": "c", "offset": 9}


def test_replicas_have_what_does_not_depend_on_the_others(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, *REPLICAS)
    begin = {"A/p-0": {"offset": 0}, "/n2/p-0": {"offset": 2}, "old": {"offset": 3}}
    end = {
        "A/p-0": {"offset": 6, "epoch": 1, "crc": 7},
        "/n2/p-0": {"offset": 8},
        "old": {"offset": 4, "epoch": 1, "crc": 7},
    }
    assert commit_of(folder, "s", 0).start == {"cluster": "c", "replicas": begin}
    assert commit_of(folder, "s", 1).start == {"cluster": "c", "replicas": end}
    assert commit_of(folder, "s", 1).end == {"cluster": "c", "replicas": {"A/p-0": {"offset": 9}}}


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ({"offset": 6}, {"offset": 6, "epoch": 1, "crc": 7}, True),
        ({"cluster": None, "offset": 6}, {"offset": 6}, True),
        ({"cluster": "d", "offset": 6}, {"offset": 6}, False),
        ({"offset": 6, "epoch": 1, "crc": 8}, {"offset": 6, "epoch": 1, "crc": 7}, False),
        ({"offset": 6, "epoch": 2, "crc": 7}, {"offset": 6, "epoch": 1, "crc": 7}, False),
        ({"offset": 5}, {"offset": 6}, False),
        ({"replicas": {"a": 6}}, {"replicas": {"a": {"offset": 6, "crc": 7}}}, True),
        ({"replicas": {"a": 6}}, {"replicas": {"b": {"offset": 6}}}, False),
        ({"replicas": {"a": {"offset": 6, "crc": 8}}}, {"replicas": {"a": {"offset": 6, "crc": 7}}}, False),
    ],
)
def test_places_are_compared_as_far_as_both_are_known(
    one: dict[str, Any], other: dict[str, Any], is_same: bool
) -> None:
    places = {"cluster": "c"} | one, {"cluster": "c"} | other
    assert is_same_place(*places) is is_same_place(*reversed(places)) is is_same


@pytest.mark.parametrize("text", ["v1", "v1\n{}\nnot json", "v1\n{}\n7"])
def test_a_file_that_is_not_as_expected_stops_the_pipeline(text: str, tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, *LIVE)
    (folder / "offsets" / "1").write_text(text)
    assert end_offset(folder, 1) is None
    with pytest.raises(StorageError, match="does not contain the end of the micro-batch"):
        commit_of(folder, "s", 1)
    with pytest.raises(StorageError, match="does not contain"):
        commit_of(folder, "s", 7)
