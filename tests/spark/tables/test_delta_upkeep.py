"""Upkeep keeps rows and appends, beside a stream, beside other upkeep, and when it is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from pykraft.errors import StorageError, UsageError
from pykraft.spark.tables import delta_upkeep
from pykraft.spark.tables.commit import ParquetFile, carried, newest_commit
from pykraft.spark.tables.delta_upkeep import TableFile, compact, files_of, merge, plan, shorten_log, vacuum
from tests.spark.tables.files import LOG_COLUMNS, append, commit, forget_log, log_rows, make_table, written

pytestmark = pytest.mark.spark

OLD_S = 1_000_000.0
KILLED = """
import os, signal, sys
from pathlib import Path
from pykraft.spark.tables import delta_upkeep

step = getattr(delta_upkeep, sys.argv[2])

def die(*given, **named):
    if sys.argv[3] == "after":
        step(*given, **named)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(delta_upkeep, sys.argv[2], die)
delta_upkeep.compact(Path(sys.argv[1]))
"""


def offsets(folder: Path) -> list[int]:
    found: list[int] = DeltaTable(folder).to_pyarrow_table()["offset"].to_pylist()
    return sorted(found)


def test_small_files_become_one_with_the_same_rows(tmp_path: Path) -> None:
    make_table(tmp_path, appends=5)
    before = DeltaTable(tmp_path).to_pyarrow_table().sort_by("offset")
    told: list[int] = []
    size_bytes = compact(tmp_path, on_merged=told.append)
    table = DeltaTable(tmp_path)
    assert table.to_pyarrow_table() == before
    assert told == [size_bytes]
    assert (files_of(tmp_path), newest_commit(table), table.transaction_version("s")) == (1, commit(4), 4)
    assert compact(tmp_path) == 0
    assert DeltaTable(tmp_path).version() == table.version()


def test_replicas_stay_apart_and_other_offsets_are_still_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_table(tmp_path, appends=0)
    monkeypatch.setattr(delta_upkeep, "ROUNDS_MAX", 1)
    for offset in range(0, 20, 5):
        for replica in ("n1", "n2"):
            write_deltalake(tmp_path, pa.table(log_rows(range(offset, offset + 5), replica=replica)), mode="append")
    size_bytes = next(iter(DeltaTable(tmp_path).get_add_actions()["size_bytes"])).as_py()
    compact(tmp_path, target_size_bytes=int(size_bytes * 2.1))
    table = DeltaTable(tmp_path)
    assert len(table.file_uris()) == 4
    assert len(table.file_uris(file_pruning_predicate="replica = 'n2' AND offset >= 10")) == 1


def test_files_without_statistics_are_merged_in_order_too(tmp_path: Path) -> None:
    rows = [pa.table(log_rows(range(begin, begin + 5))) for begin in (10, 0, 5)]
    for each in rows:
        configuration = {"delta.dataSkippingNumIndexedCols": "0"}
        write_deltalake(tmp_path, each, mode="append", configuration=configuration)
    compact(tmp_path)
    assert DeltaTable(tmp_path).to_pyarrow_table()["offset"].to_pylist() == list(range(15))


def test_a_stream_that_commits_meanwhile_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_table(tmp_path, appends=4)
    numbers = iter(range(4, 100))

    def merge_slowly(folder: Path, names: Sequence[str], columns: pa.Schema) -> ParquetFile | None:
        append(folder, next(numbers))
        return merge(folder, names, columns)

    with monkeypatch.context() as beside:
        beside.setattr(delta_upkeep, "merge", merge_slowly)
        assert compact(tmp_path) > 0
    rounds = delta_upkeep.ROUNDS_MAX
    assert offsets(tmp_path) == list(range(10 * (4 + rounds)))
    assert (files_of(tmp_path), newest_commit(DeltaTable(tmp_path))) == (2, commit(3 + rounds))


def test_two_compactions_at_once_do_not_double_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_table(tmp_path, appends=4)

    def merge_late(folder: Path, names: Sequence[str], columns: pa.Schema) -> ParquetFile | None:
        late = merge(folder, names, columns)
        DeltaTable(folder).optimize.compact()
        return late

    with monkeypatch.context() as beside:
        beside.setattr(delta_upkeep, "merge", merge_late)
        assert compact(tmp_path) == 0
    assert offsets(tmp_path) == list(range(40))
    assert len(list(tmp_path.glob("*.parquet"))) == 4 + 1, "the late file is deleted"


def test_a_compaction_that_commits_at_the_same_moment_does_not_double_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It commits when the other one has looked at the files for the last time."""
    make_table(tmp_path, appends=4)

    def carried_late(table: DeltaTable) -> dict[str, str]:
        DeltaTable(tmp_path).optimize.compact()
        return carried(table)

    with monkeypatch.context() as beside:
        beside.setattr(delta_upkeep, "carried", carried_late)
        assert compact(tmp_path) == 0
    assert offsets(tmp_path) == list(range(40))
    assert len(list(tmp_path.glob("*.parquet"))) == 4 + 1, "the late file is deleted"


