"""When a listener is asked for a snapshot, where one may end, what each call answers, and which one a listener gets."""

from collections.abc import Callable

import pytest

from pykraft.client.serde import bytes_serde
from pykraft.config import LogSettings
from pykraft.errors import NotRunningError, SnapshotFailedError, StorageError, UsageError
from pykraft.host.snapshots.creation import Loader, NewSnapshot, SnapshotLoading, SnapshotTrigger
from pykraft.snapshot.catalog import Reason
from pykraft.snapshot.files import checkpoint_path
from pykraft.snapshot.head import SnapshotReader, read_head
from pykraft.types import Epoch, Offset, OffsetAndEpoch
from tests.host.cluster import Cluster, Machine
from tests.host.fakes import snapshot_files
from tests.snapshot.snapshots import id_of


def committed(cluster: Cluster) -> tuple[Machine, Epoch]:
    """A leader that has committed batches of two records each from offset 1 on: they end at 3, 5, 7 and 9."""
    machine = cluster.leader()
    for _ in range(4):
        machine.propose(b"a", b"b")
        cluster.settle()
    return machine, machine.running.status.epoch


def begin(cluster: Cluster, machine: Machine, offset: int, epoch: int) -> NewSnapshot | Exception | None:
    answers: list[NewSnapshot | Exception | None] = []
    machine.running.create_snapshot(OffsetAndEpoch(Offset(offset), Epoch(epoch)), bytes_serde, answers.append)
    cluster.settle()
    return answers[0]


@pytest.mark.conformance(105, 123)
def test_one_of_the_committed_log_is_taken_and_says_of_when_it_is(cluster: Cluster) -> None:
    machine, epoch = committed(cluster)
    taken = begin(cluster, machine, 9, epoch)
    assert isinstance(taken, NewSnapshot)
    answers: list[object] = []
    taken.append([b"state"], answers.append)
    taken.freeze(answers.append)
    cluster.settle()
    _, head = read_head(machine.fs, machine.config.partition_directory, taken.snapshot_id)
    assert head.last_contained_log_timestamp == cluster.now.wall_ms
    assert (head.kraft_version, head.voters) == (0, None)
    assert machine.running.raft is not None
    machine.running.on_tick(cluster.now)
    assert machine.running.raft.log.snapshots == (taken.snapshot_id,)


@pytest.mark.conformance(105, 123)
@pytest.mark.parametrize(
    ("offset", "epoch", "why"),
    [
        (10, 0, "the committed log ends at 9"),
        (2**40, 0, "the committed log ends at 9"),
        (5, 1, "has epoch"),
        (5, -1, "has epoch"),
        (0, 0, "the committed log ends at 9"),
        (4, 0, "no batch ends at offset 4"),
    ],
)
def test_one_of_something_else_is_refused(cluster: Cluster, offset: int, epoch: int, why: str) -> None:
    machine, newest = committed(cluster)
    refused = begin(cluster, machine, offset, newest + epoch)
    assert isinstance(refused, UsageError)
    assert why in str(refused)


@pytest.mark.conformance(105)
def test_what_is_only_in_files_is_looked_up_there(cluster: Cluster) -> None:
    machine, epoch = committed(cluster)
    machine.crash()
    machine.start()
    cluster.run_until(lambda: machine.running.status.high_watermark == machine.running.status.log_end_offset)
    assert isinstance(begin(cluster, machine, 4, epoch), UsageError)
    assert isinstance(begin(cluster, machine, 5, epoch), NewSnapshot)


def test_what_cannot_be_read_in_files_is_not_taken(cluster: Cluster) -> None:
    machine, _ = committed(cluster)
    machine.crash()
    machine.start()
    cluster.run_until(lambda: machine.running.status.high_watermark == machine.running.status.log_end_offset)
    path = machine.config.partition_directory / f"{0:020d}.log"
    log = machine.fs.read(path)
    machine.fs.write(path, log[:16] + b"\0" + log[17:])  # the magic byte of the first batch
    refused = begin(cluster, machine, 1, 1)
    assert isinstance(refused, UsageError)
    assert "the log before offset 1 cannot be read now" in str(refused)
    machine.fs.write(path, log)
    assert isinstance(begin(cluster, machine, 1, 1), NewSnapshot)


