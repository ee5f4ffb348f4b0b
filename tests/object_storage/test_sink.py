"""Rows that are staged in object storage are in the log once, whoever is killed or commits at the same time."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import pytest

from pykraft.client.remote.numbered_appender import NumberedAppender
from pykraft.errors import CorruptionError, StorageError
from pykraft.object_storage import shared_folder
from pykraft.object_storage.files import AHEAD_SIZE_BYTES
from pykraft.object_storage.uris import located
from pykraft.spark.sink.commit_rows import QueryFolder
from pykraft.spark.sink.staged import stage, staged_batches
from tests.object_storage.s3_server import SECRET, Fault, Handler, Proxy, Storage
from tests.spark.sink.sinks import ROWS_IN_BATCH, KilledError, Sink, batches_of, dies, rows_of
from tests.tidy.repository import ROOT

pytestmark = pytest.mark.spark

MANY = 12 * ROWS_IN_BATCH
"""Rows of more batches than a leader remembers of a producer."""
DRIVER = """
import sys
from pathlib import Path
from pykraft.object_storage.uris import located
from pykraft.spark.sink.commit_rows import QueryFolder, commit
from pykraft.spark.sink.sink_options import parse_sink_options
from pykraft.spark.sink.staged import stage
from tests.spark.sink.sinks import batches_of, rows_of

