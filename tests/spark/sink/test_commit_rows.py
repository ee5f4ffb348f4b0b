"""A micro-batch's rows are in the log once, in order, wherever its driver was killed and whatever tasks staged anew."""

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pykraft import errors
from pykraft.client.remote.numbered_appender import NumberedAppender
from pykraft.local.voters import HOST, free_ports
from pykraft.spark.sink import commit_rows
from pykraft.spark.sink.commit_rows import Appended, Manifest, QueryFolder, next_generation
from pykraft.spark.sink.staged import StagedFile
from pykraft.types import Endpoint, Offset
from tests.server.nodes import QUICK
from tests.spark.sink.sinks import ROWS_IN_BATCH, KilledError, Sink, dies, rows_of

MANY = 12 * ROWS_IN_BATCH
"""Rows of more batches than a leader remembers of a producer."""


@pytest.fixture
def open_sink(tmp_path: Path) -> Iterator[Callable[..., Sink]]:
    opened: list[Sink] = []

    def open_one(**changes: Any) -> Sink:
        opened.append(Sink(tmp_path / f"{len(opened)}", **changes))
        return opened[-1]

    yield open_one
    for each in opened:
        each.node.stop()


@pytest.fixture
def sink(open_sink: Callable[..., Sink]) -> Sink:
    return open_sink()


def folder_names(sink: Sink) -> list[str]:
    return sorted(path.name for path in sink.folder.path.iterdir())


def test_rows_are_in_the_log_in_the_order_of_partitions(sink: Sink) -> None:
    files = [sink.stage(0, partition, rows_of(partition, MANY)) for partition in (2, 0, 1)]
    made = sink.commit(0, files)
    assert made is not None
    wanted = [value for partition in range(3) for value in rows_of(partition, MANY)]
    assert sink.logged() == wanted
    assert folder_names(sink) == ["0.0.manifest.json", "0.progress.json"]
    assert sink.commit(1, []) is None
    following = sink.commit(2, [sink.stage(2, 0, [b"next"])])
    assert following is not None
    assert (following.producer_id, following.producer_epoch) == (made.producer_id, made.producer_epoch + 1)
    assert sink.logged() == [*wanted, b"next"]
    assert folder_names(sink) == ["2.0.manifest.json", "2.progress.json"]


def test_a_repeated_micro_batch_has_the_rows_of_the_first_commit(sink: Sink) -> None:
    sink.commit(0, [sink.stage(0, 0, rows_of(0, 30))])
    for files in ([sink.stage(0, 0, rows_of(0, 40, attempt=1))], []):
        sink.commit(0, files)
    assert sink.logged() == rows_of(0, 30)
    assert folder_names(sink) == ["0.0.manifest.json", "0.progress.json"]


