"""Directories of real Kafka and a live quorum: the image at a moment is that of Kafka's snapshots."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykraft.errors import CorruptionError, ProtocolError, UsageError
from pykraft.local.voters import PARTITION
from pykraft.log.os_fs import OsFs
from pykraft.snapshot.files import list_snapshots
from pykraft.spark.data_source.file_plan import find_replicas
from pykraft.spark.metadata.directory import (
    NOW,
    Moment,
    furthest,
    log_records,
    newest_within,
    oldest_from,
    parse_moment,
    read_live,
    records_until,
    snapshot_records,
)
from pykraft.spark.metadata.image import LoggedRecord, MetadataImage
from pykraft.spark.metadata.tables import differences
from pykraft.types import Offset
from tests.cli.test_dump import sections
from tests.snapshot.snapshots import id_of, write
from tests.spark.logs import START_MS, batch, write_segment
from tests.spark.metadata.made import GOLDEN, change, image_of, partition, topic, value
from tests.spark.quorum_of_one import OneNode

STATIC = GOLDEN / "static" / "disk"
METADATA_PARTITION = "__cluster_metadata-0"
WHOLE_LOGS = [STATIC / f"n{node}" for node in (1, 2, 3, 4)] + [
    GOLDEN / "dynamic" / "disk" / f"n{node}" for node in (1, 2)
]


def folder(node: Path) -> Path:
    return node / "data" / METADATA_PARTITION


def snapshots() -> Iterator[Any]:
    for node in WHOLE_LOGS:
        for snapshot_id in list_snapshots(OsFs(), folder(node)):
            if snapshot_id.offset:
                name = "-".join((*node.relative_to(GOLDEN).parts, str(snapshot_id.offset)))
                yield pytest.param(folder(node), snapshot_id.offset, id=name)


@pytest.mark.parametrize(("directory", "end_offset"), list(snapshots()))
def test_the_image_of_the_log_is_that_of_kafkas_snapshot(directory: Path, end_offset: Offset) -> None:
    moment = Moment(end_offset=end_offset)
    (replica,) = find_replicas([str(directory)])
    from_log = image_of(log_records(replica, Offset(0), moment))
    from_snapshot = image_of(records_until(directory, moment))
    assert from_snapshot.end_offset == end_offset
    assert {entry.changed.offset for entry in from_snapshot.topics.values()} <= {None}
    assert from_log.partitions or from_log.brokers
    assert list(differences(from_log, from_snapshot)) == []


@pytest.mark.parametrize("recording", ["static", "dynamic"])
def test_records_are_kafkas_json_one_by_one(recording: str) -> None:
    node = GOLDEN / recording / "disk" / "n1"
    dumped = sections((GOLDEN / recording / "dump" / "n1-decoded.txt").read_text())
    lines = [line for name, lines in dumped.items() if name.endswith(".log") for line in lines]
    payloads = [json.loads(line.partition(" payload: ")[2]) for line in lines if " payload: {" in line]
    (replica,) = find_replicas([str(folder(node))])
    found = list(log_records(replica, Offset(0), NOW))
    assert len(found) > 100
    assert [each.record.json() for each in found] == payloads


def test_a_time_ends_the_log_where_it_was_then() -> None:
    """Offset 24 was appended at ...34.840, with the topic t1; offset 26 is 44 ms younger."""
    for wall_ms, topics in ((1795230034839, 0), (1795230034840, 1), (1795230041606, 1), (1795230041607, 2)):
        found = image_of(records_until(folder(STATIC / "n1"), Moment(wall_ms=wall_ms)))
        assert len(found.topics) == topics, wall_ms
    assert image_of(records_until(folder(STATIC / "n1"), Moment(wall_ms=0))).brokers == {}


def test_a_cleaned_log_needs_a_snapshot_that_is_old_enough() -> None:
    cleaned = folder(GOLDEN / "dynamic" / "disk" / "n3")
    whole = folder(GOLDEN / "dynamic" / "disk" / "n1")
    for moment in (Moment(end_offset=Offset(50)), Moment(end_offset=Offset(106)), Moment(wall_ms=0)):
        with pytest.raises(UsageError, match="the log begins at offset 93, and no snapshot is old enough"):
            list(records_until(cleaned, moment))
    for end_offset in (107, 130, 163):
        moment = Moment(end_offset=Offset(end_offset))
        images = [image_of(records_until(directory, moment)) for directory in (cleaned, whole)]
        assert list(differences(*images)) == []


def test_an_offset_after_the_end_is_refused() -> None:
    with pytest.raises(UsageError, match="the log ends at offset 158, before offset 159"):
        list(records_until(folder(STATIC / "n1"), Moment(end_offset=Offset(159))))


def test_a_history_begins_as_early_as_it_can() -> None:
    early = next(records_until(folder(STATIC / "n1"), NOW, is_history=True))
    assert early.offset == 1
    cleaned = next(records_until(folder(GOLDEN / "dynamic" / "disk" / "n3"), NOW, is_history=True))
    assert (cleaned.offset, cleaned.end_offset) == (None, 107)


def test_of_several_directories_the_furthest_is_read(tmp_path: Path) -> None:
    for name, records in (("n1", [topic()]), ("n2", [topic(), partition()])):
        write_segment(tmp_path / name / METADATA_PARTITION, batch([value(each) for each in records], base_offset=0))
    assert furthest([tmp_path / "n1", tmp_path / "n2" / METADATA_PARTITION]) == tmp_path / "n2" / METADATA_PARTITION
    with pytest.raises(UsageError, match="no segment files"):
        furthest([tmp_path])


def image(directory: Path, moment: Moment = NOW) -> MetadataImage:
    return image_of(records_until(directory, moment))


def test_bytes_that_are_not_a_log_of_kafkas_controllers_are_refused(tmp_path: Path) -> None:
    directory = tmp_path / METADATA_PARTITION
    segment = write_segment(directory, batch([b"hello"], base_offset=0))
    with pytest.raises(ProtocolError, match="offset 0: not a metadata record that can be read"):
        image(directory)
    shutil.rmtree(directory)
    whole = batch([value(topic())], base_offset=0) + batch([value(change())], base_offset=1)
    flipped = whole[:70] + bytes([whole[70] ^ 1]) + whole[71:]
    write_segment(directory, flipped)
    with pytest.raises(CorruptionError, match=f"{segment}: at position 0: expected a valid batch"):
        image(directory)


def test_a_directory_that_begins_within_a_batch_counts_from_its_snapshot(tmp_path: Path) -> None:
    """The records of a batch below the wanted offset are in the snapshot already."""
    directory = tmp_path / METADATA_PARTITION
    values = [value(each) for each in (topic(), partition(), change(leader=2))]
    write_segment(directory, batch(values, base_offset=0, timestamp_ms=START_MS))
    (replica,) = find_replicas([str(directory)])
    assert [each.offset for each in log_records(replica, Offset(1), NOW)] == [1, 2]
    assert [each.offset for each in log_records(replica, Offset(3), NOW)] == []


DIRECTORY = GOLDEN / "dynamic" / "disk" / "n1" / "data" / "__cluster_metadata-0"


@pytest.mark.parametrize(
    ("moment", "end_offset"),
    [
        (NOW, 161),
        (Moment(end_offset=Offset(161)), 161),
        (Moment(end_offset=Offset(160)), 123),
        (Moment(end_offset=Offset(30)), 30),
        (Moment(end_offset=Offset(29)), None),
        (Moment(wall_ms=0), None),
    ],
)
def test_the_newest_that_a_moment_allows(moment: Moment, end_offset: int | None) -> None:
    found = newest_within(OsFs(), DIRECTORY, moment)
    assert (None if found is None else found.offset) == end_offset


def test_a_time_allows_what_a_snapshot_contains() -> None:
    newest = newest_within(OsFs(), DIRECTORY, NOW)
    assert newest is not None
    wall_ms = next(snapshot_records(OsFs(), DIRECTORY, newest)).timestamp_ms
    assert newest_within(OsFs(), DIRECTORY, Moment(wall_ms=wall_ms)) == newest
    before = newest_within(OsFs(), DIRECTORY, Moment(wall_ms=wall_ms - 1))
    assert before is not None
    assert before.offset == 123


def test_the_oldest_from_which_the_log_goes_on() -> None:
    assert oldest_from(OsFs(), DIRECTORY, Offset(0)) is None
    found = oldest_from(OsFs(), DIRECTORY, Offset(44))
    assert found is not None
    assert found.offset == 63
    assert oldest_from(OsFs(), DIRECTORY, Offset(162)) is None


def test_an_offset_is_exclusive_and_a_time_inclusive() -> None:
    assert [Moment(end_offset=Offset(2)).includes(Offset(offset), 0) for offset in (1, 2)] == [True, False]
    assert [Moment(wall_ms=5).includes(Offset(0), time) for time in (5, 6)] == [True, False]
    assert NOW.includes(Offset(2**62), 2**62)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("157", Moment(end_offset=Offset(157))),
        ("1970-01-01T00:01", Moment(wall_ms=60_000)),
        ("1970-01-01T00:01:00.5Z", Moment(wall_ms=60_500)),
        ("1970-01-01 01:01+01:00", Moment(wall_ms=60_000)),
    ],
)
def test_texts_of_moments(text: str, moment: Moment) -> None:
    assert parse_moment(text, "--as-of") == moment


@pytest.mark.parametrize("text", ["", "yesterday", "-1", "14:03", "9" * 19, "2026-13-01"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=f"--as-of {text}: "):
        parse_moment(text, "--as-of")


def read(node: OneNode, moment: Moment = NOW) -> tuple[list[tuple[int | None, str]], Offset]:
    """Offset and type of the records, and where they end."""
    found: list[LoggedRecord] = []
    end_offset = read_live([node.endpoint], moment, found.append)
    return [(each.offset, each.record.type) for each in found], end_offset


def test_a_log_is_read_up_to_a_moment(tmp_path: Path) -> None:
    node = OneNode(tmp_path)
    try:
        node.append(value(topic()), value(partition()))
        node.append(value(change(leader=2)))
        everything = [(1, "TOPIC_RECORD"), (2, "PARTITION_RECORD"), (3, "PARTITION_CHANGE_RECORD")]
        assert read(node) == (everything, 4)
        assert read(node, Moment(end_offset=Offset(2))) == (everything[:1], 2)
        assert read(node, Moment(wall_ms=0)) == ([], 0)
        with pytest.raises(UsageError, match="has committed 4 offsets, not yet 5"):
            read(node, Moment(end_offset=Offset(5)))
        node.append(b"hello")
        with pytest.raises(ProtocolError, match="the quorum's log: offset 4: not a metadata record"):
            read(node)
    finally:
        node.stop()


def test_a_snapshot_comes_first_and_is_as_old_as_it_gets(tmp_path: Path) -> None:
    directory = tmp_path / "n1" / PARTITION
    directory.mkdir(parents=True)
    write(OsFs(), [value(topic()), value(partition())], directory, id_of(100, 3))
    node = OneNode(tmp_path)
    try:
        node.append(value(change(leader=2)))
        of_snapshot = [(None, "TOPIC_RECORD"), (None, "PARTITION_RECORD")]
        assert read(node) == ([*of_snapshot, (101, "PARTITION_CHANGE_RECORD")], 102)
        assert read(node, Moment(end_offset=Offset(100))) == (of_snapshot, 100)
        with pytest.raises(UsageError, match="snapshot, which ends at offset 100, is newer than this moment"):
            read(node, Moment(end_offset=Offset(99)))
    finally:
        node.stop()
