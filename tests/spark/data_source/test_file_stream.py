"""Log directories as a stream: new records, limits, restarts, and checkpoints of another log."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from pykraft.errors import CorruptionError, TruncatedLogError, UsageError
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.meta import MetaProperties, encode_meta
from pykraft.log.small_files.recovery_point import RecoveryPoint
from pykraft.protocol.batch import read_header
from pykraft.spark.data_source.file_stream import FilesStreamReader
from pykraft.spark.data_source.options import parse_options
from pykraft.types import NodeId, Offset, uuid_parse
from tests.spark.logs import EPOCH, START_MS, batch, write_segment

pytestmark = pytest.mark.spark


def batches(count: int, *, first: int = 0, epoch: int = EPOCH) -> bytes:
    """Batches of two records, each ten ms after the one before."""
    return b"".join(
        batch([b"a%d" % index, b"b%d" % index], base_offset=2 * index, timestamp_ms=START_MS + 10 * index, epoch=epoch)
        for index in range(first, first + count)
    )


SIZE_BYTES = len(batches(1))


def reader(folder: Path, **options: str) -> FilesStreamReader:
    return FilesStreamReader(parse_options({"path": f"{folder}/n*/p-0"} | options))


def read(made: FilesStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, int]]:
    """Replica and offset of the rows between two offsets of the stream, which travel as a checkpoint's do."""
    start, end = json.loads(json.dumps(start)), json.loads(json.dumps(end))
    found: list[tuple[str, int]] = []
    for partition in made.partitions(start, end):
        for group in made.read(partition):
            found += [(row["replica"], row["offset"]) for row in group.select(["replica", "offset"]).to_pylist()]
    return found


def run(made: FilesStreamReader, start: dict[str, Any]) -> Iterator[list[tuple[str, int]]]:
    """Micro-batch after micro-batch until nothing is new."""
    while True:
        end = made.latestOffset(start, made.getDefaultReadLimit())
        if end == start:
            return
        yield read(made, start, end)
        start = end


