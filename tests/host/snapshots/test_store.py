"""Snapshots between nodes: taken on one, fetched and installed by another, kept and removed."""

from dataclasses import replace
from pathlib import Path

import pytest

from pykraft.client.serde import bytes_serde
from pykraft.config import LogSettings
from pykraft.errors import ErrorCode, UsageError
from pykraft.host.inbox import Inbox
from pykraft.host.scrubbing import lingering
from pykraft.host.snapshots.creation import NewSnapshot
from pykraft.host.snapshots.files import SnapshotFiles
from pykraft.host.snapshots.store import SnapshotStore
from pykraft.log.os_fs import OsFs
from pykraft.snapshot.catalog import Catalog, Slice
from pykraft.snapshot.files import checkpoint_path, list_snapshots
from pykraft.snapshot.head import SnapshotReader
from pykraft.types import Epoch, Offset, OffsetAndEpoch
from tests.host.cluster import Cluster, Machine
from tests.host.fakes import DIRECTORY, FakeLog, FakePorts, at


def committed(cluster: Cluster, machine: Machine, count: int) -> OffsetAndEpoch:
    """Commit so many batches of one record each; the end of the committed log."""
    for number in range(count):
        machine.propose(b"record %d" % number)
        cluster.settle()
    high_watermark = machine.running.status.high_watermark
    assert high_watermark is not None
    return OffsetAndEpoch(high_watermark, machine.running.status.epoch)


def take(cluster: Cluster, machine: Machine, snapshot_id: OffsetAndEpoch, *values: bytes) -> None:
    """The application of this node takes a snapshot of these values."""
    answers: list[object] = []
    machine.running.create_snapshot(snapshot_id, bytes_serde, answers.append)
    cluster.settle()
    (taken,) = answers
    assert isinstance(taken, NewSnapshot)
    taken.append(values, answers.append)
    taken.freeze(answers.append)
    cluster.settle()
    assert answers[1] is None
    assert answers[2] == machine.fs.open(checkpoint_path(machine.config.partition_directory, snapshot_id)).size()
    machine.running.on_tick(cluster.now)


def snapshots_of(machine: Machine) -> list[OffsetAndEpoch]:
    return list_snapshots(machine.fs, machine.config.partition_directory)


def deleted_of(machine: Machine) -> list[str]:
    return lingering(machine.fs, machine.config.partition_directory)


def values_in(machine: Machine, snapshot_id: OffsetAndEpoch) -> list[bytes]:
    reader = SnapshotReader.of(machine.fs, machine.config.partition_directory, snapshot_id, bytes_serde)
    return [value for batch in reader for value in batch.records]


def lagging(cluster: Cluster) -> tuple[Machine, Machine, OffsetAndEpoch]:
    """A leader with a snapshot, behind which its log begins, and a machine that was away meanwhile."""
    leader = cluster.leader()
    away = cluster.others(leader)[0]
    away.crash()
    snapshot_id = committed(cluster, leader, 8)
    take(cluster, leader, OffsetAndEpoch(Offset(3), snapshot_id.epoch), b"old")
    take(cluster, leader, snapshot_id, b"state " * 30, b"more")
    return leader, away, snapshot_id


@pytest.mark.conformance(119, 121, 122, "H26")
@pytest.mark.parametrize("slice_size_bytes", [1_000_000, 64])
def test_who_was_away_gets_the_snapshot_and_what_follows(slice_size_bytes: int) -> None:
    cluster = Cluster(fetch_snapshot_size_bytes_max=slice_size_bytes)
    leader, away, snapshot_id = lagging(cluster)
    away.fs = type(away.fs)()
    away.start()
    cluster.run_until(lambda: away.running.status.log_end_offset == leader.running.status.log_end_offset)
    assert away.running.status.log_start_offset == snapshot_id.offset
    assert snapshots_of(away) == [snapshot_id]
    assert values_in(away, snapshot_id) == [b"state " * 30, b"more"]
    leader.propose(b"after")
    cluster.run_until_committed(snapshot_id.offset + 1, away)
    assert away.listener.values[-1] == b"after"


