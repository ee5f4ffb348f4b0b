"""Delta tables in object storage: a micro-batch is there once, whoever is killed or commits at the same time."""

import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import pyarrow as pa
import pytest

from pykraft.errors import StorageError, UsageError
from pykraft.object_storage import shared_folder
from pykraft.object_storage.files import AHEAD_SIZE_BYTES, Files
from pykraft.spark.pipeline.status import TableStatus, check_belongs, pipeline_status
from pykraft.spark.pipeline.upkeep import keep_tables
from pykraft.spark.tables.commit import ParquetOutput, newest_commit
from pykraft.spark.tables.delta import DeltaTables
from pykraft.spark.tables.delta_upkeep import compact, row_groups, vacuum
from pykraft.spark.tables.names import CHECKPOINT, RECORDS
from pykraft.spark.tables.table_folder import LOG, open_table
from tests.object_storage.s3_server import SECRET, Fault, Handler, Proxy, Storage
from tests.spark.sink.sinks import KilledError
from tests.spark.tables.files import LOG_COLUMNS, LOG_TYPES, append_log_rows, commit, log_rows, written
from tests.tidy.repository import ROOT

pytestmark = pytest.mark.spark

DRIVER = """
import sys
from pykraft.spark.tables.delta import DeltaTables
from tests.spark.tables.files import append_log_rows

print(append_log_rows(DeltaTables(sys.argv[1]), int(sys.argv[2])))
"""


@pytest.fixture
def tables(storage: Storage, proxy: Proxy, tmp_path: Path) -> DeltaTables:
    """In a bucket with another object."""
    del proxy
    bucket = f"s3://{tmp_path.name.replace('_', '-')}"
    storage.put(f"{bucket}/other", b"not a table's")
    return DeltaTables(f"{bucket}/tables")


def driver(tables: DeltaTables, number: int) -> list[str]:
    return [sys.executable, "-c", DRIVER, str(tables.root), str(number)]


def offsets(tables: DeltaTables) -> list[int]:
    """As another reader sees them."""
    table = open_table(tables.root / RECORDS)
    assert table is not None
    found: list[int] = table.to_pyarrow_table()["offset"].to_pylist()
    return sorted(found)


def parts(tables: DeltaTables) -> list[Path]:
    return [path for path in shared_folder.entries(tables.root / RECORDS) if path.suffix == ".parquet"]


def is_commit(method: str, target: str) -> bool:
    return method == "PUT" and f"/{LOG}/" in target and target.endswith(".json")


def test_a_micro_batch_that_is_repeated_is_there_once_and_one_that_does_not_follow_is_refused(
    tables: DeltaTables,
) -> None:
    assert not tables.has(RECORDS)
    with pytest.raises(UsageError, match="the table with the earlier rows is gone"):
        append_log_rows(tables, 1)
    for number in range(2):
        assert [append_log_rows(tables, number) for _ in range(2)] == [10, None]
    with pytest.raises(UsageError, match="rows would be missing or duplicated"):
        append_log_rows(tables, 3)
    assert offsets(tables) == list(range(20))
    assert tables.newest(RECORDS) == commit(1)
    assert len(parts(tables)) == 2


def test_the_log_has_checkpoints_soon_since_each_entry_is_a_request(tables: DeltaTables, tmp_path: Path) -> None:
    intervals = []
    for each in (tables, DeltaTables(tmp_path)):
        append_log_rows(each, 0)
        table = open_table(each.root / RECORDS)
        assert table is not None
        intervals.append(table.metadata().configuration.get("delta.checkpointInterval"))
    assert intervals == ["10", None]


