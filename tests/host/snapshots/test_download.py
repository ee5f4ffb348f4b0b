"""One download on the bulk lane: what the core is told of each piece, and what is never appended.

Source: KIP-630 §FetchSnapshot; Kafka's ``KafkaRaftClient.handleFetchSnapshotResponse``.
"""

from __future__ import annotations

import pytest

from pykraft.config import LogSettings
from pykraft.core.events import DownloadAdvanced, DownloadFailed, Event, SnapshotFrozen
from pykraft.host.inbox import Inbox
from pykraft.host.snapshots.files import SnapshotAccess, SnapshotFailures, SnapshotFiles
from pykraft.host.snapshots.store import DownloadJobs
from pykraft.snapshot.catalog import Catalog
from pykraft.snapshot.files import list_snapshots
from pykraft.types import Epoch, OffsetAndEpoch
from tests.disks import ScriptedDisk
from tests.host.fakes import FakePorts
from tests.host.fakes import at as now
from tests.snapshot.snapshots import DIRECTORY, ID, id_of, small_batches

WHOLE = small_batches()


class Desk:
    """A directory, and what the core hears of it."""

    def __init__(self, fs: ScriptedDisk | None = None) -> None:
        self.fs = fs or ScriptedDisk()
        self.fs.prepare(DIRECTORY)
        self.ports, self.inbox = FakePorts(), Inbox()
        files = SnapshotFiles(
            fs=self.fs, directory=DIRECTORY, catalog=Catalog(self.fs, DIRECTORY, []), settings=LogSettings()
        )
        self.failures = SnapshotFailures(self.ports, SnapshotAccess.WRITE, pause_ms=1_000)
        self.download_jobs = DownloadJobs(self.ports, self.inbox, files, self.failures, fetch_timeout_ms=900)

    def polled(self, mono_ms: int) -> list[Event]:
        """What the core is told at this time."""
        self.download_jobs.poll(now(mono_ms))
        return self.delivered()

    def delivered(self) -> list[Event]:
        """Let the lane work, and take what the core is told."""
        while self.ports.reads:
            self.ports.finish_read()
        events: list[Event] = []
        while (arrival := self.inbox.take()) is not None:
            events.append(arrival.event)
        return events

    def begin(self, snapshot_id: OffsetAndEpoch = ID, epoch: int = 7) -> list[Event]:
        self.download_jobs.begin(snapshot_id, Epoch(epoch))
        return self.delivered()

    def append(self, data: bytes, position: int, *, is_last: bool = False) -> list[Event]:
        self.download_jobs.append(ID, position, data, is_last=is_last)
        return self.delivered()


def at(position: int, snapshot_id: OffsetAndEpoch = ID, *, epoch: int = 7) -> list[Event]:
    return [DownloadAdvanced(snapshot_id=snapshot_id, leader_epoch=Epoch(epoch), position=position)]


@pytest.mark.conformance(122)
def test_bytes_become_a_snapshot_and_the_core_is_woken() -> None:
    desk = Desk()
    assert desk.begin() == at(0)
    assert desk.ports.wake_ms == 0
    assert desk.append(WHOLE[:500], 0) == at(500)
    assert desk.append(WHOLE[500:], 500, is_last=True) == [SnapshotFrozen(snapshot_id=ID)]
    assert list_snapshots(desk.fs, DIRECTORY) == [ID]
    desk.download_jobs.close()


@pytest.mark.conformance(122)
def test_a_download_goes_on_where_it_ended_also_after_a_restart() -> None:
    desk = Desk()
    desk.begin()
    desk.append(WHOLE[:500], 0)
    assert desk.begin() == at(500)
    desk.download_jobs.close()
    (again,) = Desk(desk.fs).begin()
    assert isinstance(again, DownloadAdvanced)
    assert 0 < again.position <= 500


def test_another_leader_has_another_file() -> None:
    desk = Desk()
    desk.begin()
    desk.append(WHOLE[:500], 0)
    assert desk.begin(epoch=8) == at(0, epoch=8)