def test_a_merge_remembers_the_newest_append_when_the_log_has_forgotten_it(tmp_path: Path) -> None:
    make_table(tmp_path, appends=4)
    assert compact(tmp_path) > 0
    forget_log(tmp_path)
    assert newest_commit(DeltaTable(tmp_path)) == commit(3)


@pytest.mark.parametrize(("appends", "files"), [(3, 2), (delta_upkeep.COMMIT_ATTEMPTS_MAX, 4)])
def test_a_commit_at_the_same_moment_makes_it_look_again(
    appends: int, files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream commits between the look at the table and the commit, so many times; then it gives up."""
    make_table(tmp_path, appends=4)
    numbers = iter(range(4, 4 + appends))

    def carried_late(table: DeltaTable) -> dict[str, str]:
        told = carried(table)
        for number in numbers:
            append(tmp_path, number)
            break
        return told

    monkeypatch.setattr(delta_upkeep, "carried", carried_late)
    monkeypatch.setattr(delta_upkeep, "ROUNDS_MAX", 1)
    assert (compact(tmp_path) > 0) == (files == 2)
    assert files_of(tmp_path) == files + appends - (files == 2)
    assert len(list(tmp_path.glob("*.parquet"))) == 4 + appends + (files == 2)
    assert offsets(tmp_path) == list(range(10 * (4 + appends)))
    assert newest_commit(DeltaTable(tmp_path)) == commit(3 + appends)


@pytest.mark.parametrize(("step", "when"), [("merge", "before"), ("merge", "after"), ("_replace", "after")])
def test_a_kill_at_any_step_loses_nothing(step: str, when: str, tmp_path: Path) -> None:
    make_table(tmp_path, appends=4)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), step, when], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert offsets(tmp_path) == list(range(40))
    append(tmp_path, 4)
    compact(tmp_path)
    assert (offsets(tmp_path), files_of(tmp_path)) == (list(range(50)), 1)


def test_vacuum_deletes_what_is_old_and_out_of_use(tmp_path: Path) -> None:
    make_table(tmp_path, appends=3)
    compact(tmp_path)
    fresh, old = (written(tmp_path, log_rows(range(3))) for _ in range(2))
    os.utime(tmp_path / old.name, (OLD_S, OLD_S))
    assert vacuum(tmp_path) == 1
    assert not (tmp_path / old.name).exists()
    assert vacuum(tmp_path, retention_hours=0) == 3
    assert (tmp_path / fresh.name).exists(), "a micro-batch may be about to commit it"
    assert offsets(tmp_path) == list(range(30))
    assert newest_commit(DeltaTable(tmp_path)) == commit(2)


def test_a_checkpoint_shortens_the_log(tmp_path: Path) -> None:
    make_table(tmp_path, appends=3)
    shorten_log(tmp_path)
    log = tmp_path / "_delta_log"
    assert [path.name[:20] for path in log.glob("*.checkpoint.parquet")] == [f"{3:020d}"]
    for path in log.glob("*.json"):
        path.unlink()
    assert offsets(tmp_path) == list(range(30))


def test_tables_of_others_are_refused(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "parts", pa.table({"offset": [1], "day": ["a"]}), partition_by=["day"])
    with pytest.raises(UsageError, match="another program gave the table partitions by day; use that program"):
        compact(tmp_path / "parts")
    with pytest.raises(StorageError, match="cannot be opened"):
        compact(tmp_path / "absent")


def test_a_table_without_offsets_is_not_merged(tmp_path: Path) -> None:
    for _ in range(2):
        write_deltalake(tmp_path, pa.table({"epoch": [1]}), mode="append")
    assert compact(tmp_path) == 0


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
    monkeypatch.setattr(delta_upkeep, "ROW_GROUP_SIZE_BYTES_MAX", 5 * groups[0].nbytes // 2)
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