controllers, staging, rows = sys.argv[1:]
options = parse_sink_options({"bootstrap.controllers": controllers, "stagingLocation": staging}, is_stream=True)
folder = QueryFolder(options.staging, "a-query")
file = stage(folder.rows_folder(0), 0, batches_of(0, rows_of(0, int(rows))))
commit(options, folder, 0, [file])
"""


@pytest.fixture
def root(storage: Storage, proxy: Proxy, tmp_path: Path) -> Path:
    """A folder in a bucket."""
    del proxy
    bucket = f"s3://{tmp_path.name.replace('_', '-')}"
    storage.put(f"{bucket}/other", b"not the sink's")
    return located(f"{bucket}/staging")


@pytest.fixture
def sink(root: Path, tmp_path: Path) -> Iterator[Sink]:
    made = Sink(tmp_path, root)
    yield made
    made.node.stop()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in shared_folder.entries(folder))


def is_manifest(method: str, target: str) -> bool:
    return method == "PUT" and target.endswith(".manifest.json")


def test_a_driver_may_be_killed_at_each_batch(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[bytes] = []
    for batch_id, after in enumerate((0, 6, 18)):
        files = [sink.stage(batch_id, part, rows_of(part, MANY, attempt=batch_id)) for part in range(2)]
        wanted += [value for part in range(2) for value in rows_of(part, MANY, attempt=batch_id)]
        with monkeypatch.context() as patch:
            patch.setattr(NumberedAppender, "append", dies(after, NumberedAppender.append, is_done=True))
            with pytest.raises(KilledError):
                sink.commit(batch_id, files)
        sink.commit(batch_id, [sink.stage(batch_id, 0, rows_of(0, MANY, attempt=9))])
        assert sink.logged() == wanted
    assert names(sink.folder.path) == ["2.0.manifest.json", "2.progress.json"]
    sink.folder.remove()
    assert names(sink.folder.path) == []


@pytest.mark.parametrize("is_passed_on", [False, True], ids=["the request was lost", "the manifest was written"])
def test_a_process_is_killed_between_stage_and_commit(is_passed_on: bool, sink: Sink, proxy: Proxy) -> None:
    """A driver is killed while it waits for the answer to its manifest; the next one has other rows."""
    started: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()

    def kill(handler: Handler) -> None:
        process = started.get()
        process.kill()
        process.wait()
        if is_passed_on:
            handler.pass_on()

    proxy.faults.append(Fault(kill, 1, is_manifest))
    words = [sys.executable, "-c", DRIVER, str(sink.node.endpoint), str(sink.root), "30"]
    with subprocess.Popen(words, cwd=ROOT, env=os.environ | {"PYTHONPATH": "src"}) as process:
        started.put(process)
        assert process.wait(60) < 0
    assert len(names(sink.folder.rows_folder(0))) == 1
    sink.commit(0, [sink.stage(0, 0, rows_of(0, 20, attempt=1))])
    assert sink.logged() == (rows_of(0, 30) if is_passed_on else rows_of(0, 20, attempt=1))
    assert names(sink.folder.path) == ["0.0.manifest.json", "0.progress.json"]


def test_of_two_drivers_whose_manifests_arrive_at_once_one_creates_it(
    sink: Sink, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QueryFolder, "finish", lambda *_: None)  # the slower one still reads the rows
    both, one_by_one, statuses = threading.Barrier(2), threading.Lock(), []

    def pass_on(handler: Handler) -> None:
        both.wait(60)
        with one_by_one:  # the server looks and writes in two steps
            statuses.append(handler.pass_on())

    proxy.faults.append(Fault(pass_on, 2, is_manifest))
    staged = [[sink.stage(0, 0, rows_of(0, MANY, attempt=attempt))] for attempt in range(2)]
    with ThreadPoolExecutor(2) as threads:
        made = list(threads.map(lambda files: sink.commit(0, files), staged))
    assert sorted(statuses) == [200, 412]
    assert made[0] == made[1] == sink.folder.newest()
    assert sink.logged() in [rows_of(0, MANY, attempt=attempt) for attempt in range(2)]


def test_a_manifest_whose_answer_was_lost_is_ones_own(sink: Sink, proxy: Proxy) -> None:
    """The client repeats the request, and is told that there is such an object. It may still take a new producer id."""
    proxy.faults.append(Fault(lambda handler: handler.pass_on(is_cut=True), 1, is_manifest))
    made = sink.commit(0, [sink.stage(0, 0, rows_of(0, 3))])
    assert sum(is_manifest(method, target) for method, target, _ in proxy.requests) == 2
    assert made is not None
    assert sink.folder.create(made) is made
    assert sink.logged() == rows_of(0, 3)


def large(count: int, fail: Callable[[], None] = lambda: None) -> Iterator[tuple[bytes, int]]:
    batch = next(batches_of(0, [b"x" * (1024 * 1024)], size_bytes_max=2**21))
    for _ in range(count):
        yield batch
    fail()


def test_rows_of_several_parts_come_back_and_a_task_that_fails_leaves_nothing(root: Path, proxy: Proxy) -> None:
    folder = QueryFolder(root, "a-query").rows_folder(0)
    count = 2 * AHEAD_SIZE_BYTES // (1024 * 1024) + 3
    file = stage(folder, 1, large(count))
    assert file is not None
    assert [each.first_row for each in staged_batches(folder, [file], size_bytes_max=2**26)] == list(range(count))
    assert names(folder) == [file.name]

    def fail() -> None:
        raise KilledError

    with pytest.raises(KilledError):
        stage(folder, 2, large(count, fail))
    proxy.answer(403, times=99, fits=lambda method, _: method != "GET")
    with pytest.raises(StorageError, match="cannot write: access is denied") as raised:
        stage(folder, 2, large(1))
    assert SECRET not in str(raised.value)
    assert names(folder) == [file.name]


def test_rows_that_were_changed_or_removed_are_an_error(root: Path, storage: Storage) -> None:
    folder = QueryFolder(root, "a-query").rows_folder(0)
    file = stage(folder, 1, large(1))
    assert file is not None
    storage.put(f"{folder}/{file.name}", b"x" * file.size_bytes)
    with pytest.raises(CorruptionError):
        list(staged_batches(folder, [file], size_bytes_max=2**26))
    storage.remove(f"{folder}/{file.name}")
    with pytest.raises(StorageError, match="there is no such object"):
        list(staged_batches(folder, [file], size_bytes_max=2**26))