def rows(replica: str, *offsets: int) -> list[tuple[str, int]]:
    return [(replica, offset) for offset in offsets]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two replicas: offsets 0 to 5 and 0 to 3."""
    write_segment(tmp_path / "n1" / "p-0", batches(3))
    write_segment(tmp_path / "n2" / "p-0", batches(2))
    return tmp_path


def test_each_micro_batch_is_what_is_new(folder: Path) -> None:
    made = reader(folder)
    start = made.initialOffset()
    end = made.latestOffset(start, ReadAllAvailable())
    assert read(made, start, end) == rows("n1", *range(6)) + rows("n2", *range(4))
    assert made.latestOffset(end, ReadAllAvailable()) == end
    assert read(made, end, end) == []
    write_segment(folder / "n2" / "p-0", batches(2, first=2), base_offset=4)
    then = made.latestOffset(end, ReadAllAvailable())
    assert read(made, end, then) == rows("n2", 4, 5, 6, 7)
    ends = {"n1": {"offset": 6}, "n2": {"offset": 8}}
    assert made.reportLatestOffset() == {"cluster": None, "replicas": ends}


def test_a_repeated_micro_batch_is_the_same_also_after_a_restart(folder: Path) -> None:
    first = reader(folder)
    start = first.initialOffset()
    middle = first.latestOffset(start, ReadMaxRows(4))
    end = first.latestOffset(middle, ReadAllAvailable())
    write_segment(folder / "n1" / "p-0", batches(1, first=3), base_offset=6)
    for made in (first, reader(folder)):
        assert read(made, start, middle) == rows("n1", 0, 1) + rows("n2", 0, 1)
        assert read(made, middle, end) == rows("n1", 2, 3, 4, 5) + rows("n2", 2, 3)


def checkpoint_of_old(folder: Path, **ends: int) -> dict[str, Any]:
    """One of a version that had only names: of each replica the offset up to which it was read."""
    replicas = {}
    for name, end in ends.items():
        crc = read_header(batches(1, first=end // 2 - 1)).crc
        replicas[name] = {"offset": end, "began": 0, "epoch": EPOCH, "crc": crc}
    return {"cluster": None, "replicas": replicas}


def test_a_checkpoint_of_a_version_that_knew_names_only_goes_on(folder: Path) -> None:
    known = checkpoint_of_old(folder, n2=4, n1=6)
    assert json.dumps(reader(folder).latestOffset(known, ReadAllAvailable())) == json.dumps(known), "no micro-batch"
    write_segment(folder / "n2" / "p-0", batches(2, first=2), base_offset=4)
    assert list(run(reader(folder), known)) == [rows("n2", *range(4, 8))]
    end = reader(folder).latestOffset(known, ReadAllAvailable())
    assert end["replicas"]["n2"]["path"] == str(folder / "n2" / "p-0")


def test_an_old_name_is_found_in_the_path_whatever_others_there_are_now(folder: Path) -> None:
    """With one directory the name was that of the folder around it: n1. Now it is kraft."""
    for name in ("x/n1/kraft", "x/n3/kraft"):
        write_segment(folder / name / "p-0", batches(3))
    one = FilesStreamReader(parse_options({"path": f"{folder}/x/n*/kraft/p-0"}))
    assert list(run(one, checkpoint_of_old(folder, n1=4))) == [rows("n1", 4, 5) + rows("n3", *range(6))]
    with pytest.raises(UsageError, match=r"an older pykraft names a replica kraft, which may be .*/n1/.* or .*/n3/"):
        list(run(one, checkpoint_of_old(folder, kraft=4)))


def test_directories_come_and_go_and_none_is_read_twice(tmp_path: Path) -> None:
    def source() -> FilesStreamReader:
        return FilesStreamReader(parse_options({"path": f"{tmp_path}/n*/kraft/p-0"}))

    def add(node: str, first: int, count: int) -> None:
        write_segment(tmp_path / node / "kraft" / "p-0", batches(count, first=first), base_offset=2 * first)

    add("n1", 0, 3)
    position = source().initialOffset()
    found: list[tuple[str, int]] = []

    def go_on() -> None:
        nonlocal position
        made = source()
        position = json.loads(json.dumps(position))
        found.clear()
        while (end := made.latestOffset(position, ReadMaxRows(4))) != position:
            found.extend(read(source(), position, end))
            position = end

    go_on()
    assert found == rows("kraft", *range(6)), "the name of the moment, which stays"
    add("n2", 0, 2)
    add("n1", 3, 1)
    go_on()
    assert sorted(found) == rows("kraft", 6, 7) + rows("n2", *range(4))
    shutil.move(tmp_path / "n1", tmp_path / "gone")
    add("n3", 0, 1)
    go_on()
    assert found == rows("n3", 0, 1)
    shutil.move(tmp_path / "gone", tmp_path / "n1")
    add("n1", 4, 1)
    made = source()
    go_on()
    assert found == rows("kraft", 8, 9)
    made.latestOffset(position, ReadAllAvailable())
    assert made.reportLatestOffset()["replicas"].keys() == {"kraft", "n2", "n3"}  # type: ignore[index]


def test_a_directory_that_was_moved_is_known_by_its_id(folder: Path) -> None:
    own(folder, "n1", "one", "A" * 21 + "w")
    own(folder, "n2", "one", "B" * 21 + "w")
    made = reader(folder)
    end = made.latestOffset(made.initialOffset(), ReadAllAvailable())
    for old, new in (("n1", "n"), ("n2", "n1"), ("n", "n2")):
        (folder / old).rename(folder / new)
    write_segment(folder / "n2" / "p-0", batches(1, first=3), base_offset=6)
    assert list(run(reader(folder), json.loads(json.dumps(end)))) == [rows("n1", 6, 7)]


def test_a_directory_that_was_formatted_anew_goes_on_if_it_has_the_same_log(folder: Path) -> None:
    own(folder, "n1", "one", "A" * 21 + "w")
    made = reader(folder)
    end = made.latestOffset(made.initialOffset(), ReadAllAvailable())
    own(folder, "n1", "one", "B" * 21 + "w")
    write_segment(folder / "n1" / "p-0", batches(1, first=3), base_offset=6)
    assert list(run(reader(folder), json.loads(json.dumps(end)))) == [rows("n1", 6, 7)]
    for other in (batches(1), batches(4, epoch=EPOCH + 1)):
        shutil.rmtree(folder / "n1" / "p-0")
        write_segment(folder / "n1" / "p-0", other)
        with pytest.raises(UsageError, match="the log was cut back below offset 6"):
            reader(folder).latestOffset(end, ReadAllAvailable())
    del end["replicas"]["n1"]["crc"]
    with pytest.raises(UsageError, match="the log was cut back below offset 6"):
        reader(folder).latestOffset(end, ReadAllAvailable())


def test_a_copy_of_a_directory_is_another_replica(folder: Path) -> None:
    own(folder, "n1", "one", "A" * 21 + "w")
    made = reader(folder)
    end = made.latestOffset(made.initialOffset(), ReadAllAvailable())
    shutil.copytree(folder / "n1", folder / "n3")
    assert list(run(reader(folder), json.loads(json.dumps(end)))) == [rows("n3", *range(6))]


def test_a_position_above_the_end_is_refused_and_not_waited_for(folder: Path) -> None:
    position = {"offset": 9, "began": 0, "path": str(folder / "n1" / "p-0")}
    with pytest.raises(UsageError, match="the log was cut back below offset 9"):
        reader(folder).latestOffset({"cluster": None, "replicas": {"n1": position}}, ReadAllAvailable())


def test_before_spark_4_2_a_stream_goes_on_without_being_given_a_start(folder: Path) -> None:
    """Directories that appear rename the others in the end of a restarted query alone."""
    made = reader(folder, maxRecordsPerTrigger="1")
    start = json.loads(json.dumps(made.initialOffset()))
    end = json.loads(json.dumps(made.latestOffset()))
    assert read(made, start, end) == rows("n1", *range(6)) + rows("n2", *range(4)), "no limit"
    assert made.latestOffset() == end
    shutil.rmtree(folder / "n2")
    write_segment(folder / "n1" / "p-0", batches(1, first=3), base_offset=6)
    write_segment(folder / "n1" / "x" / "p-0", batches(1))
    again = FilesStreamReader(parse_options({"path": f"{folder}/n1/p-0,{folder}/n1/x/p-0"}))
    then = json.loads(json.dumps(again.latestOffset()))
    assert [offset for _, offset in read(again, end, then)] == [6, 7, 0, 1]
    (folder / "n1" / "p-0" / f"{6:020d}.log").unlink()
    shorter = reader(folder).latestOffset()
    with pytest.raises(TruncatedLogError, match="the log was cut back below offset 8"):
        reader(folder).partitions(then, shorter)


def test_a_start_above_the_end_is_an_error_unless_another_replica_has_it(folder: Path) -> None:
    made = reader(folder, startingOffsets="6")
    start = made.initialOffset()
    write_segment(folder / "n2" / "p-0", batches(2, first=2), base_offset=4)
    assert list(run(made, start)) == [rows("n2", 6, 7)], "it was behind"
    for option in ("9", '{"n1": 7}', json.dumps({str(folder / "n1" / "p-0"): 7})):
        with pytest.raises(UsageError, match="is above the end of the log, 6: start at latest"):
            reader(folder, startingOffsets=option).initialOffset()
    assert reader(folder, startingOffsets="9", failOnDataLoss="false").initialOffset()


def test_limits_are_shared_by_the_replicas_and_let_one_batch_through(folder: Path) -> None:
    assert reader(folder).getDefaultReadLimit() == ReadMaxBytes(1024**3)
    assert reader(folder, maxRecordsPerTrigger="5").getDefaultReadLimit() == ReadMaxRows(5)
    assert reader(folder, maxBytesPerTrigger="7").getDefaultReadLimit() == ReadMaxBytes(7)
    for options in (
        {"maxRecordsPerTrigger": "4"},
        {"maxBytesPerTrigger": str(2 * SIZE_BYTES + 1)},
        {"maxRecordsPerTrigger": "100", "maxBytesPerTrigger": "1"},
    ):
        made = reader(folder, **options)
        assert list(run(made, made.initialOffset())) == [
            rows("n1", 0, 1) + rows("n2", 0, 1),
            rows("n1", 2, 3) + rows("n2", 2, 3),
            rows("n1", 4, 5),
        ]


def test_bounds_hold_within_a_batch(folder: Path) -> None:
    made = reader(folder, startingOffsets="1", endingOffsets='{"n1": 5, "n2": 2}', maxRecordsPerTrigger="4")
    assert list(run(made, made.initialOffset())) == [rows("n1", 1) + rows("n2", 1), rows("n1", 2, 3), rows("n1", 4)]
    latest = reader(folder, startingOffsets="latest")
    assert list(run(latest, latest.initialOffset())) == []


def test_what_is_available_now_ends_where_it_ended_then(folder: Path) -> None:
    made = reader(folder)
    made.prepareForTriggerAvailableNow()
    write_segment(folder / "n1" / "p-0", batches(1, first=3), base_offset=6)
    found = [row for micro in run(made, made.initialOffset()) for row in micro]
    assert found == rows("n1", *range(6)) + rows("n2", *range(4))


def test_a_stream_waits_for_what_is_committed(folder: Path) -> None:
    """It never has to go back: a record that was not committed is not read."""
    for name in ("n1", "n2"):
        RecoveryPoint.create(OsFs(), folder / name / "p-0", Offset(4)).close()
    point = RecoveryPoint.open(OsFs(), folder / "n1" / "p-0")
    assert point is not None
    made = reader(folder, endingOffsets="committed")
    start = made.initialOffset()
    assert list(run(made, start)) == []
    point.raise_to(Offset(6), Offset(2))
    assert list(run(made, start)) == [rows("n1", 0, 1)]
    end = made.latestOffset(start, made.getDefaultReadLimit())
    point.lower_to(Offset(2))
    write_segment(folder / "n1" / "p-0", batches(1) + batches(3, first=1, epoch=EPOCH + 1))
    point.raise_to(Offset(8), Offset(8))
    assert list(run(made, end)) == [rows("n1", *range(2, 8))]
    point.close()


def test_a_replica_that_comes_later_is_read_from_its_start(folder: Path) -> None:
    made = reader(folder)
    start = made.initialOffset()
    end = made.latestOffset(start, ReadAllAvailable())
    write_segment(folder / "n3" / "p-0", batches(1))
    then = made.latestOffset(end, ReadAllAvailable())
    assert read(made, end, then) == rows("n3", 0, 1)


def test_the_first_micro_batch_begins_where_it_began_although_spark_asks_again_after_a_kill(folder: Path) -> None:
    """Spark writes its end down, and takes what `initialOffset` then tells for its start."""
    first = reader(folder, startingOffsets="latest")
    start = first.initialOffset()
    write_segment(folder / "n1" / "p-0", batches(1, first=3), base_offset=6)
    end = first.latestOffset(start, ReadAllAvailable())
    write_segment(folder / "n1" / "p-0", batches(1, first=4), base_offset=8)
    write_segment(folder / "n3" / "p-0", batches(1))
    again = reader(folder, startingOffsets="latest")
    assert read(again, again.initialOffset(), end) == read(first, start, end) == rows("n1", 6, 7)
    then = again.latestOffset(end, ReadAllAvailable())
    assert read(again, end, then) == rows("n1", 8, 9)


def test_a_checkpoint_that_does_not_know_where_its_stream_began_goes_on(folder: Path) -> None:
    made = reader(folder)
    start = {"cluster": None, "replicas": {"n1": {"offset": 2}}}
    end = made.latestOffset(start, ReadAllAvailable())
    assert end["replicas"]["n1"].keys() == {"path", "offset", "epoch", "crc"}
    assert read(made, start, end) == rows("n1", *range(2, 6)) + rows("n2", *range(4))


def test_a_log_that_was_cut_back_is_refused(folder: Path) -> None:
    made = reader(folder)
    end = made.latestOffset(made.initialOffset(), ReadAllAvailable())
    write_segment(folder / "n1" / "p-0", batches(2) + batches(1, first=2, epoch=EPOCH + 1))
    with pytest.raises(UsageError, match="the log was cut back below offset 6"):
        reader(folder).latestOffset(json.loads(json.dumps(end)), ReadAllAvailable())


@pytest.mark.parametrize("more", [0, 2], ids=["as long", "grown"])
def test_a_log_that_was_cut_back_between_two_micro_batches_is_refused_by_the_same_reader(
    more: int, folder: Path
) -> None:
    """What was written anew ends where the old did, so that the next batch stands in its position."""
    made = reader(folder)
    end = made.latestOffset(made.initialOffset(), ReadAllAvailable())
    write_segment(folder / "n1" / "p-0", batches(2) + batches(1 + more, first=2, epoch=EPOCH + 1))
    with pytest.raises(UsageError, match="the log was cut back below offset 6"):
        made.latestOffset(end, ReadAllAvailable())


@pytest.mark.parametrize("now", [batches(2), batches(2) + batches(1, first=2, epoch=EPOCH + 1), batches(1, first=3)])
def test_a_micro_batch_is_not_read_from_a_log_that_was_cut_back_below_its_end(now: bytes, folder: Path) -> None:
    for made in (reader(folder), reader(folder)):
        write_segment(folder / "n1" / "p-0", batches(3))
        start = made.initialOffset()
        end = made.latestOffset(start, ReadAllAvailable())
        write_segment(folder / "n1" / "p-0", now)
        for one in (made, reader(folder)):
            with pytest.raises((UsageError, CorruptionError)):
                one.partitions(start, end)


def test_a_stream_goes_on_before_the_cut_of_a_truncated_log(folder: Path) -> None:
    """Also if it is cut again before the micro-batch is read, and if nothing follows yet."""
    made = reader(folder, onTruncation="repair", maxRecordsPerTrigger="4")
    position = made.initialOffset()
    while (end := made.latestOffset(position, ReadMaxRows(4))) != position:
        position = json.loads(json.dumps(end))
    assert [mark[0] for mark in position["replicas"]["n1"]["marks"]] == [0, 2, 4]
    write_segment(folder / "n1" / "p-0", batches(1))
    cut = made.latestOffset(position, ReadAllAvailable())
    assert (cut["replicas"]["n1"]["offset"], cut["replicas"]["n1"]["cut"]) == (2, 2)
    assert read(made, position, cut) == []
    assert reader(folder, onTruncation="repair").latestOffset(cut, ReadAllAvailable()) == cut
    write_segment(folder / "n1" / "p-0", batches(1) + batches(2, first=1, epoch=EPOCH + 1))
    end = reader(folder, onTruncation="repair").latestOffset(position, ReadAllAvailable())
    assert (end["replicas"]["n1"]["offset"], end["replicas"]["n1"]["cut"]) == (6, 2)
    assert read(reader(folder, onTruncation="repair"), position, end) == rows("n1", 2, 3, 4, 5)
    write_segment(folder / "n1" / "p-0", batches(1) + batches(3, first=1, epoch=EPOCH + 2))
    assert read(reader(folder, onTruncation="repair"), position, end) == [], "void anyway"
    again = reader(folder, onTruncation="repair").latestOffset(json.loads(json.dumps(end)), ReadAllAvailable())
    assert (again["replicas"]["n1"]["offset"], again["replicas"]["n1"]["cut"]) == (8, 2)
    assert read(reader(folder, onTruncation="repair"), end, again) == rows("n1", 2, 3, 4, 5, 6, 7)
    write_segment(folder / "n1" / "p-0", batches(5, epoch=EPOCH + 4))
    everything = made.latestOffset(again, ReadAllAvailable())
    assert everything["replicas"]["n1"]["cut"] == 0
    del again["replicas"]["n1"]["marks"]
    with pytest.raises(TruncatedLogError, match=r"the log was cut back below offset 8.*onTruncation = repair"):
        made.latestOffset(again, ReadAllAvailable())


def test_a_segment_that_was_read_to_its_end_may_vanish(folder: Path) -> None:
    made = reader(folder)
    end = made.latestOffset(made.initialOffset(), ReadAllAvailable())
    (old,) = (folder / "n1" / "p-0").iterdir()
    write_segment(folder / "n1" / "p-0", batches(2, first=3), base_offset=6)
    old.unlink()
    for one in (made, reader(folder)):
        then = one.latestOffset(end, ReadAllAvailable())
        assert read(one, end, then) == rows("n1", 6, 7, 8, 9)
    assert made.reportLatestOffset()["replicas"]["n1"] == {"offset": 10}  # type: ignore[index]


def test_a_live_directory_is_followed_while_it_fills_its_space_rolls_and_deletes(folder: Path) -> None:
    """Space that a node took beforehand is zeros until it writes there, and given back when the segment is done."""
    partition, space = folder / "n1" / "p-0", bytes(4_096)
    steps: list[tuple[dict[int, bytes], list[int]]] = [
        ({0: batches(2) + space}, [0, 1, 2, 3]),
        ({0: batches(3) + space}, [4, 5]),
        ({0: batches(3) + batches(1, first=3)[:60] + space}, []),
        ({0: batches(4), 8: space}, [6, 7]),
        ({8: batches(1, first=4) + space}, [8, 9]),
        ({8: batches(2, first=4), 12: batches(1, first=6) + space}, [10, 11, 12, 13]),
        ({12: batches(2, first=6) + space}, [14, 15]),
    ]
    made = reader(folder)
    start = made.initialOffset()
    for index, (segments, new) in enumerate(steps):
        for old in partition.iterdir():
            old.unlink()
        for base_offset, data in segments.items():
            write_segment(partition, data, base_offset=base_offset)
        end = made.latestOffset(start, ReadAllAvailable())
        told = rows("n1", *new) + (rows("n2", *range(4)) if index == 0 else [])
        assert read(made, start, end) == read(reader(folder), start, end) == told
        start = end


def test_a_segment_that_was_not_read_yet_and_vanished_is_told(folder: Path) -> None:
    made = reader(folder)
    start = made.initialOffset()
    end = made.latestOffset(start, ReadMaxRows(4))
    (old,) = (folder / "n1" / "p-0").iterdir()
    write_segment(folder / "n1" / "p-0", batches(2, first=3), base_offset=6)
    old.unlink()
    for one in (made, reader(folder)):
        with pytest.raises(UsageError, match="offset 2 is no longer there, the log begins at 6"):
            one.latestOffset(end, ReadAllAvailable())


def own(folder: Path, replica: str, cluster_id: str, directory_id: str | None = None) -> None:
    own_id = None if directory_id is None else uuid_parse(directory_id)
    meta = MetaProperties(node_id=NodeId(1), cluster_id=cluster_id, directory_id=own_id)
    (folder / replica / "meta.properties").write_bytes(encode_meta(meta))


def test_a_checkpoint_of_another_quorum_is_refused(folder: Path) -> None:
    own(folder, "n1", "one")
    start = reader(folder).initialOffset()
    assert start["cluster"] == "one"
    assert reader(folder).latestOffset(start, ReadAllAvailable())["cluster"] == "one"
    own(folder, "n1", "two")
    with pytest.raises(UsageError, match="a stream of cluster one, and these are the logs of two"):
        reader(folder).latestOffset(start, ReadAllAvailable())
    own(folder, "n2", "three")
    with pytest.raises(UsageError, match="logs of several clusters: three, two"):
        reader(folder).initialOffset()


def test_a_query_goes_on_where_it_was_and_refuses_the_logs_of_another(folder: Path, spark: SparkSession) -> None:
    own(folder, "n1", "one")
    source = spark.readStream.format("pykraft").option("path", f"{folder}/n*/p-0").option("maxRecordsPerTrigger", "4")
    sink = (
        source.load()
        .select("replica", "offset")
        .writeStream.format("parquet")
        .option("path", str(folder / "table"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
    )
    sink.start().awaitTermination()
    write_segment(folder / "n1" / "p-0", batches(2, first=3), base_offset=6)
    sink.start().awaitTermination()
    found = [tuple(row) for row in spark.read.parquet(str(folder / "table")).orderBy("replica", "offset").collect()]
    assert found == rows("n1", *range(10)) + rows("n2", *range(4))
    own(folder, "n1", "two")
    with pytest.raises(StreamingQueryException, match="the checkpoint is that of a stream of cluster one"):
        sink.start().awaitTermination()