@pytest.mark.parametrize("is_passed_on", [False, True], ids=["the request was lost", "the entry was written"])
def test_a_driver_is_killed_between_the_files_and_the_answer_to_its_commit(
    is_passed_on: bool, tables: DeltaTables, proxy: Proxy
) -> None:
    append_log_rows(tables, 0)
    started: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()

    def kill(handler: Handler) -> None:
        process = started.get()
        process.kill()
        process.wait()
        if is_passed_on:
            handler.pass_on()

    proxy.faults.append(Fault(kill, 1, is_commit))
    with subprocess.Popen(driver(tables, 1), cwd=ROOT, env=os.environ | {"PYTHONPATH": "src"}) as process:
        started.put(process)
        assert process.wait(100) < 0
    assert len(parts(tables)) == 2
    assert append_log_rows(tables, 1) == (None if is_passed_on else 10)
    append_log_rows(tables, 2)
    assert offsets(tables) == list(range(30))
    table = open_table(tables.root / RECORDS)
    assert table is not None
    assert len(table.file_uris()) == 3


@pytest.mark.parametrize("number", [0, 1], ids=["that create the table", "that append"])
def test_of_two_drivers_at_once_one_commits(number: int, tables: DeltaTables, proxy: Proxy) -> None:
    for before in range(number):
        append_log_rows(tables, before)
    both, one_by_one, statuses = threading.Barrier(2), threading.Lock(), []

    def pass_on(handler: Handler) -> None:
        both.wait(100)
        with one_by_one:  # the server looks and writes in two steps
            statuses.append(handler.pass_on())

    def run(words: list[str]) -> str:
        environment = os.environ | {"PYTHONPATH": "src"}
        return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, check=True, text=True).stdout

    proxy.faults.append(Fault(pass_on, 2, is_commit))
    with ThreadPoolExecutor(2) as threads:
        told = list(threads.map(run, [driver(tables, number)] * 2))
    assert sorted(statuses) == [200, 412]
    assert sorted(told) == ["10\n", "None\n"]
    assert offsets(tables) == list(range(10 * (number + 1)))
    assert len(parts(tables)) == number + 2


def test_a_commit_whose_answer_was_lost_is_ones_own(tables: DeltaTables, proxy: Proxy) -> None:
    """The client repeats the request, and is told that there is such an entry: it has this very append."""
    append_log_rows(tables, 0)
    proxy.faults.append(Fault(lambda handler: handler.pass_on(is_cut=True), 1, is_commit))
    assert append_log_rows(tables, 1) is None
    assert append_log_rows(tables, 2) == 10
    assert offsets(tables) == list(range(30))


def test_upkeep_keeps_rows_and_appends(tables: DeltaTables) -> None:
    for number in range(2):
        append_log_rows(tables, number)
    done = keep_tables(tables.root).tables[RECORDS]
    assert (done.files_before, done.files) == (2, 1)
    assert vacuum(tables.root / RECORDS, retention_hours=0) == 2
    assert len(parts(tables)) == 1
    assert append_log_rows(tables, 1) is None
    append_log_rows(tables, 2)
    assert compact(tables.root / RECORDS) > 0
    assert offsets(tables) == list(range(30))


def test_rows_of_a_truncated_log_are_cut(tables: DeltaTables) -> None:
    append_log_rows(tables, 0)
    tables.cut(RECORDS, "offset", {"n1": 7, "n'2": 0})
    assert offsets(tables) == list(range(7))
    table = open_table(tables.root / RECORDS)
    assert table is not None
    assert newest_commit(table) == commit(0)


def noise(count: int) -> pa.RecordBatch:
    return log_rows(range(count), size_bytes=1024 * 1024)


def test_a_file_of_several_parts_is_whole_and_a_task_that_fails_leaves_none(tables: DeltaTables) -> None:
    folder = tables.root / RECORDS
    count = 2 * AHEAD_SIZE_BYTES // (1024 * 1024) + 3
    file = written(folder, noise(count))
    assert Files().size_bytes(folder / file.name) == file.size_bytes > 2 * AHEAD_SIZE_BYTES
    assert pa.Table.from_batches(row_groups([folder / file.name], LOG_COLUMNS)) == pa.Table.from_batches([noise(count)])
    output = ParquetOutput(folder, LOG_COLUMNS)
    output.write(noise(count))
    output.__exit__(KilledError, KilledError(), None)
    with ParquetOutput(folder, LOG_COLUMNS) as output:
        output.write(noise(1))
    assert [path.name for path in parts(tables)] == [file.name]


