"""From a configuration to a running node and its end: signals, limits of the process, the complete journal.

A node under load takes snapshots and deletes what they stand for, unless a snapshot is an application's.

systemd is told when the node serves; a node without it runs just the same.
"""

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pytest

from lab.nodes.cluster import Cluster
from pykraft.errors import SnapshotFailedError, SnapshotTooLargeError, UsageError
from pykraft.host.delivery import CommittedBatch
from pykraft.host.host import Host
from pykraft.host.snapshots.creation import NewSnapshot
from pykraft.local.child import Children, wait_until
from pykraft.local.journal import Acknowledged, JournalEvent, Led, Started, Stopped, parse_event
from pykraft.log.os_fs import OsFs
from pykraft.security.acls import AuthorizerSettings
from pykraft.server.driver import Driver
from pykraft.server.reload import SOCKET_NAME
from pykraft.server.run import LoadSnapshots, ServerOptions, loop_factory, notify_ready, serve
from pykraft.server.workload import Load, Workload
from pykraft.snapshot.head import SnapshotReader
from pykraft.snapshot.writer import Serializer, SnapshotWriter
from pykraft.types import Epoch, NodeId, Offset, OffsetAndEpoch
from tests.processes.conftest import children
from tests.server.nodes import QUICK, TIMEOUT_S, node_configs

LOAD = Load(records_per_s=1_000, record_size_bytes=100)