@pytest.mark.parametrize("is_done", [False, True], ids=["before the append", "after it"])
def test_a_driver_may_be_killed_at_each_batch(is_done: bool, sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the repeated tasks stage is in another order, as after a shuffle."""
    monkeypatch.setattr(commit_rows, "NOTED_BATCHES", 9)
    wanted: list[bytes] = []
    for batch_id, after in enumerate((0, 6, 10, 18)):
        files = [sink.stage(batch_id, part, rows_of(part, MANY, attempt=batch_id)) for part in range(2)]
        wanted += [value for part in range(2) for value in rows_of(part, MANY, attempt=batch_id)]
        with monkeypatch.context() as patch:
            patch.setattr(NumberedAppender, "append", dies(after, NumberedAppender.append, is_done=is_done))
            with pytest.raises(KilledError):
                sink.commit(batch_id, files)
        assert len(sink.logged()) < len(wanted)
        again = [sink.stage(batch_id, part, rows_of(part, MANY, attempt=batch_id)[::-1]) for part in range(3)]
        sink.commit(batch_id, again)
        assert sink.logged() == wanted
    assert folder_names(sink) == ["3.0.manifest.json", "3.progress.json"]


def test_a_driver_that_dies_before_the_manifest_leaves_nothing(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(NumberedAppender, "end_offset", dies(0, NumberedAppender.end_offset, is_done=True))
        with pytest.raises(KilledError):
            sink.commit(0, [sink.stage(0, 0, rows_of(0, 30))])
    assert sink.logged() == []
    sink.commit(0, [sink.stage(0, 0, rows_of(0, 20, attempt=1))])
    assert sink.logged() == rows_of(0, 20, attempt=1)
    assert folder_names(sink) == ["0.0.manifest.json", "0.progress.json"]


def test_batches_that_a_leader_had_and_the_next_one_lost_are_sent_again(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first leader has all of them, uncommitted, and loses its leadership before it could commit one."""
    send = NumberedAppender.append
    with monkeypatch.context() as patch:
        patch.setattr(NumberedAppender, "append", dies(3, send, is_done=True))
        with pytest.raises(KilledError):
            sink.commit(0, [sink.stage(0, 0, rows_of(0, MANY))])
    calls = 0

    async def append(appender: NumberedAppender, batch: bytes) -> Offset:
        nonlocal calls
        calls += 1
        if calls <= 12:
            raise errors.RefusedError(
                "the append", errors.ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "the next sequence is another"
            )
        return await send(appender, batch)

    with monkeypatch.context() as patch:
        patch.setattr(NumberedAppender, "append", append)
        sink.commit(0)
    assert sink.logged() == rows_of(0, MANY)


def test_a_quorum_that_expects_other_numbers_all_the_time_is_an_error(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(NumberedAppender, "append", dies(0, NumberedAppender.append, is_done=False))
        with pytest.raises(KilledError):
            sink.commit(0, [sink.stage(0, 0, rows_of(0, MANY))])

    async def append(appender: NumberedAppender, batch: bytes) -> Offset:
        raise errors.RefusedError(
            "the append", errors.ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "the next sequence is another"
        )

    monkeypatch.setattr(NumberedAppender, "append", append)
    with pytest.raises(errors.UsageError, match=f"restored from a copy.*; 0 of {MANY} rows of micro-batch 0 are known"):
        sink.commit(0, timeout_ms=100)


def test_drivers_at_the_same_time_append_the_rows_of_one(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QueryFolder, "finish", lambda *_: None)  # the slower one still reads the rows
    staged = [[sink.stage(0, 0, rows_of(0, MANY, attempt=attempt))] for attempt in range(3)]
    with ThreadPoolExecutor(3) as threads:
        made = list(threads.map(lambda files: sink.commit(0, files), staged))
    assert made[0] == made[1] == made[2]
    assert sink.logged() in [rows_of(0, MANY, attempt=attempt) for attempt in range(3)]


def test_a_query_that_the_quorum_forgot_gets_a_new_producer_id(open_sink: Callable[..., Sink]) -> None:
    sink = open_sink(client_producers_max=1)
    first = sink.commit(0, [sink.stage(0, 0, rows_of(0, 3))])
    other = replace_folder(sink, "another-query")
    other.commit(0, [other.stage(0, 0, [b"another"])])
    second = sink.commit(1, [sink.stage(1, 0, rows_of(1, MANY))])
    assert first is not None
    assert second is not None
    assert (second.generation, second.producer_epoch) == (1, 0)
    assert second.producer_id > first.producer_id
    assert sink.logged() == [*rows_of(0, 3), b"another", *rows_of(1, MANY)]
    assert folder_names(sink) == ["1.1.manifest.json", "1.progress.json"]


def replace_folder(sink: Sink, query_id: str) -> Sink:
    """Another query into the same quorum."""
    other = object.__new__(Sink)
    other.node, other.root, other.options = sink.node, sink.root, sink.options
    other.folder = QueryFolder(sink.root, query_id)
    return other


def test_a_half_appended_micro_batch_that_the_quorum_forgot_is_an_error(
    open_sink: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = open_sink(client_producers_max=1)
    with monkeypatch.context() as patch:
        patch.setattr(NumberedAppender, "append", dies(3, NumberedAppender.append, is_done=True))
        with pytest.raises(KilledError):
            sink.commit(0, [sink.stage(0, 0, rows_of(0, MANY))])
    before = sink.logged()
    other = replace_folder(sink, "another-query")
    other.commit(0, [other.stage(0, 0, [b"another"])])
    for _ in range(2):
        with pytest.raises(errors.RefusedError, match="UNKNOWN_PRODUCER_ID") as raised:
            sink.commit(0)
        assert raised.value.code == errors.ErrorCode.UNKNOWN_PRODUCER_ID
    assert sink.logged() == [*before, b"another"]


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_a_restored_older_folder_is_refused(micro_batches: int, sink: Sink, tmp_path: Path) -> None:
    sink.commit(0, [sink.stage(0, 0, rows_of(0, MANY))])
    shutil.copytree(sink.folder.path, tmp_path / "copy")
    for batch_id in range(1, 1 + micro_batches):
        sink.commit(batch_id, [sink.stage(batch_id, 0, rows_of(batch_id, MANY))])
    before = sink.logged()
    shutil.rmtree(sink.folder.path)
    shutil.copytree(tmp_path / "copy", sink.folder.path)
    for count in (MANY, MANY + 1):
        with pytest.raises(errors.UsageError, match="the log has newer rows of this query than its folder knows"):
            sink.commit(1, [sink.stage(1, 0, rows_of(1, count, attempt=9))])
    assert sink.logged() == before


def test_an_older_checkpoint_beside_the_folder_is_refused(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    for batch_id in range(3):
        sink.commit(batch_id, [sink.stage(batch_id, 0, rows_of(batch_id, 3))])
    with pytest.raises(errors.UsageError, match="micro-batch 1: the log has newer rows"):
        sink.commit(1, [sink.stage(1, 0, rows_of(1, 3))])
    with monkeypatch.context() as patch:
        patch.setattr(NumberedAppender, "append", dies(0, NumberedAppender.append, is_done=True))
        with pytest.raises(KilledError):
            sink.commit(3, [sink.stage(3, 0, rows_of(3, MANY))])
    with pytest.raises(errors.UsageError, match="has rows of micro-batch 3 that are not in the log"):
        sink.commit(4, [sink.stage(4, 0, [b"a"])])


def test_another_quorum_is_refused(sink: Sink, open_sink: Callable[..., Sink]) -> None:
    sink.commit(0, [sink.stage(0, 0, rows_of(0, 3))])
    other = open_sink(cluster_id="another-cluster")
    with pytest.raises(errors.ForeignClusterError, match="belongs to cluster another-cluster, not to"):
        sink.commit(1, [sink.stage(1, 0, [b"a"])], controllers=other.options.controllers)
    assert other.logged() == []


def test_a_refused_row_is_named_and_may_be_left_out(open_sink: Callable[..., Sink]) -> None:
    sink = open_sink(client_records="kraft")
    values: list[bytes | None] = [b"a"] * 30
    values[20] = None
    with pytest.raises(errors.RefusedError) as raised:
        sink.commit(0, [sink.stage(0, 4, values)])
    story = str(raised.value)
    assert raised.value.code == errors.ErrorCode.INVALID_RECORD
    assert "(row 20 of partition 4 has no value, or an empty one)" in story
    assert "Kafka's own replicas cannot read this batch" in story
    assert "; 0 of 30 rows of micro-batch 0 are known to be in the log" in story
    sink.commit(0, [sink.stage(0, 4, [b"a"] * 29)])
    assert sink.logged() == [b"a"] * 29

    keyed: list[bytes | None] = [None for _ in range(3 * ROWS_IN_BATCH)]
    keyed[-1] = b"k"
    with pytest.raises(
        errors.RefusedError, match=rf"\(row {len(keyed) - 1} of partition 0 has a key\).*; {2 * ROWS_IN_BATCH} of"
    ):
        sink.commit(1, [sink.stage(1, 0, rows_of(0, len(keyed)), keyed)])
    assert sink.folder.newest() is not None


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"headers": [None, [{"key": "name", "value": None}], []]}, "row 1 of partition 4 has headers"),
        ({"times_us": [7_000, 7_999, 6_999]}, "row 2 of partition 4 has another time than the row before"),
    ],
)
def test_headers_and_times_are_refused_where_kafka_s_replicas_may_read(
    more: dict[str, Any], problem: str, open_sink: Callable[..., Sink]
) -> None:
    sink = open_sink(client_records="kraft")
    with pytest.raises(errors.RefusedError, match=problem):
        sink.commit(0, [sink.stage(0, 4, [b"a"] * 3, **more)])