@pytest.mark.parametrize("operation", ["pwrite", "sync", "rename"])
def test_failed_snapshot_is_removed_and_told_and_tried_again_after_a_pause(cluster: Cluster, operation: str) -> None:
    machine, epoch = committed(cluster)
    taken = begin(cluster, machine, 5, epoch)
    assert isinstance(taken, NewSnapshot)
    machine.fs.fail = lambda doing, path: doing == operation and ".checkpoint" in path.name
    answers: list[object] = []
    taken.append([b"x" * 500_000] * 20, answers.append)
    taken.freeze(answers.append)
    cluster.settle()
    assert isinstance(answers[0 if operation != "rename" else 1], SnapshotFailedError)
    assert not [name for name in machine.fs.listdir(machine.config.partition_directory) if ".checkpoint" in name]
    (alarm,) = machine.alarms
    assert alarm.startswith("NO SNAPSHOT WRITTEN: ")
    assert "make room on this disk" in alarm
    assert "start the node" not in alarm
    taken.close()
    # Within the pause nothing is tried.
    assert begin(cluster, machine, 5, epoch) is None
    machine.fs.fail = lambda _, path: "checkpoint" in path.name and "epoch" not in path.name
    cluster.run(machine.config.raft.fetch_timeout_ms + 1)
    assert isinstance(begin(cluster, machine, 5, epoch), SnapshotFailedError)
    assert len(machine.alarms) == 2
    assert begin(cluster, machine, 5, epoch) is None
    machine.fs.fail = lambda _operation, _path: False
    cluster.run(2 * machine.config.raft.fetch_timeout_ms + 1)
    again = begin(cluster, machine, 5, epoch)
    assert isinstance(again, NewSnapshot)
    again.freeze(answers.append)
    cluster.settle()
    assert isinstance(answers[-1], int)
    metrics = machine.running.metrics(cluster.now)
    assert metrics["failed-snapshots-total"] == 2
    machine.propose(b"c")
    cluster.settle()
    assert machine.stops == []


def test_directory_that_cannot_be_synced_ends_the_node(cluster: Cluster) -> None:
    """The names of the log's segments are in the same directory."""
    machine, epoch = committed(cluster)
    taken = begin(cluster, machine, 5, epoch)
    assert isinstance(taken, NewSnapshot)
    machine.fs.fail = lambda operation, _: operation == "sync_dir"
    answers: list[object] = []
    taken.freeze(answers.append)
    with pytest.raises(StorageError, match="sync_dir"):
        cluster.settle()
    assert answers == []


def test_snapshot_that_cannot_be_read_back_is_not_told(cluster: Cluster) -> None:
    machine, epoch = committed(cluster)
    taken = begin(cluster, machine, 5, epoch)
    assert isinstance(taken, NewSnapshot)
    machine.fs.lost[checkpoint_path(machine.config.partition_directory, taken.snapshot_id).name] = range(100)
    answers: list[object] = []
    taken.freeze(answers.append)
    cluster.settle()
    assert isinstance(answers[0], SnapshotFailedError)
    assert machine.running.raft is not None
    assert machine.running.raft.log.snapshots == ()


@pytest.mark.conformance(105)
def test_one_that_exists_or_is_being_taken_is_not_taken_again(cluster: Cluster) -> None:
    machine, epoch = committed(cluster)
    taken = begin(cluster, machine, 5, epoch)
    assert isinstance(taken, NewSnapshot)
    assert begin(cluster, machine, 5, epoch) is None
    taken.close()
    cluster.settle()
    again = begin(cluster, machine, 5, epoch)
    assert isinstance(again, NewSnapshot)
    again.freeze(lambda _: None)
    cluster.settle()
    machine.running.on_tick(cluster.now)
    assert begin(cluster, machine, 5, epoch) is None
    assert begin(cluster, machine, -1, epoch) is None


@pytest.mark.conformance(124)
@pytest.mark.parametrize(
    "call", [lambda taken, then: taken.append([b"x"], then), lambda taken, then: taken.freeze(then)]
)
def test_what_is_wrong_is_answered_and_leaves_nothing(
    cluster: Cluster, call: Callable[[NewSnapshot, Callable[[object], None]], None]
) -> None:
    machine, epoch = committed(cluster)
    taken = begin(cluster, machine, 5, epoch)
    assert isinstance(taken, NewSnapshot)
    answers: list[object] = []
    taken.append([b""], answers.append)
    call(taken, answers.append)
    taken.close()
    cluster.settle()
    assert [type(answer) for answer in answers] == [UsageError, UsageError]
    assert not [
        name
        for name in machine.fs.listdir(machine.config.partition_directory)
        if "checkpoint" in name and "leader" not in name
    ]


def test_a_node_that_does_not_run_takes_none(cluster: Cluster) -> None:
    machine = cluster.leader()
    host = machine.running
    host._components.inbox.close()
    answers: list[object] = []
    host.create_snapshot(OffsetAndEpoch(Offset(1), Epoch(1)), bytes_serde, answers.append)
    assert isinstance(answers[0], NotRunningError)


def load(reader: SnapshotReader[bytes]) -> None: ...


def bootstrap(reader: SnapshotReader[bytes]) -> None: ...


BOTH = Loader(bytes_serde, load, bootstrap=bootstrap)
LOADS = Loader(bytes_serde, load)


