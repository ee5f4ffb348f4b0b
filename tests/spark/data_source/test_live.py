"""A live quorum as a source: bounds, limits, restarts; a killed leader neither loses nor duplicates a row."""

import json
import pickle
import shutil
from asyncio import BaseEventLoop
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from lab.nodes.cluster import Cluster
from pykraft.client.remote.leader_search import Patience
from pykraft.client.remote.observer import Observer, Window
from pykraft.config import TEST_TOPIC_NAME
from pykraft.core.messages import FetchRequest
from pykraft.errors import ForeignClusterError, QuorumUnavailableError, UsageError
from pykraft.local.child import Children
from pykraft.local.voters import QUICK
from pykraft.protocol.batch import scan
from pykraft.spark.data_source import live
from pykraft.spark.data_source.live import (
    Extent,
    LivePartition,
    LiveQuorum,
    LiveStreamReader,
    Sizes,
    first_since,
    splits_of,
)
from pykraft.spark.data_source.options import SourceOptions, parse_options
from pykraft.spark.source import LogReader
from pykraft.types import Endpoint, Epoch, Offset
from tests.spark.quorum_of_one import CLUSTER_ID, OneNode

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def stopped(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A reader keeps its connection; Spark's process ends with it."""
    made: list[LiveStreamReader] = []
    start = LiveStreamReader.__init__

    def note(self: LiveStreamReader, *words: Any) -> None:
        made.append(self)
        start(self, *words)

    monkeypatch.setattr(LiveStreamReader, "__init__", note)
    yield
    for reader in made:
        reader.stop()


def test_what_is_committed_and_whose_it_is(node: OneNode) -> None:
    with LiveQuorum([node.endpoint]) as quorum:
        assert quorum.extent() == Extent(start_offset=Offset(0), end_offset=Offset(6), topic=TEST_TOPIC_NAME)
        assert quorum.find_cluster_id() == CLUSTER_ID
        assert str(node.endpoint) in quorum.name


def test_the_batch_that_holds_an_offset(node: OneNode) -> None:
    with LiveQuorum([node.endpoint], CLUSTER_ID) as quorum:
        batch = quorum.batch_at(Offset(4))
    assert (batch.base_offset, batch.end_offset, batch.values()) == (3, 6, [b"c", b"d", b"e"])


@pytest.mark.parametrize(("start", "end", "bases"), [(0, 6, [0, 1, 3]), (2, 4, [1, 3]), (3, 6, [3]), (6, 6, [])])
def test_chunks_are_the_batches_that_hold_the_offsets(start: int, end: int, bases: list[int], node: OneNode) -> None:
    with LiveQuorum([node.endpoint]) as quorum:
        data = b"".join(quorum.chunks(Offset(start), Offset(end)))
    assert [header.base_offset for _, header in scan(data)] == bases


def test_a_chunk_is_bounded(node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "CHUNK_SIZE_BYTES", 1)
    with LiveQuorum([node.endpoint]) as quorum:
        assert len(list(quorum.chunks(Offset(0), Offset(6)))) == 3


def counted_connections(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What is opened from now on."""
    opened: list[object] = []
    create = BaseEventLoop.create_connection

    async def count(*words: Any, **named: Any) -> Any:
        opened.append(words)
        return await create(*words, **named)

    monkeypatch.setattr(BaseEventLoop, "create_connection", count)
    return opened


def test_a_block_has_one_connection(node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = counted_connections(monkeypatch)
    with LiveQuorum([node.endpoint]) as quorum:
        extent = quorum.extent()
        assert quorum.batch_at(Offset(4)).base_offset == 3
        assert list(quorum.chunks(extent.start_offset, extent.end_offset))
        assert quorum.extent() == extent
    assert len(opened) == 1


class Loud(bytes):
    """Fails when a text is made of it."""

    def __repr__(self) -> str:
        raise AssertionError("a text of megabytes")


def test_no_text_is_made_of_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    async def chunks(*_: object) -> AsyncGenerator[bytes]:
        yield Loud(b"one")
        yield Loud(b"two")

    monkeypatch.setattr(LiveQuorum, "_chunks", chunks)
    with LiveQuorum([Endpoint("nowhere", 1)]) as quorum:
        found = list(quorum.chunks(Offset(0), Offset(2)))
    assert [bytes(part) for part in found] == [b"one", b"two"]


def test_chunks_that_nobody_wants_any_more_let_go(node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "CHUNK_SIZE_BYTES", 1)
    with LiveQuorum([node.endpoint]) as quorum:
        chunks = quorum.chunks(Offset(0), Offset(6))
        next(chunks)
        chunks.close()  # type: ignore[attr-defined]


def test_the_first_batch_since_a_time(node: OneNode) -> None:
    with LiveQuorum([node.endpoint]) as quorum:
        extent = quorum.extent()
        times = [quorum.batch_at(Offset(offset)).timestamp_ms for offset in (0, 1, 3)]
        assert first_since(quorum, extent, 0) == 0
        assert first_since(quorum, extent, times[2] + 1) == 6
        for time_ms in times:
            assert first_since(quorum, extent, time_ms) == [0, 1, 3][times.index(time_ms)]


def test_another_cluster_is_refused(node: OneNode) -> None:
    with LiveQuorum([node.endpoint], "another") as quorum:
        with pytest.raises(ForeignClusterError):
            quorum.extent()
        with pytest.raises(ForeignClusterError):
            quorum.find_cluster_id()


def test_nobody_there_is_told(node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "QUERY_PATIENCE", Patience(timeout_ms=100))
    with LiveQuorum([Endpoint("127.0.0.1", 1)]) as nobody:
        for ask in (nobody.extent, nobody.find_cluster_id):
            with pytest.raises(QuorumUnavailableError, match=r"127\.0\.0\.1:1"):
                ask()


def test_a_log_that_begins_behind_a_snapshot_is_read_from_there(late_node: OneNode) -> None:
    with LiveQuorum([late_node.endpoint]) as quorum:
        assert quorum.extent() == Extent(start_offset=Offset(100), end_offset=Offset(103), topic=TEST_TOPIC_NAME)
        for start, bases in ((100, [100, 101, 102]), (101, [101, 102])):
            data = b"".join(quorum.chunks(Offset(start), Offset(103)))
            assert [header.base_offset for _, header in scan(data)] == bases
        assert quorum.batch_at(Offset(100)).is_control
        with pytest.raises(UsageError, match="offset 99 is not there: committed are the offsets from 100 to 103"):
            quorum.batch_at(Offset(99))


def options(node: OneNode, **given: str) -> SourceOptions:
    return parse_options({"bootstrap.controllers": str(node.endpoint)} | given)


def read(reader: LogReader | LiveStreamReader, parts: list[InputPartition], column: str = "offset") -> list[Any]:
    return [value for part in parts for rows in reader.read(part) for value in rows.column(column).to_pylist()]


def query(node: OneNode, column: str = "offset", **given: str) -> list[Any]:
    """What a query over the present log reads."""
    reader = LogReader(options(node, **given))
    return read(reader, list(reader.partitions()), column)


def stream(node: OneNode, column: str = "offset", **given: str) -> Iterator[list[Any]]:
    """Micro-batch after micro-batch, each read by a reader that was just started, until nothing is new."""
    first = LiveStreamReader(options(node, **given))
    start: dict[str, Any] = first.initialOffset()
    while True:
        start = json.loads(json.dumps(start))
        reader = LiveStreamReader(options(node, **given))
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        if end == start:
            return
        yield read(reader, list(reader.partitions(start, end)), column)
        start = end


@pytest.mark.parametrize(
    ("given", "offsets"),
    [
        ({}, range(6)),
        ({"startingOffsets": "2"}, range(2, 6)),
        ({"endingOffsets": "4"}, range(4)),
        ({"startingOffsets": "2", "endingOffsets": "5"}, range(2, 5)),
        ({"startingOffsets": "latest"}, []),
        ({"startingTimestamp": "0"}, range(6)),
        ({"endingTimestamp": "0"}, []),
        ({"startingTimestamp": str(2**40)}, range(6)),
        ({"startingTimestamp": str(2**42)}, []),
    ],
)
def test_bounds(given: dict[str, str], offsets: range, node: OneNode) -> None:
    assert query(node, **given) == list(offsets)


def test_what_only_a_snapshot_holds_is_told_and_never_left_out_without_a_word(late_node: OneNode) -> None:
    assert query(late_node) == [100, 101, 102]
    assert query(late_node, startingOffsets="101") == [101, 102]
    assert [row for rows in stream(late_node) for row in rows] == [100, 101, 102]
    told = "offset 99 is no longer in the log, which begins at 100: earlier records are only in a snapshot"
    with pytest.raises(UsageError, match=told):
        query(late_node, startingOffsets="99")
    reader = LiveStreamReader(options(late_node))
    with pytest.raises(UsageError, match=told):
        reader.latestOffset({"cluster": CLUSTER_ID, "offset": 99}, ReadAllAvailable())


def test_rows_of_batches(node: OneNode) -> None:
    assert query(node, "base_offset", rows="batches") == [0, 1, 3]
    assert query(node, "base_offset", rows="batches", startingOffsets="2") == [1, 3]


@pytest.mark.parametrize("tasks", [1, 2, 4, 6, 100])
def test_tasks_share_the_offsets_and_no_batch_is_there_twice(tasks: int, node: OneNode) -> None:
    assert query(node, minPartitions=str(tasks)) == list(range(6))
    assert query(node, "base_offset", rows="batches", minPartitions=str(tasks)) == [0, 1, 3]
    reader = LogReader(options(node, minPartitions=str(tasks)))
    assert len(reader.partitions()) == min(6, tasks)


@pytest.mark.parametrize(
    ("offsets", "sizes_bytes", "tasks_min", "sizes"),
    [
        ((7, 18), (0, 90), None, [6, 5]),
        ((7, 12, 17), (0, 10, 110), None, [7, 3]),
        ((7, 17), (0, 10), 6, [2, 1, 2, 2, 1, 2]),
        ((7, 10), (0, 10), 6, [1, 1, 1]),
        ((7, 9), (0, 1_000), None, [1, 1]),
        ((7, 1_007, 1_008), (0, 10, 1_000), None, [1_000, 1]),
        ((7, 1_007, 1_008), (0, 10, 1_000), 4, [250, 250, 250, 251]),
        ((7,), (0,), 3, []),
    ],
)
def test_tasks_have_about_as_many_bytes(
    offsets: tuple[int, ...],
    sizes_bytes: tuple[int, ...],
    tasks_min: int | None,
    sizes: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "TASK_SIZE_BYTES", 50)
    found = splits_of(Sizes(tuple(map(Offset, offsets)), sizes_bytes), None, tasks_min=tasks_min)
    assert sum(sizes) == offsets[-1] - 7
    assert [one.end_offset - one.start_offset for one in found] == sizes
    assert [one.is_first for one in found] == [True, *[False] * (len(sizes) - 1)][: len(sizes)]


def test_a_task_gets_fewer_compressed_bytes(node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "TASK_SIZE_BYTES", 50)
    sizes = Sizes((Offset(0), Offset(100)), (0, 100))
    assert [len(splits_of(replace(sizes, weight=weight), None)) for weight in (1, 4)] == [2, 8]
    monkeypatch.setattr(live, "TASK_SIZE_BYTES", 100)
    tasks = [len(LogReader(options(node)).partitions())]
    monkeypatch.setattr(live, "weight_of", lambda header: 2)
    tasks.append(len(LogReader(options(node)).partitions()))
    assert tasks[0] < tasks[1] <= 2 * tasks[0]


LARGE = [bytes(100_000)] * 20


@pytest.mark.parametrize("counted", [0, 2**30], ids=["estimated", "counted"])
def test_a_limit_in_bytes_limits_and_large_records_get_tasks(
    counted: int, node: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batches are tiny, and no measure of the others."""
    for value in LARGE:
        node.append(value)
    monkeypatch.setattr(live, "COUNTED_SIZE_BYTES_MAX", counted)
    monkeypatch.setattr(live, "RECORDS_PER_SAMPLE", 1)
    given = {"maxBytesPerTrigger": "350000", "rows": "batches"}
    micro_batches = list(stream(node, "batch_size", **given))
    assert sum(map(len, micro_batches)) == 23
    assert max(map(sum, micro_batches)) < (700_000 if counted == 0 else 350_001)
    assert len(micro_batches) <= 8
    monkeypatch.setattr(live, "TASK_SIZE_BYTES", 400_000)
    assert len(LogReader(options(node)).partitions()) == 5


def test_a_plan_fetches_no_more_than_single_batches(node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in LARGE:
        node.append(value)
    asked: list[int] = []
    ask = Observer._request

    def note(self: Observer, window: Window, epoch: Epoch) -> FetchRequest:
        request = ask(self, window, epoch)
        asked.append(request.size_bytes_max)
        return request

    monkeypatch.setattr(Observer, "_request", note)
    assert LogReader(options(node)).partitions()
    assert set(asked) == {1}


@pytest.mark.parametrize("rows", ["records", "batches"])
@pytest.mark.parametrize(
    ("given", "micro_batches"),
    [
        ({}, [[0, 1, 2, 3, 4, 5]]),
        ({"maxRecordsPerTrigger": "1"}, [[0], [1, 2], [3, 4, 5]]),
        ({"maxRecordsPerTrigger": "4"}, [[0, 1, 2], [3, 4, 5]]),
        ({"maxBytesPerTrigger": "1"}, [[0], [1, 2], [3, 4, 5]]),
        ({"maxRecordsPerTrigger": "4", "maxBytesPerTrigger": "1"}, [[0], [1, 2], [3, 4, 5]]),
        ({"startingOffsets": "2", "endingOffsets": "5", "maxRecordsPerTrigger": "2"}, [[2], [3, 4]]),
    ],
)
def test_a_stream_goes_on_by_whole_batches(
    rows: str, given: dict[str, str], micro_batches: list[list[int]], node: OneNode
) -> None:
    if rows == "records":
        assert list(stream(node, **given)) == micro_batches
    else:
        bases = [base for micro in stream(node, "base_offset", rows=rows, **given) for base in micro]
        assert bases == ([1, 3] if "startingOffsets" in given else [0, 1, 3])


def test_what_is_available_now_ends_where_it_ended_then(node: OneNode) -> None:
    reader = LiveStreamReader(options(node))
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    node.append(b"later")
    end = reader.latestOffset(start, ReadAllAvailable())
    last = LiveQuorum([node.endpoint])
    with last:
        before = last.batch_before(Offset(6), last.extent())
    assert end == {"cluster": CLUSTER_ID, "offset": 6, "began": 0, **before}
    assert reader.reportLatestOffset() == {"offset": 7}


def test_the_first_micro_batch_begins_where_it_began_although_spark_asks_again_after_a_kill(node: OneNode) -> None:
    """Spark writes its end down, and takes what `initialOffset` then tells for its start."""
    first = LiveStreamReader(options(node, startingOffsets="latest"))
    start = first.initialOffset()
    node.append(b"f", b"g")
    end = first.latestOffset(start, ReadAllAvailable())
    node.append(b"h")
    again = LiveStreamReader(options(node, startingOffsets="latest"))
    restarted = again.initialOffset()
    assert restarted["offset"] == 9
    assert read(again, list(again.partitions(restarted, end))) == [6, 7]
    old = {"cluster": CLUSTER_ID, "offset": 2}
    assert read(again, list(again.partitions(old, {"cluster": CLUSTER_ID, "offset": 4}))) == [2, 3]


def test_offsets_by_replica_make_no_sense_here(node: OneNode) -> None:
    for name in ("startingOffsets", "endingOffsets"):
        with pytest.raises(UsageError, match="a live quorum has one log"):
            query(node, **{name: '{"n1": 4}'})


def test_a_part_that_is_none_has_no_row(node: OneNode) -> None:
    reader = LogReader(options(node))
    assert read(reader, [InputPartition(None)]) == []
    assert read(reader, [LivePartition(Offset(3), Offset(3), None)]) == []


def test_a_killed_leader_costs_no_row_and_doubles_none(spark: SparkSession, tmp_path: Path) -> None:
    table, checkpoint = str(tmp_path / "table"), str(tmp_path / "checkpoint")
    with Children() as children:
        cluster = Cluster(children, tmp_path / "quorum", throughput=2_000, properties=QUICK)
        leader = cluster.start()
        ports = ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes.values())
        source = spark.readStream.format("pykraft").option("bootstrap.controllers", ports)
        rows = source.load().where("NOT is_control").select("offset", "epoch", "value")
        sink = rows.writeStream.format("parquet").option("path", table).option("checkpointLocation", checkpoint)
        running = sink.trigger(processingTime="200 milliseconds").start()
        cluster.journal.wait_for_acknowledged(2_000, since=cluster.journal.mark())
        mark = cluster.journal.mark()
        victim = cluster.nodes[leader.node]
        victim.process.kill()
        cluster.journal.wait_for_acknowledged(2_000, since=mark, except_by=leader.node)
        victim.start()
        running.stop()
        assert running.exception() is None
        sink.trigger(availableNow=True).start().awaitTermination()
        acknowledged = cluster.journal.acknowledgements()
    found = spark.read.parquet(table).select("offset", "epoch").collect()
    epochs = {row["offset"]: row["epoch"] for row in found}
    assert len(epochs) == len(found)
    promised = {one.base_offset + at: one.epoch for one in acknowledged for at in range(one.count)}
    last_offset = max(epochs)
    assert {offset: epoch for offset, epoch in promised.items() if offset <= last_offset}.items() <= epochs.items()
    assert len({one.epoch for one in acknowledged}) > 1


def moved(start: dict[str, Any], reader: LiveStreamReader) -> tuple[dict[str, Any], list[int]]:
    """The end of a micro-batch that begins there, as Spark's checkpoint has it, and its offsets."""
    end = json.loads(json.dumps(reader.latestOffset(start, ReadAllAvailable())))
    return end, read(reader, list(reader.partitions(start, end)))


@pytest.fixture
def others() -> Iterator[list[OneNode]]:
    made: list[OneNode] = []
    yield made
    for one in made:
        one.stop()


@pytest.mark.parametrize(("count", "problem"), [(2, "the log ends at 3"), (20, "the batch before it has")])
def test_a_quorum_that_was_wiped_under_the_same_id_is_an_error_with_the_way_out(
    count: int, problem: str, node: OneNode, others: list[OneNode], tmp_path: Path
) -> None:
    reader = LiveStreamReader(options(node))
    first = reader.initialOffset()
    start, found = moved(first, reader)
    assert found == list(range(6))
    node.append(b"f")
    end, found = moved(start, reader)
    assert found == [6]
    others.append(OneNode(tmp_path / "wiped"))
    for number in range(count):
        others[0].append(b"new %d" % number)
    again = LiveStreamReader(options(others[0]))
    told = f"another log than the one that was read up to offset 7: {problem}.*new checkpointLocation"
    with pytest.raises(UsageError, match=told):
        again.latestOffset(end, ReadAllAvailable())
    for begin in (first, start):
        with pytest.raises(UsageError, match=told):
            again.partitions(begin, end)
    lenient = LiveStreamReader(options(others[0], failOnDataLoss="false"))
    assert list(lenient.partitions(start, end)) == []
    assert moved(end, lenient)[1] == list(range(1 + count))


def test_a_restored_quorum_goes_on_until_it_has_other_records(
    node: OneNode, others: list[OneNode], tmp_path: Path
) -> None:
    start, _ = moved(LiveStreamReader(options(node)).initialOffset(), LiveStreamReader(options(node)))
    node.stop()
    shutil.copytree(tmp_path / "n1", tmp_path / "copy" / "n1")
    others += [OneNode(tmp_path), OneNode(tmp_path / "copy")]
    one, other = others
    for each in others:
        end, found = moved(start, LiveStreamReader(options(each)))
        assert found == [6], "the new leader's own"
    one.append(b"one")
    end, found = moved(start, LiveStreamReader(options(one)))
    assert found == [6, 7]
    other.append(b"other")
    with pytest.raises(UsageError, match="another log than the one that was read up to offset 8"):
        moved(end, LiveStreamReader(options(other)))


def test_an_old_checkpoint_is_taken_over(node: OneNode) -> None:
    reader = LiveStreamReader(options(node))
    end, found = moved({"cluster": None, "offset": 3, "began": 0}, reader)
    assert found == [3, 4, 5]
    assert end["cluster"] == CLUSTER_ID
    assert {"epoch", "crc"} <= end.keys()
    assert reader.latestOffset({"cluster": CLUSTER_ID, "offset": 6}, ReadAllAvailable()) == {
        "cluster": CLUSTER_ID,
        "offset": 6,
    }


def test_before_spark_4_2_a_stream_goes_on_without_being_given_a_start(node: OneNode) -> None:
    reader = LiveStreamReader(options(node, maxRecordsPerTrigger="1"))
    start = reader.initialOffset()
    end = reader.latestOffset()
    assert read(reader, list(reader.partitions(start, end))) == list(range(6))
    assert end["began"] == 0
    node.append(b"f")
    again = LiveStreamReader(options(node))
    then = again.latestOffset()
    assert read(again, list(again.partitions(end, then))) == [6]
    assert again.latestOffset() == then


@pytest.mark.parametrize("of_stream", [False, True])
def test_a_start_above_the_end_is_an_error(of_stream: bool, node: OneNode) -> None:
    def start(**given: str) -> object:
        if of_stream:
            return LiveStreamReader(options(node, startingOffsets="7", **given)).initialOffset()["offset"]
        return query(node, startingOffsets="7", **given)

    with pytest.raises(UsageError, match="offset 7 is above the end of the log, whose committed records end at 6"):
        start()
    assert start(failOnDataLoss="false") == (6 if of_stream else [])
    assert query(node, startingOffsets="6") == []


def test_an_end_above_the_high_watermark_is_the_end_of_what_is_there(node: OneNode) -> None:
    """A query over files returns what is there, too."""
    assert query(node, startingOffsets="4", endingOffsets="100") == [4, 5]
    with pytest.raises(UsageError, match="read up to offset 100: the log ends at 6"):
        read(LogReader(options(node)), [LivePartition(Offset(4), Offset(100), None)])


def test_a_stream_keeps_its_connection(node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = counted_connections(monkeypatch)
    reader = LiveStreamReader(options(node))
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    for _ in range(2):
        reader.reportLatestOffset()
        assert reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    assert len(opened) == 2, "the second one with the cluster id"
    assert pickle.dumps(reader), "tasks get it"


def test_the_topic_is_that_of_the_directory(node: OneNode, tmp_path: Path) -> None:
    (directory,) = (tmp_path / "n1").glob("*-0")
    files = LogReader(parse_options({"path": str(directory), "columns": "kafka"}))
    topics = set(read(files, list(files.partitions()), "topic"))
    assert topics == {directory.name.removesuffix("-0")}
    assert set(query(node, "topic", columns="kafka")) == topics
    assert {row for rows in stream(node, "topic", columns="kafka") for row in rows} == topics


def test_a_checkpoint_of_another_quorum_is_refused(spark: SparkSession, node: OneNode, tmp_path: Path) -> None:
    def run(endpoint: object) -> None:
        source = spark.readStream.format("pykraft").option("bootstrap.controllers", str(endpoint))
        sink = source.load().writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        sink.trigger(availableNow=True).start().awaitTermination()

    run(node.endpoint)
    other = OneNode(tmp_path / "other", cluster_id="another-cluster")
    try:
        with pytest.raises(StreamingQueryException, match=f"another cluster than {CLUSTER_ID}"):
            run(other.endpoint)
    finally:
        other.stop()
