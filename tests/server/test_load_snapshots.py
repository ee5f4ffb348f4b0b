"""A node under load takes snapshots and deletes what they stand for, unless a snapshot is an application's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from pykraft.errors import SnapshotFailedError, SnapshotTooLargeError, UsageError
from pykraft.host.snapshots.creation import NewSnapshot
from pykraft.local.child import Children
from pykraft.local.cluster import Cluster
from pykraft.local.waiting import wait_until
from pykraft.log.os_fs import OsFs
from pykraft.server.load_snapshots import LoadSnapshots
from pykraft.snapshot.reader import SnapshotReader
from pykraft.snapshot.writer import Serializer, SnapshotWriter
from pykraft.types import Epoch, NodeId, Offset, OffsetAndEpoch
from tests.processes.conftest import children

__all__ = ["children"]

AT = OffsetAndEpoch(Offset(7), Epoch(2))


class Taken:
    """A snapshot that is being written."""

    snapshot_id = AT

    def __init__(self, *, append: Exception | None = None, freeze: int | Exception = 100) -> None:
        self.calls: list[object] = []
        self._append, self._freeze = append, freeze

    def append(self, records: Sequence[Any], then: Callable[[Exception | None], None]) -> None:
        self.calls.append(records)
        then(self._append)

    def freeze(self, then: Callable[[int | Exception], None]) -> None:
        self.calls.append("freeze")
        then(self._freeze)

    def close(self) -> None:
        self.calls.append("close")


class FakeHost:
    """Begins the snapshot that a test gives it."""

    def __init__(self, begun: object) -> None:
        self.asked: list[OffsetAndEpoch] = []
        self._begun = begun

    def create_snapshot(
        self,
        snapshot_id: OffsetAndEpoch,
        serializer: Serializer[Any],
        on_begun: Callable[[NewSnapshot | Exception | None], None],
    ) -> None:
        self.asked.append(snapshot_id)
        on_begun(cast("NewSnapshot", self._begun))


class Told:
    """The lines and errors of one test."""

    def __init__(self, begun: object) -> None:
        self.host = FakeHost(begun)
        self.lines: list[str] = []
        self.errors: list[Exception] = []
        self.snapshots = LoadSnapshots(self.host, report=self.lines.append, failed=self.errors.append)
        self.snapshots.on_leader_change(Epoch(1), NodeId(1))
        self.snapshots.on_commit([])

    def save(self) -> None:
        assert self.snapshots.loader.save is not None
        self.snapshots.loader.save(AT)


@pytest.mark.parametrize(
    ("begun", "calls", "line", "errors"),
    [
        (Taken(), [[AT], "freeze"], "", 0),
        (Taken(freeze=SnapshotTooLargeError("large")), [[AT], "freeze", "close"], "no snapshot of the load: large", 0),
        (Taken(append=UsageError("bug")), [[AT], "close"], "", 1),
        (Taken(append=SnapshotFailedError("x", "full")), [[AT], "close"], "", 0),
        (None, [], "", 0),
        (UsageError("gone"), [], "no snapshot of the load: gone", 0),
    ],
)
def test_a_snapshot_is_written_or_the_reason_reported(begun: Any, calls: list[object], line: str, errors: int) -> None:
    told = Told(begun)
    told.save()
    assert told.host.asked == [AT]
    assert "".join(told.lines) == line
    assert len(told.errors) == errors
    assert calls == (begun.calls if isinstance(begun, Taken) else [])


@pytest.mark.parametrize("content", [b"load", b"an application's", b"", b"damaged"])
def test_an_applications_snapshot_is_not_replaced(tmp_path: Path, content: bytes) -> None:
    told = Told(None)
    fs = OsFs()
    writer: SnapshotWriter[Any] = SnapshotWriter(
        fs,
        tmp_path,
        AT,
        told.snapshots if content == b"load" else Plain(),
        last_contained_log_timestamp=0,
    )
    writer.append([AT] if content == b"load" else [content] if content else [])
    writer.freeze()
    reader = SnapshotReader.of(fs, tmp_path, AT, told.snapshots)
    if content == b"damaged":
        [path] = tmp_path.glob("*.checkpoint")
        data = bytearray(path.read_bytes())
        data[data.index(b"damaged")] ^= 1
        path.write_bytes(data)
    told.snapshots.loader.load(reader)
    told.save()
    if content == b"load":
        assert (told.host.asked, told.lines) == ([AT], [])
    else:
        assert told.host.asked == []
        assert "is an application's, so the load takes no snapshots" in "".join(told.lines)


class Plain:
    """Records that are bytes already."""

    def serialize(self, record: bytes) -> bytes:
        return record


@pytest.mark.processes
def test_the_disk_of_a_node_under_load_is_bounded(children: Children, tmp_path: Path) -> None:
    properties = {
        "metadata.log.max.record.bytes.between.snapshots": "50000",
        "metadata.max.retention.bytes": "100000",
        "internal.metadata.log.segment.bytes": "20000",
        "internal.metadata.delete.delay.millis": "0",
        "pykraft.log.clean.interval.ms": "100",
    }
    cluster = Cluster(children, tmp_path, throughput=2_000, record_size_bytes=100, properties=properties)
    cluster.start()
    partitions = [node.partition for node in cluster.nodes.values()]

    def begins_at() -> int:
        """Where the longest of the logs starts; 0 if a listing missed the old file and the new one."""
        return min(min((int(file.stem) for file in path.glob("*.log")), default=0) for path in partitions)

    # Each node has deleted more than it may keep, so it has taken snapshots several times.
    wait_until(lambda: begins_at() > 2_000, "all logs to be cleaned", alive=[n.process for n in cluster.nodes.values()])
    first = cluster.nodes[1]
    first.process.kill()
    first.start()
    begun = max(2_000, begins_at())
    wait_until(lambda: begins_at() > begun + 2_000, "all logs to be cleaned again", alive=[first.process])
    cluster.end_load()
    for path in partitions:
        assert any(path.glob("*.checkpoint"))
    assert cluster.stop() == {1: 0, 2: 0, 3: 0}