@pytest.mark.conformance(107, 108)
def test_after_a_restart_the_log_begins_at_the_snapshot(cluster: Cluster) -> None:
    leader, away, snapshot_id = lagging(cluster)
    away.fs = type(away.fs)()
    away.start()
    cluster.run_until(lambda: away.running.status.log_start_offset == snapshot_id.offset)
    cluster.settle()
    away.crash()
    away.start()
    assert (away.running.status.log_start_offset, away.running.status.log_end_offset) == (
        snapshot_id.offset,
        snapshot_id.offset,
    )
    leader.propose(b"after")
    cluster.run_until_committed(snapshot_id.offset + 1, away)


@pytest.mark.conformance(107)
def test_an_install_that_was_cut_short_is_finished_at_the_next_start(cluster: Cluster) -> None:
    _, away, snapshot_id = lagging(cluster)
    away.fs = type(away.fs)()
    away.start()
    cluster.run_until(lambda: away.running.status.log_end_offset > 0 or snapshots_of(away) != [])
    assert snapshots_of(away) == [snapshot_id]
    away.crash()
    away.start()
    assert away.running.status.log_start_offset == away.running.status.log_end_offset == snapshot_id.offset
    assert any(
        report.startswith(f"the snapshot up to offset {snapshot_id.offset} of epoch {snapshot_id.epoch} is ahead of")
        for report in away.reports
    )


@pytest.mark.conformance(110)
def test_what_is_no_longer_needed_goes_and_the_log_with_it(cluster: Cluster) -> None:
    for machine in cluster.machines.values():
        machine.crash()
        machine.config = replace(
            machine.config,
            log=replace(machine.config.log, retention_age_ms_max=0, clean_interval_ms=500, delete_delay_ms=10_000),
        )
        machine.start()
    leader, _, snapshot_id = lagging(cluster)
    assert len(snapshots_of(leader)) == 2
    for _ in range(2):
        cluster.run(300)
    assert snapshots_of(leader) == [snapshot_id]
    assert leader.running.status.log_start_offset == snapshot_id.offset
    cluster.run(5_000)
    assert len(deleted_of(leader)) == 1
    cluster.run(6_000)
    assert deleted_of(leader) == []


@pytest.mark.conformance(107)
def test_the_log_that_a_snapshot_replaced_lingers_too(cluster: Cluster) -> None:
    leader = cluster.leader()
    away = cluster.others(leader)[0]
    committed(cluster, leader, 2)
    away.crash()
    snapshot_id = committed(cluster, leader, 8)
    take(cluster, leader, snapshot_id, b"state")
    leader.running.raft.log.begin_at(snapshot_id)  # type: ignore[union-attr]
    away.start()
    cluster.run_until(lambda: away.running.status.log_start_offset == snapshot_id.offset)
    cluster.settle()
    assert f"{0:020d}.log.deleted" in deleted_of(away)


@pytest.mark.conformance(121)
def test_a_snapshot_beyond_what_java_can_read_is_served_at_any_position(tmp_path: Path) -> None:
    snapshot_id = OffsetAndEpoch(Offset(5), Epoch(1))
    file = OsFs().open(checkpoint_path(tmp_path, snapshot_id), create=True)
    file.truncate(2**33)
    file.pwrite([b"end"], 2**33)
    file.close()
    files = SnapshotFiles.open(OsFs(), tmp_path, log_start_offset=Offset(0), leader_epoch=None, settings=LogSettings())
    ports, answers = FakePorts(), list[object]()
    snapshots = SnapshotStore(ports, Inbox(), files, FakeLog(), fetch_timeout_ms=2_000)
    snapshots.read(snapshot_id, 2**33, 100, at(0), answers.append)
    ports.finish_read()
    assert answers == [Slice(b"end", 2**33 + 3)]
    snapshots.close()


@pytest.mark.conformance(105, 123)
@pytest.mark.parametrize(("offset", "epoch"), [(0, 1), (1, 2), (99, 1), (3, 0), (-1, 1)])
def test_a_snapshot_is_of_the_committed_log(cluster: Cluster, offset: int, epoch: int) -> None:
    machine = cluster.leader()
    committed(cluster, machine, 4)
    for each in cluster.machines.values():
        answers: list[object] = []
        wanted = OffsetAndEpoch(Offset(offset), Epoch(epoch + machine.running.status.epoch - 1))
        each.running.create_snapshot(wanted, bytes_serde, answers.append)
        cluster.settle()
        assert isinstance(answers[0], UsageError) or (offset < 0 and answers[0] is None)


