"""One download on the bulk lane: what the core is told of each piece, and what is never appended.

An interrupted download resumes where it stopped, as far as the bytes surely belong to the same file.

Source: KIP-630 §FetchSnapshot; Kafka's ``KafkaRaftClient.handleFetchSnapshotResponse``; resuming is ours (ADR 011).
"""

from collections.abc import Callable
from random import Random

import pytest

from pykraft.config import LogSettings
from pykraft.core.events import DownloadAdvanced, DownloadFailed, Event, SnapshotFrozen
from pykraft.host.inbox import Inbox
from pykraft.host.snapshots.files import SnapshotAccess, SnapshotFailures, SnapshotFiles
from pykraft.host.snapshots.store import DownloadJobs
from pykraft.protocol.api import ApiKey, decode_request_body, decode_request_header
from pykraft.snapshot.catalog import Catalog
from pykraft.snapshot.files import list_snapshots
from pykraft.types import Epoch, OffsetAndEpoch
from tests.disks import ScriptedDisk
from tests.host.cluster import Cluster, Machine
from tests.host.fakes import FakePorts
from tests.host.fakes import at as now
from tests.host.snapshots.test_store import committed, snapshots_of, take, values_in
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


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.mark.conformance(122)
def test_bytes_become_a_snapshot_and_the_core_is_woken(desk: Desk) -> None:
    assert desk.begin() == at(0)
    assert desk.ports.wake_ms == 0
    assert desk.append(WHOLE[:500], 0) == at(500)
    assert desk.append(WHOLE[500:], 500, is_last=True) == [SnapshotFrozen(snapshot_id=ID)]
    assert list_snapshots(desk.fs, DIRECTORY) == [ID]
    desk.download_jobs.close()


@pytest.mark.conformance(122)
def test_a_download_goes_on_where_it_ended_also_after_a_restart(desk: Desk) -> None:
    desk.begin()
    desk.append(WHOLE[:500], 0)
    assert desk.begin() == at(500)
    desk.download_jobs.close()
    (again,) = Desk(desk.fs).begin()
    assert isinstance(again, DownloadAdvanced)
    assert 0 < again.position <= 500


def test_another_leader_has_another_file(desk: Desk) -> None:
    desk.begin()
    desk.append(WHOLE[:500], 0)
    assert desk.begin(epoch=8) == at(0, epoch=8)


def test_bytes_that_do_not_belong_to_the_end_are_not_appended(desk: Desk) -> None:
    desk.begin()
    desk.append(WHOLE[:500], 0)
    assert desk.append(WHOLE[:500], 0) == at(500)


def test_a_part_that_turns_out_whole_is_frozen_at_once(desk: Desk) -> None:
    desk.begin()
    desk.append(WHOLE, 0)
    assert desk.begin() == [SnapshotFrozen(snapshot_id=ID)]


@pytest.mark.parametrize(("data", "is_last"), [(WHOLE[:70] + b"?" * 700, False), (WHOLE[:500], True)])
def test_what_cannot_be_a_snapshot_is_removed(desk: Desk, data: bytes, is_last: bool) -> None:
    desk.begin()
    (told,) = desk.append(data, 0, is_last=is_last)
    assert isinstance(told, DownloadFailed)
    assert "that the leader sends is damaged" in told.reason
    assert desk.begin() == at(0)


def test_bytes_of_a_former_download_are_of_no_use(desk: Desk) -> None:
    assert [type(each) for each in desk.append(WHOLE, 0)] == [DownloadFailed]
    desk.begin(id_of(200, 5))
    assert [type(each) for each in desk.append(WHOLE, 0)] == [DownloadFailed]


def test_part_that_cannot_be_written_is_removed_and_downloads_pause(desk: Desk) -> None:
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