@pytest.mark.conformance(119, 128)
@pytest.mark.parametrize(
    ("loader", "snapshots", "next_offset", "start_offset", "expected"),
    [
        (None, [(9, 1)], 0, 0, None),
        (LOADS, [], 0, 0, None),
        (LOADS, [(9, 1)], 0, 0, load),
        (LOADS, [(9, 1)], 9, 0, None),
        (LOADS, [(5, 1), (9, 1)], 4, 5, load),
        (BOTH, [], 0, 0, bootstrap),
        (BOTH, [], 3, 0, None),
        (BOTH, [(9, 1)], 0, 0, load),
    ],
)
def test_at_first(
    loader: Loader | None, snapshots: list[tuple[int, int]], next_offset: int, start_offset: int, expected: object
) -> None:
    files = snapshot_files(*snapshots, has_bootstrap=True)
    wanted = SnapshotLoading(loader, files, is_fresh=True).wanted(Offset(next_offset), Offset(start_offset))
    assert (wanted and wanted.load) is expected


@pytest.mark.parametrize(("next_offset", "expected"), [(0, load), (4, load), (5, None), (7, None), (9, None)])
def test_later_on_only_what_the_log_does_not_hold(next_offset: int, expected: object) -> None:
    loading = SnapshotLoading(BOTH, snapshot_files((5, 1), (9, 1), has_bootstrap=True), is_fresh=True)
    loading.given()
    wanted = loading.wanted(Offset(next_offset), Offset(5))
    assert (wanted and wanted.load) is expected


def test_there_is_no_checkpoint_of_formatting_in_most_directories() -> None:
    assert SnapshotLoading(BOTH, snapshot_files(), is_fresh=True).wanted(Offset(0), Offset(0)) is None


class Counted:
    """One listener's count; a snapshot is due after 100 bytes, or after a second."""

    def __init__(self, *, interval_ms: int = 1_000) -> None:
        self.wakes = 0
        self.saving = SnapshotTrigger(
            LogSettings(snapshot_record_bytes_max=100, snapshot_interval_ms=interval_ms), self._wake
        )

    def _wake(self) -> None:
        self.wakes += 1

    def given(self, offset: int, size_bytes: int, high_watermark: int) -> None:
        self.saving.given(id_of(offset, 1), size_bytes, Offset(high_watermark))

    def poll(self, mono_ms: int, high_watermark: int = 0) -> None:
        self.saving.poll(mono_ms, Offset(high_watermark))


def test_so_many_bytes_make_it_due_once() -> None:
    counted = Counted()
    counted.given(3, 60, 3)
    assert counted.saving.take() is None
    counted.given(5, 40, 5)
    assert counted.saving.take() == (id_of(5, 1), Reason.SIZE)
    assert counted.saving.take() is None
    counted.given(6, 99, 6)
    assert counted.saving.take() is None


def test_who_is_behind_is_asked_where_the_committed_log_ended_when_it_was_due() -> None:
    counted = Counted()
    counted.given(5, 100, 20)
    assert counted.saving.take() is None
    counted.given(19, 1_000, 30)
    assert counted.saving.take() is None
    counted.given(21, 10, 40)
    assert counted.saving.take() == (id_of(21, 1), Reason.SIZE)


def test_time_counts_from_the_first_poll_and_only_with_records() -> None:
    counted = Counted()
    counted.poll(500)
    assert counted.saving.next_deadline_ms is None
    counted.poll(5_000)
    assert counted.saving.take() is None
    counted.given(3, 1, 3)
    assert counted.saving.next_deadline_ms == 1_500
    counted.poll(5_001, 3)
    assert counted.saving.next_deadline_ms is None
    assert counted.saving.take() == (id_of(3, 1), Reason.TIME)


@pytest.mark.parametrize("interval_ms", [0, 1_000])
def test_a_count_that_begins_anew_begins_its_time_anew(interval_ms: int) -> None:
    counted = Counted(interval_ms=interval_ms)
    counted.poll(0)
    counted.given(3, 99, 3)
    counted.saving.begin_anew()
    counted.given(4, 99, 4)
    counted.poll(10_000, 4)
    assert counted.saving.take() is None
    assert counted.saving.next_deadline_ms == (11_000 if interval_ms else None)


def test_whoever_keeps_the_time_is_woken_when_it_begins_to_count() -> None:
    counted = Counted()
    counted.given(3, 1, 3)
    assert counted.wakes == 1
    counted.given(4, 1, 4)
    assert counted.wakes == 1
    counted.saving.begin_anew()
    assert counted.wakes == 2


def test_nothing_given_is_nothing_to_save() -> None:
    counted = Counted()
    counted.poll(0)
    counted.poll(10**9)
    assert counted.saving.take() is None
    end: OffsetAndEpoch = id_of(1, 1)
    counted.saving.given(end, 100, Offset(1))
    counted.saving.begin_anew()
    assert counted.saving.take() is None