@pytest.mark.conformance(121)
def test_what_is_asked_of_a_snapshot_that_is_not_there_has_its_error(cluster: Cluster) -> None:
    leader = cluster.leader()
    snapshot_id = committed(cluster, leader, 4)
    take(cluster, leader, snapshot_id, b"state")
    answers: list[object] = []
    absent = OffsetAndEpoch(Offset(3), snapshot_id.epoch)
    for wanted, position in ((absent, 0), (snapshot_id, 1_000_000), (snapshot_id, 0)):
        leader.running._components.snapshots.read(wanted, position, 10, cluster.now, answers.append)
        cluster.settle()
    assert answers[:2] == [ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE]
    assert isinstance(answers[2], Slice)


@pytest.mark.conformance(110)
def test_what_is_still_needed_stays_and_what_is_gone_takes_nothing_along(cluster: Cluster) -> None:
    for machine in cluster.machines.values():
        machine.crash()
        machine.config = replace(machine.config, log=replace(machine.config.log, clean_interval_ms=500))
        machine.start()
    leader, _, snapshot_id = lagging(cluster)
    before = snapshots_of(leader)
    cluster.run(1_200)
    assert snapshots_of(leader) == before != [snapshot_id]
    leader.running._components.snapshots.retire_before(OffsetAndEpoch(Offset(5), snapshot_id.epoch))
    cluster.settle()
    assert snapshots_of(leader) == before
    assert leader.running.status.log_start_offset == 0


def test_snapshot_that_cannot_be_read_is_an_error_to_the_asker_and_an_alarm(cluster: Cluster) -> None:
    leader = cluster.leader()
    snapshot_id = committed(cluster, leader, 4)
    take(cluster, leader, snapshot_id, b"state")
    leader.fs.lost[checkpoint_path(leader.config.partition_directory, snapshot_id).name] = range(100)
    answers: list[object] = []
    for _ in range(2):
        leader.running._components.snapshots.read(snapshot_id, 0, 50, cluster.now, answers.append)
        cluster.settle()
    assert answers == [ErrorCode.BROKER_NOT_AVAILABLE] * 2
    (alarm,) = leader.alarms
    assert alarm.startswith("SNAPSHOT NOT READ: ")
    assert leader.running.metrics(cluster.now)["failed-snapshots-total"] == 2
    leader.fs.lost.clear()
    leader.running._components.snapshots.read(snapshot_id, 0, 50, cluster.now, answers.append)
    cluster.settle()
    assert isinstance(answers[2], Slice)


def test_snapshots_whose_heads_cannot_be_read_now_stay() -> None:
    ports, fs = FakePorts(), OsFs()
    ids = [OffsetAndEpoch(Offset(offset), Epoch(1)) for offset in (3, 8)]
    files = SnapshotFiles(
        fs=fs, directory=DIRECTORY, catalog=Catalog(fs, DIRECTORY, ids), settings=LogSettings(clean_interval_ms=100)
    )
    snapshots = SnapshotStore(ports, Inbox(), files, FakeLog(), fetch_timeout_ms=2_000)
    for mono_ms in (0, 100):
        snapshots.poll(at(mono_ms))
    ports.finish_read()  # the directory is not there
    assert len(ports.alarms) == 1
    snapshots.poll(at(150))
    assert snapshots.next_deadline_ms == 200


def test_a_look_that_takes_long_is_not_asked_for_again_before_its_time() -> None:
    """A disk that was slower than the interval once made the node wake up without end."""
    ports, fs = FakePorts(), OsFs()
    ids = [OffsetAndEpoch(Offset(offset), Epoch(1)) for offset in (3, 8)]
    catalog = Catalog(fs, DIRECTORY, ids)
    files = SnapshotFiles(fs=fs, directory=DIRECTORY, catalog=catalog, settings=LogSettings(clean_interval_ms=100))
    snapshots = SnapshotStore(ports, Inbox(), files, FakeLog(), fetch_timeout_ms=2_000)
    for mono_ms in (0, 100, 150, 200, 300):
        snapshots.poll(at(mono_ms))
        assert snapshots.next_deadline_ms is not None
        assert snapshots.next_deadline_ms > mono_ms
    assert len(ports.reads) == 1