class Starter:
    """Reads a node's journal as whoever started it would, and asks it to end once it acknowledged something."""

    def __init__(self, ask: signal.Signals) -> None:
        self.events: list[JournalEvent] = []
        self._ask = ask
        self._reading, self.writing = os.pipe()
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait for the end of the journal."""
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()

    def _read(self) -> None:
        has_asked = False
        with os.fdopen(self._reading, "rb") as pipe:
            for line in pipe:
                self.events.append(parse_event(line))
                if isinstance(self.events[-1], Acknowledged) and not has_asked:
                    has_asked = True
                    os.kill(os.getpid(), self._ask)


@pytest.fixture(autouse=True)
def process_as_before() -> Iterator[None]:
    """What `serve` changes for the process as a whole is put back."""
    interval, limit = sys.getswitchinterval(), resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    gc.unfreeze()
    sys.setswitchinterval(interval)
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("ask", [signal.SIGTERM, signal.SIGINT])
def test_a_node_serves_until_it_is_asked_to_end(tmp_path: Path, loop: str, ask: signal.Signals) -> None:
    [config] = node_configs(tmp_path, 1)
    starter = Starter(ask)
    serve(config, ServerOptions(load=LOAD, ack_descriptor=starter.writing, loop=loop))
    starter.wait()
    first, second, *acknowledged, last = starter.events
    assert isinstance(first, Started)
    assert (first.node, first.pid) == (1, os.getpid())
    assert first.port == next(iter(config.listeners))[1].port
    assert isinstance(second, Led)
    assert second.run == first.run
    assert acknowledged
    assert {event.run for event in acknowledged if isinstance(event, Acknowledged)} == {first.run}
    assert isinstance(last, Stopped)


def test_a_load_on_an_old_log_does_not_read_it_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [config] = node_configs(tmp_path, 1)
    seen: list[CommittedBatch] = []
    old_end_offset = Offset(0)
    monkeypatch.setattr(Workload, "on_commit", lambda _, batches: seen.extend(batches))
    for _ in range(2):
        old_end_offset = max((batch.end_offset for batch in seen), default=Offset(0))
        seen.clear()
        starter = Starter(signal.SIGTERM)
        serve(config, ServerOptions(load=LOAD, ack_descriptor=starter.writing))
        starter.wait()
        assert any(isinstance(event, Acknowledged) for event in starter.events)
    assert old_end_offset > 0
    assert all(batch.base_offset >= old_end_offset for batch in seen)


def test_a_node_that_fails_says_so_and_its_journal_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [config] = node_configs(tmp_path, 1)
    starter = Starter(signal.SIGTERM)

    def freeze() -> None:
        raise AssertionError("a bug of ours")

    monkeypatch.setattr(gc, "freeze", freeze)
    with pytest.raises(AssertionError, match="a bug of ours"):
        serve(config, ServerOptions(load=None, ack_descriptor=starter.writing))
    starter.wait()
    assert [type(event) for event in starter.events] == [Started, Stopped]


def test_a_node_without_a_reader_ends(tmp_path: Path) -> None:
    [config] = node_configs(tmp_path, 1)
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(UsageError, match=f"--ack-fd {writing}"):
        serve(config, ServerOptions(load=LOAD, ack_descriptor=writing))


def test_a_node_needs_neither_load_nor_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [config] = node_configs(tmp_path, 1)
    monkeypatch.setattr(gc, "freeze", lambda: os.kill(os.getpid(), signal.SIGTERM))
    serve(config, ServerOptions(load=None))
    assert config.partition_directory.is_dir()


@pytest.mark.parametrize(("is_terminal", "reloads"), [(False, 1), (True, 0)])
def test_a_node_with_rules_takes_up_files_at_sighup_unless_it_is_at_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_terminal: bool, reloads: int
) -> None:
    [config] = node_configs(tmp_path, 1)
    rules = tmp_path / "acls"
    rules.write_text("")
    asked: list[Driver] = []

    def reload(node: Driver) -> None:
        asked.append(node)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Driver, "reload", reload)
    monkeypatch.setattr(os, "isatty", lambda _: is_terminal)
    monkeypatch.setattr(gc, "freeze", lambda: os.kill(os.getpid(), signal.SIGHUP))
    serve(replace(config, authorizer=AuthorizerSettings(acl_file=rules)), ServerOptions(load=None))
    assert len(asked) == reloads
    assert not (config.log_dir / SOCKET_NAME).exists()


def test_a_start_names_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    [config] = node_configs(tmp_path, 1)
    monkeypatch.setattr(gc, "freeze", lambda: os.kill(os.getpid(), signal.SIGTERM))
    with caplog.at_level("INFO"):
        serve(config, ServerOptions(load=None))
    [served] = [line for line in caplog.messages if " serves " in line]
    assert served.startswith(f"node {config.node_id} of cluster {config.cluster_id} serves ")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (ServerOptions(load=None, ack_descriptor=9_999), "--ack-fd 9999"),
        (ServerOptions(load=Load(record_size_bytes=2_000)), "--record-size 2000"),
    ],
)
def test_wrong_options_leave_the_directory_to_the_next(tmp_path: Path, options: ServerOptions, says: str) -> None:
    [config] = node_configs(tmp_path, 1, raft=replace(QUICK, batch_size_bytes_max=1_024))
    for _ in range(2):
        with pytest.raises(UsageError, match=says):
            serve(config, options)


def test_the_loop_is_the_fast_one_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert loop_factory("asyncio") is asyncio.new_event_loop
    assert loop_factory("auto") is loop_factory("uvloop")
    assert loop_factory("auto") is not asyncio.new_event_loop
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loop_factory("auto") is asyncio.new_event_loop
    with pytest.raises(UsageError, match="--loop uvloop"):
        loop_factory("uvloop")


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
        self.snapshots = LoadSnapshots(cast("Host", self.host), report=self.lines.append, failed=self.errors.append)
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
        fs, tmp_path, AT, told.snapshots if content == b"load" else Plain(), last_contained_log_timestamp=0
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


@pytest.mark.parametrize("is_abstract", [False, True])
def test_the_service_manager_is_told(is_abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"pykraft-{os.urandom(8).hex()}" if is_abstract else str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}" if is_abstract else name)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}" if is_abstract else name)
        notify_ready()
        assert manager.recv(100, socket.MSG_DONTWAIT) == b"READY=1"


def test_without_a_service_manager_nothing_is_sent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify_ready()
    assert caplog.messages == []


def test_one_that_is_gone_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    with caplog.at_level(logging.WARNING, logger="pykraft"):
        notify_ready()
    assert caplog.messages == [
        f"NOTIFY_SOCKET {tmp_path}/gone: the service manager cannot be told: No such file or directory"
    ]
