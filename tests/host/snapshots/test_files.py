"""What a start finds of snapshots; their failures are reported once in a pause, and tried again after it."""

import pytest

from pykraft.client.serde import bytes_serde
from pykraft.config import LogSettings
from pykraft.errors import SnapshotFailedError, StorageError
from pykraft.host.snapshots.files import (
    PAUSES_MAX,
    SnapshotAccess,
    SnapshotFailures,
    SnapshotFiles,
    SnapshotTroubles,
    real_snapshots,
)
from pykraft.snapshot.files import BOOTSTRAP_ID, list_snapshots
from pykraft.snapshot.writer import write_bootstrap
from pykraft.types import Epoch, KRaftVersion, Offset
from tests.disks import ScriptedDisk
from tests.host.fakes import FakePorts, at
from tests.snapshot.snapshots import DIRECTORY, ID, id_of, write


def opened(fs: ScriptedDisk, log_start_offset: int = 0) -> SnapshotFiles:
    return SnapshotFiles.open(
        fs, DIRECTORY, log_start_offset=Offset(log_start_offset), leader_epoch=Epoch(1), settings=LogSettings()
    )


@pytest.mark.conformance(121)
def test_the_bootstrap_checkpoint_is_none_of_them_and_a_directory_without_others_is_left_as_it_is() -> None:
    fs = ScriptedDisk()
    write_bootstrap(fs, DIRECTORY, None)
    fs.operations.clear()
    assert opened(fs).catalog.ids == ()
    assert fs.operations == []
    assert list_snapshots(fs, DIRECTORY) == [BOOTSTRAP_ID]
    assert real_snapshots(fs, DIRECTORY) == []


@pytest.mark.conformance(108)
def test_what_is_left_of_snapshots_is_brought_into_order() -> None:
    fs = ScriptedDisk()
    fs.prepare(DIRECTORY)
    write(fs, [b"old"], snapshot_id=id_of(3, 1))
    write(fs, [b"new"])
    fs.open(DIRECTORY / f"{200:020d}-{5:010d}.checkpoint.part", create=True).close()
    files = opened(fs, log_start_offset=10)
    assert files.catalog.ids == (ID,)
    assert [name for name in fs.listdir(DIRECTORY) if "checkpoint" in name] == [f"{157:020d}-{3:010d}.checkpoint"]
    with_reader = files.open_newest(bytes_serde)
    assert [value for batch in with_reader for value in batch.records] == [b"new"]
    with_reader.close()


def test_a_frozen_one_is_in_the_catalog_and_says_who_votes() -> None:
    fs = ScriptedDisk()
    write_bootstrap(fs, DIRECTORY, None)
    files = opened(fs)
    told = files.frozen(BOOTSTRAP_ID)
    assert told.membership == (KRaftVersion(1),)
    assert files.catalog.ids == (BOOTSTRAP_ID,)


FULL = SnapshotFailedError.of(StorageError("x.part", "cannot write: No space left on device", repair="start again"))


def pauses(failures: SnapshotFailures, count: int) -> list[int]:
    """How long each of so many failures, one after the other, holds back the next attempt."""
    found: list[int] = []
    now_ms = 0
    for _ in range(count):
        failures.failed(FULL)
        failures.poll(at(now_ms))
        end_ms = failures.next_deadline_ms
        assert end_ms is not None
        failures.poll(at(end_ms - 1))
        assert failures.is_pausing
        failures.poll(at(end_ms))
        assert not failures.is_pausing
        found.append(end_ms - now_ms)
        now_ms = end_ms
    return found


def test_pause_doubles_up_to_a_limit_and_is_short_after_a_success() -> None:
    failures = SnapshotFailures(FakePorts(), SnapshotAccess.WRITE, pause_ms=100)
    assert pauses(failures, 7) == [100, 200, 400, 800, 1_600, 100 * PAUSES_MAX, 100 * PAUSES_MAX]
    failures.succeeded()
    assert pauses(failures, 2) == [100, 200]
    assert failures.count == 9


def test_failures_within_a_pause_are_counted_and_not_told() -> None:
    ports = FakePorts()
    troubles = SnapshotTroubles(ports, pause_ms=100)
    assert troubles.next_deadline_ms is None
    troubles.reading.failed(FULL)
    assert [troubles.next_deadline_ms, ports.wake_ms] == [0, 0]
    troubles.reading.failed(FULL)
    troubles.poll(at(50))
    troubles.reading.failed(FULL)
    assert troubles.next_deadline_ms == 150
    assert troubles.count == 3
    (alarm,) = ports.alarms
    assert alarm.startswith("SNAPSHOT NOT READ: x.part: cannot write: No space left on device; the node goes on")
    assert "start again" not in alarm
    assert not troubles.writing.is_pausing


def test_what_waits_is_tried_once_when_the_pause_is_over() -> None:
    failures = SnapshotFailures(FakePorts(), SnapshotAccess.READ, pause_ms=100)
    tries: list[int] = []
    failures.failed(FULL)
    failures.after_pause(lambda: tries.append(1))
    for mono_ms in (0, 99, 100, 300):
        failures.poll(at(mono_ms))
    assert tries == [1]