def test_a_storage_that_refuses_is_told_without_its_text(tables: DeltaTables, proxy: Proxy) -> None:
    append_log_rows(tables, 0)
    begun = tables.begin(RECORDS, LOG_TYPES, commit(1))
    assert begun is not None
    root = tables.root

    def denied(act: Callable[[], object]) -> None:
        with pytest.raises(StorageError, match=f"{root}.*: access is denied") as raised:
            act()
        assert SECRET not in "".join(traceback.format_exception(raised.value))

    proxy.answer(403, times=999)
    for act in (
        lambda: append_log_rows(tables, 1),
        lambda: written(begun.folder, noise(1)),
        lambda: begun.finish([]),
        lambda: list(row_groups([begun.folder / "part"], LOG_COLUMNS)),
        lambda: pipeline_status(root),
        lambda: keep_tables(root),
    ):
        denied(act)
    proxy.faults.clear()
    proxy.answer(403, times=999, fits=lambda method, _: method == "PUT")
    denied(lambda: append_log_rows(tables, 1))
    denied(lambda: tables.cut(RECORDS, "offset", {"n1": 7}))


def test_a_status_reads_spark_s_checkpoint_there_or_here(tables: DeltaTables, storage: Storage, tmp_path: Path) -> None:
    root = tables.root
    with pytest.raises(UsageError, match=f"{root}: no pipeline has written there"):
        pipeline_status(root)
    append_log_rows(tables, 0)
    source = {"bootstrap.controllers": "localhost:9093"}
    with pytest.raises(UsageError, match=f"restore {root}/{CHECKPOINT}, or continue .*--from 10"):
        check_belongs(tables, root / CHECKPOINT, source)
    assert pipeline_status(root).batch_id is None
    end = {"cluster": "c", "offset": 10}
    content = {"metadata": "{}", "commits/0": "v1", "offsets/0": f"v1\n{{}}\n{json.dumps(end)}"}
    for name, text in content.items():
        storage.put(f"{root}/{CHECKPOINT}/{name}", text.encode())
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    check_belongs(tables, root / CHECKPOINT, source)
    found = pipeline_status(root)
    [part] = parts(tables)
    size_bytes = Files().size_bytes(part)
    assert found.tables == {RECORDS: TableStatus(rows=10, files=1, size_bytes=size_bytes)}
    assert (found.batch_id, found.source) == (0, end)
    assert pipeline_status(root, tmp_path) == found


@pytest.mark.parametrize("is_remote", [False, True])
def test_of_two_that_have_begun_to_make_the_table_the_second_finds_its_rows_there(
    is_remote: bool, tables: DeltaTables, tmp_path: Path
) -> None:
    chosen = tables if is_remote else DeltaTables(tmp_path)
    both = [chosen.begin(RECORDS, LOG_TYPES, commit(0)) for _ in range(2)]
    assert [begun.finish([written(begun.folder, log_rows(range(10)))]) for begun in both if begun] == [10, None]
    assert offsets(chosen) == list(range(10))


def test_a_stream_that_commits_at_the_same_moment_is_seen_by_the_guard(tmp_path: Path) -> None:
    """Two checkpoints for one table: the library alone would append the rows of both."""
    chosen = DeltaTables(tmp_path)
    append_log_rows(chosen, 0)
    one, other = (chosen.begin(RECORDS, LOG_TYPES, commit(1, stream=stream)) for stream in ("s", "another"))
    assert one is not None
    assert other is not None
    files = [written(one.folder, log_rows(range(10, 20))) for _ in range(2)]
    assert one.finish(files[:1]) == 10
    with pytest.raises(UsageError, match="rows would be missing or duplicated"):
        other.finish(files[1:])
    assert offsets(chosen) == list(range(20))
