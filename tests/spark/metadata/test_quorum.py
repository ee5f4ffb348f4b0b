"""A live quorum is read up to its high watermark: its snapshot, then its log; `tests/kafka` reads Kafka's."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.errors import ProtocolError, UsageError
from pykraft.local.voters import PARTITION
from pykraft.log.os_fs import OsFs
from pykraft.spark.metadata.directory import NOW, Moment
from pykraft.spark.metadata.image import LoggedRecord
from pykraft.spark.metadata.quorum import read_live
from pykraft.types import Offset
from tests.snapshot.snapshots import id_of, write
from tests.spark.metadata.made import change, partition, topic, value
from tests.spark.quorum_of_one import OneNode


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