def test_bytes_that_do_not_belong_to_the_end_are_not_appended() -> None:
    desk = Desk()
    desk.begin()
    desk.append(WHOLE[:500], 0)
    assert desk.append(WHOLE[:500], 0) == at(500)


def test_a_part_that_turns_out_whole_is_frozen_at_once() -> None:
    desk = Desk()
    desk.begin()
    desk.append(WHOLE, 0)
    assert desk.begin() == [SnapshotFrozen(snapshot_id=ID)]


@pytest.mark.parametrize(("data", "is_last"), [(WHOLE[:70] + b"?" * 700, False), (WHOLE[:500], True)])
def test_what_cannot_be_a_snapshot_is_removed(data: bytes, is_last: bool) -> None:
    desk = Desk()
    desk.begin()
    (told,) = desk.append(data, 0, is_last=is_last)
    assert isinstance(told, DownloadFailed)
    assert "that the leader sends is damaged" in told.reason
    assert desk.begin() == at(0)


def test_bytes_of_a_former_download_are_of_no_use() -> None:
    desk = Desk()
    assert [type(each) for each in desk.append(WHOLE, 0)] == [DownloadFailed]
    desk.begin(id_of(200, 5))
    assert [type(each) for each in desk.append(WHOLE, 0)] == [DownloadFailed]


def test_part_that_cannot_be_written_is_removed_and_downloads_pause() -> None:
    desk = Desk()
    desk.begin()
    desk.append(WHOLE[:500], 0)
    desk.fs.fail = lambda operation, path: operation == "pwrite" and path.name.endswith(".part")
    (told,) = desk.append(WHOLE[500:], 500, is_last=True)
    assert isinstance(told, DownloadFailed)
    assert "cannot pwrite" in told.reason
    assert desk.fs.listdir(DIRECTORY) == []
    assert len(desk.ports.alarms) == 1
    # The core hears only after a while that nothing can be written yet: a third of its fetch timeout.
    desk.failures.poll(now(0))
    assert desk.begin() == []
    assert desk.polled(0) == desk.polled(299) == []
    assert desk.download_jobs.next_deadline_ms == 300
    (told,) = desk.polled(300)
    assert isinstance(told, DownloadFailed)
    assert desk.download_jobs.next_deadline_ms is None
    assert desk.polled(400) == []
    # At the end of the pause a download that waits begins at once.
    desk.fs.fail = lambda _operation, _path: False
    assert desk.begin() == []
    assert desk.polled(900) == []
    desk.failures.poll(now(1_000))
    assert desk.polled(1_000) == at(0)
    assert desk.append(WHOLE, 0, is_last=True) == [SnapshotFrozen(snapshot_id=ID)]
    assert len(desk.ports.alarms) == 1


def test_download_that_cannot_begin_leaves_nothing_of_another() -> None:
    desk = Desk()
    desk.begin(id_of(200, 5))
    desk.fs.fail = lambda _, path: path.name.endswith(".part")
    assert [type(each) for each in desk.begin()] == [DownloadFailed]
    desk.fs.fail = lambda _operation, _path: False
    desk.failures.poll(now(0))
    desk.failures.poll(now(1_000))
    assert desk.begin() == at(0)


def test_what_the_leader_does_not_have_is_removed() -> None:
    desk = Desk()
    desk.begin()
    desk.append(WHOLE[:500], 0)
    desk.download_jobs.abandon(id_of(200, 5))
    assert desk.begin() == at(500)
    desk.download_jobs.abandon(ID)
    assert desk.begin() == at(0)


def test_only_the_download_that_is_wanted_last_is_checked_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykraft.snapshot.download.CATCH_UP_SIZE_BYTES", 100)
    desk = Desk()
    desk.begin()
    desk.append(WHOLE[:500], 0)
    desk.download_jobs.close()
    desk = Desk(desk.fs)
    desk.download_jobs.begin(ID, Epoch(7))
    desk.ports.finish_read()
    assert desk.delivered() != []
    desk.download_jobs.close()
    desk = Desk(desk.fs)
    desk.download_jobs.begin(ID, Epoch(7))
    desk.download_jobs.begin(id_of(200, 5), Epoch(7))
    assert desk.delivered() == at(0, id_of(200, 5))