def test_download_that_cannot_begin_leaves_nothing_of_another(desk: Desk) -> None:
    desk.begin(id_of(200, 5))
    desk.fs.fail = lambda _, path: path.name.endswith(".part")
    assert [type(each) for each in desk.begin()] == [DownloadFailed]
    desk.fs.fail = lambda _operation, _path: False
    desk.failures.poll(now(0))
    desk.failures.poll(now(1_000))
    assert desk.begin() == at(0)


def test_what_the_leader_does_not_have_is_removed(desk: Desk) -> None:
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


SLICE_SIZE_BYTES = 200_000
STATE = [b"%d" % number * 600_000 for number in range(6)]
"""Records of which one takes a batch of its own."""


def asked_positions(machine: Machine) -> list[int]:
    """Where the FetchSnapshot requests of this machine began, in their order."""
    positions = []
    for _, frame in machine.sent:
        header = decode_request_header(frame) if frame[:2] == b"\0\x3b" else None
        if header is not None and header.api_key == ApiKey.FETCH_SNAPSHOT:
            [partition] = decode_request_body(header, frame)["topics"][0]["partitions"]
            positions.append(partition["position"])
    return positions


class HalfWay:
    """A machine that has fetched half of the leader's snapshot."""

    def __init__(self) -> None:
        self.cluster = cluster = Cluster(fetch_snapshot_size_bytes_max=SLICE_SIZE_BYTES)
        self.leader = cluster.leader()
        self.away = cluster.others(self.leader)[0]
        self.away.crash()
        self.snapshot_id: OffsetAndEpoch = committed(cluster, self.leader, 4)
        take(cluster, self.leader, self.snapshot_id, *STATE)
        self.away.wipe()
        self.away.format()
        self.away.start()
        cluster.run_until(lambda: asked_positions(self.away)[-1:] > [1_800_000])
        self.epoch = self.away.running.status.epoch
        self.half = asked_positions(self.away)[-1]
        self.away.sent.clear()

    def first_position_after(self) -> int:
        """Let the download end; where it went on."""
        self.cluster.run_until(lambda: self.away.running.status.log_start_offset == self.snapshot_id.offset)
        self.cluster.settle()
        assert snapshots_of(self.away) == [self.snapshot_id]
        assert values_in(self.away, self.snapshot_id) == STATE
        positions = asked_positions(self.away)
        assert positions == sorted(positions)
        return positions[0]


def lose_connections(half_way: HalfWay) -> None:
    half_way.cluster.break_all(half_way.away)


def lose_the_network(half_way: HalfWay) -> None:
    """For so long that the replica looks for another leader; and finds the same one of the same epoch."""
    half_way.cluster.cut(half_way.away)
    half_way.cluster.run_until(lambda: half_way.away.running.status.role != "follower")
    half_way.cluster.heal()


def be_killed(half_way: HalfWay) -> None:
    half_way.away.crash()
    half_way.away.start()


@pytest.mark.conformance(122)
@pytest.mark.parametrize("interrupt", [lose_connections, lose_the_network, be_killed])
def test_it_goes_on_with_the_same_leader(interrupt: Callable[[HalfWay], None]) -> None:
    half_way = HalfWay()
    interrupt(half_way)
    first = half_way.first_position_after()
    assert half_way.away.running.status.epoch == half_way.epoch
    assert half_way.half - 700_000 < first <= half_way.half + SLICE_SIZE_BYTES


@pytest.mark.conformance(122)
def test_after_a_loss_of_power_it_goes_on_with_what_is_sound() -> None:
    for seed in range(5):
        half_way = HalfWay()
        half_way.away.fs.power_loss(Random(seed))
        half_way.away.crash()
        half_way.away.start()
        assert half_way.first_position_after() <= half_way.half


@pytest.mark.conformance(122)
def test_a_part_of_another_leader_is_not_resumed() -> None:
    half_way = HalfWay()
    other = next(each for each in half_way.cluster.others(half_way.leader) if each is not half_way.away)
    take(half_way.cluster, other, half_way.snapshot_id, *STATE)
    half_way.leader.crash()
    assert half_way.first_position_after() == 0
    assert half_way.away.running.status.epoch > half_way.epoch