def test_a_batch_above_the_limit_of_the_nodes_is_an_error(open_sink: Callable[..., Sink]) -> None:
    sink = open_sink(raft=replace(QUICK, batch_size_bytes_max=1_024))
    file = sink.stage(0, 0, rows_of(0, MANY), size_bytes_max=10_000)
    with pytest.raises(errors.RefusedError, match=r"rows 0 to \d+ of partition 0 was refused: MESSAGE_TOO_LARGE"):
        sink.commit(0, [file])
    assert sink.logged() == []


def test_without_a_quorum_the_error_says_how_far_it_came(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(NumberedAppender, "append", dies(0, NumberedAppender.append, is_done=False))
        with pytest.raises(KilledError):
            sink.commit(0, [sink.stage(0, 0, rows_of(0, 20))])
    nobody = (Endpoint(HOST, free_ports(1)[0]),)
    told = "0 of 20 rows of micro-batch 0 are known to be in the log, and the query continues there"
    with pytest.raises(errors.QuorumUnavailableError, match=told):
        sink.commit(0, controllers=nobody, timeout_ms=300)
    with pytest.raises(errors.QuorumUnavailableError, match="appends all rows again when it is started again"):
        sink.commit(0, controllers=nobody, timeout_ms=300, continues=False)
    sink.commit(0)
    assert sink.logged() == rows_of(0, 20)


FILES = tuple(
    StagedFile(name=f"file{partition}", partition=partition, rows=3 + partition, batches=2, size_bytes=100)
    for partition in range(2)
)


def manifest(batch_id: int, **changes: Any) -> Manifest:
    made = Manifest(
        batch_id=batch_id,
        generation=0,
        cluster_id="a-cluster",
        producer_id=2**40,
        producer_epoch=batch_id,
        start_offset=Offset(5),
        files=FILES,
    )
    return replace(made, **changes)


@pytest.fixture
def folder(tmp_path: Path) -> QueryFolder:
    return QueryFolder(tmp_path, "query")


def names(folder: QueryFolder) -> list[str]:
    return sorted(path.name for path in folder.path.iterdir())


def stage(folder: QueryFolder, batch_id: int, *more: str) -> None:
    folder.rows_folder(batch_id).mkdir(parents=True, exist_ok=True)
    for name in [*(each.name for each in FILES), *more]:
        (folder.rows_folder(batch_id) / name).touch()


def test_a_manifest_comes_back_as_it_was(folder: QueryFolder) -> None:
    assert folder.newest() is None
    made = manifest(3)
    assert folder.create(made) is made
    assert folder.newest() == made
    assert (made.rows, made.batches) == (7, 4)
    assert names(folder) == ["3.0.manifest.json"]


def test_of_many_drivers_one_creates_it_and_all_get_the_same(folder: QueryFolder) -> None:
    asked = [manifest(1, producer_id=number) for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        got = list(threads.map(folder.create, asked))
    assert len({each.producer_id for each in got}) == 1
    assert [each for each, wanted in zip(got, asked, strict=True) if each is wanted] == [folder.newest()]
    assert len(names(folder)) == 1


def test_a_later_generation_and_a_later_micro_batch_are_newer(folder: QueryFolder) -> None:
    folder.create(manifest(9))
    later = next_generation(manifest(9), producer_id=77)
    assert (later.generation, later.producer_id, later.producer_epoch, later.files) == (1, 77, 0, FILES)
    folder.create(later)
    assert folder.newest() == later
    folder.create(manifest(10))
    assert folder.newest() == manifest(10)


def test_a_finished_micro_batch_leaves_its_manifest_only(folder: QueryFolder) -> None:
    for batch_id in (1, 2, 3):
        stage(folder, batch_id)
        folder.create(manifest(batch_id))
        folder.note(manifest(batch_id), Appended(batches=1, rows=1))
    folder.create(manifest(2, generation=1))
    (folder.path / "2.0.manifest.json-00.tmp").touch()
    done = manifest(2, generation=1)
    assert not folder.is_finished(done)
    folder.finish(done)
    assert folder.is_finished(done)
    assert folder.progress(done) == Appended(batches=4, rows=7, is_done=True)
    of_the_next = ["3.0.manifest.json", "3.progress.json", "3.rows"]
    assert names(folder) == ["2.1.manifest.json", "2.progress.json", *of_the_next]


def test_a_driver_that_repeats_does_not_take_back_what_is_done(folder: QueryFolder) -> None:
    made = folder.create(manifest(4))
    folder.finish(made)
    folder.note(made, Appended(batches=1, rows=1))
    assert folder.progress(made).is_done


def test_rows_of_a_manifest_are_not_discarded(folder: QueryFolder) -> None:
    stage(folder, 5, "another")
    other = replace(FILES[0], name="another")
    folder.create(manifest(5))
    folder.discard(5, [*FILES, other])
    assert sorted(path.name for path in folder.rows_folder(5).iterdir()) == ["file0", "file1"]
    folder.withdraw(manifest(5))
    folder.discard(5, FILES)
    assert list(folder.rows_folder(5).iterdir()) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2, "files": []}', '{"version": 1, "files": [{}]}'])
def test_a_foreign_file_is_an_error_with_its_name(text: str, folder: QueryFolder) -> None:
    folder.path.mkdir()
    path = folder.path / "1.0.manifest.json"
    path.write_text(text)
    (folder.path / "x.0.manifest.json").touch()
    with pytest.raises(errors.StorageError, match=f"{path}: is not what the sink wrote"):
        folder.newest()


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(errors.StorageError, match="the manifest cannot be created; the folder needs hard links"):
        QueryFolder(tmp_path / "missing", "query").create(manifest(1))
