"""What the oracles of snapshots report, and what they accept."""

from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from pykraft import types
from pykraft.log.fs import make_directory
from pykraft.protocol.records import encode_control_batch
from pykraft.sim.facts.facts import Claims
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.invariant import NewSnapshotInvariant
from pykraft.sim.invariants.snapshots import (
    LATE_US,
    METRIC,
    CleanedIsInSnapshot,
    FailedSnapshotsAreTold,
    LeaderNeverLoadsSnapshot,
    LogStartIsSnapshot,
    NextSliceFollows,
    PartsAreRemoved,
    SaveIsAskedInTime,
    SnapshotInUseStays,
    SnapshotIsCommitted,
    SnapshotIsDurable,
    SnapshotNamesItsVoters,
    SnapshotsAlike,
    SnapshotsAreMadeAgain,
)
from pykraft.sim.machine.disk import VirtualDisk
from pykraft.sim.machine.ledger import Entry, Ledger
from pykraft.sim.machine.spoken import SliceAsked, Spoken
from pykraft.snapshot.files import part_path
from tests.sim.invariants.fakes import (
    BEFORE,
    batch,
    begins_anew,
    deletes_before,
    entry,
    keyed,
    node,
    report,
    snapshot_id,
    snapshot_of,
    view,
    voter_record,
    world,
)


# asked_in_time: An application that is not asked for a snapshot in time is found.
def saver_of(high_watermark: int = 2, *, is_asked: bool = True) -> tuple[Any, Any, SaveIsAskedInTime]:
    where = world()
    where.history.asked_node_ids = {1} if is_asked else set()
    saver = node(1, high_watermark=high_watermark)
    saver.config.log = SimpleNamespace(snapshot_record_bytes_max=100)
    made = SaveIsAskedInTime(where)
    made.started(saver)
    made.delivered(saver, [batch(0, b"a")])
    made.delivered(saver, [batch(1, b"b")])
    return where, saver, made


def check(where: Any, saver: Any, made: SaveIsAskedInTime) -> None:
    where.clock.now_us += LATE_US + 1
    made.after_event(saver, view())


def test_what_a_host_no_longer_reports_as_committed_is_given_first_all_the_same() -> None:
    where, saver, made = saver_of(high_watermark=0)
    made.reported(saver, report(types.ReportKind.SNAPSHOT_DUE, 2))
    made.after_event(saver, view(high_watermark=5))
    for offset in (2, 3):
        made.delivered(saver, [batch(offset, b"c")])
    check(where, saver, made)
    made.delivered(saver, [batch(4, b"c")])
    with pytest.raises(ViolationError, match="has not asked"):
        check(where, saver, made)


def test_who_is_not_asked_is_found() -> None:
    with pytest.raises(ViolationError, match="bytes to its application, where 100 are enough, and has not asked"):
        check(*saver_of())


# cleaned: A log that starts where no durable snapshot ends is found, and a leader whose log is replaced.
def watching(*offsets: int) -> CleanedIsInSnapshot:
    where = world()
    where.snapshots[1] = tuple(snapshot_id(offset) for offset in offsets)
    return CleanedIsInSnapshot(where)


@pytest.mark.parametrize("job", [deletes_before(4), begins_anew(6)])
def test_another_place_is_found(job: object) -> None:
    with pytest.raises(ViolationError, match="node 1 lets its log begin at"):
        watching(3, 5).submitted(node(1, role="follower"), job)  # type: ignore[arg-type]


def test_a_leader_whose_log_is_replaced_is_found() -> None:
    watching(5).submitted(node(1, role="leader"), deletes_before(5))
    with pytest.raises(ViolationError, match="leads, and puts a snapshot"):
        watching(5).submitted(node(1, role="leader"), begins_anew(5))


# failed_told: A process that found no room for a snapshot and raises no alarm is noticed at the end.
def made(counted: int = 1) -> FailedSnapshotsAreTold:
    facts: Any = world()
    facts.claims = Claims()
    facts.claims.snapshotless_ids.add(1)
    facts.nodes = {1: node(epoch=1)}
    facts.nodes[1].host.metrics = lambda now: {METRIC: counted}
    return FailedSnapshotsAreTold(facts)


def test_silence_is_noticed() -> None:
    oracle = made()
    oracle.reported(node(), report())
    with pytest.raises(ViolationError, match="node 1 had no room for a snapshot, and raises no alarm"):
        oracle.ended()


def test_an_alarm_that_is_not_counted_is_noticed() -> None:
    oracle = made(counted=0)
    oracle.reported(node(), report(types.ReportKind.SNAPSHOT_NOT_WRITTEN))
    with pytest.raises(ViolationError, match=f"node 1 says that snapshots failed, and its {METRIC} is 0"):
        oracle.ended()


# in_use: A snapshot that is removed while it is fetched is found.
PATIENCE_MS = 100


class Fetching:
    """Node 2 fetches the snapshot 7 from node 1, slice by slice."""

    def __init__(self) -> None:
        self.world = world()
        self.oracle = SnapshotInUseStays(self.world)
        self.server, self.asker = self.made(1), self.made(2)

    def made(self, node_id: int) -> Any:
        each: Any = node(node_id)
        each.config.log = SimpleNamespace(clean_interval_ms=20)
        each.config.raft = SimpleNamespace(fetch_timeout_ms=PATIENCE_MS)
        each.disk.io_errors = SimpleNamespace(stalled_until_us=0)
        return each

    def asks(self, until_ms: int, *, every_ms: int = 40) -> None:
        for ms in range(1, until_ms, every_ms):
            self.world.clock.now_us = ms * 1_000
            sliced = SliceAsked(snapshot_id=snapshot_id(7), position=ms)
            self.oracle.before_send(self.asker, Spoken(epoch=1, sliced=sliced, target_id=1))

    def goes(self, at_ms: int, *, offset: int = 9, who: Any = None) -> None:
        self.world.clock.now_us = at_ms * 1_000
        self.oracle.submitted(who or self.server, deletes_before(offset))


def test_what_is_fetched_for_several_periods_stays() -> None:
    made = Fetching()
    made.asks(1_000)
    with pytest.raises(ViolationError, match="which node 2 has been fetching"):
        made.goes(1_000)


def test_a_leader_that_knows_may_not() -> None:
    made = LeaderNeverLoadsSnapshot(world())
    made.leader_announced(node(1), 2, 1)
    with pytest.raises(ViolationError, match="node 1 leads epoch 2"):
        made.loaded(node(1, role="leader", epoch=2), snapshot_id(3))


# log_start: A log that starts where no snapshot ends is found.
def ids(*offsets: int) -> tuple[types.OffsetAndEpoch, ...]:
    return tuple(types.OffsetAndEpoch(types.Offset(offset), types.Epoch(1)) for offset in offsets)


def test_a_log_without_its_beginning_is_found_at_its_start() -> None:
    with pytest.raises(ViolationError, match="starts at 3, without a snapshot"):
        LogStartIsSnapshot(world()).started(node(log_start_offset=3))


@pytest.mark.parametrize("snapshots", [(), ids(4), ids(6)])
def test_a_log_that_begins_elsewhere_is_found(snapshots: tuple[types.OffsetAndEpoch, ...]) -> None:
    made = LogStartIsSnapshot(world())
    made.changed(node(), view(log_start_offset=5, snapshots=snapshots), view(log_start_offset=5, snapshots=snapshots))
    with pytest.raises(ViolationError, match="starts at 5"):
        made.changed(node(), BEFORE, view(log_start_offset=5, snapshots=snapshots))


# made_again: A node that takes no snapshots after one could not be written is found.
class Failing:
    """Node 1 takes a snapshot of its own after every 10 to 20 records, and has just failed to write one."""

    def __init__(self) -> None:
        self.facts: Any = world()
        self.facts.records_between = 10
        self.facts.history.asked_node_ids = set()
        self.facts.clock.now_us = 0
        log = SimpleNamespace(snapshots=())
        self.node = node(raft=SimpleNamespace(log=log))
        self.node.disk.io_errors = SimpleNamespace(is_planned=False, stalled_until_us=0)
        self.oracle = SnapshotsAreMadeAgain(self.facts)
        self.oracle.started(self.node)
        self.fail()

    def fail(self) -> None:
        self.oracle.reported(self.node, report(types.ReportKind.SNAPSHOT_NOT_WRITTEN))

    def go_on(self, end_offset: int, *, after_ms: int = 1_000, **seen: Any) -> None:
        """Time passes, and the application is given records up to this offset."""
        self.facts.clock.now_us += after_ms * 1_000
        self.oracle.delivered(self.node, [batch(end_offset - 1)])
        self.oracle.after_event(self.node, view(**seen))


def test_no_snapshot_for_long_after_a_failure_is_found() -> None:
    made = Failing()
    made.go_on(5)
    for end_offset in range(10, 90, 5):
        made.go_on(end_offset)
    with pytest.raises(ViolationError, match="has had room from offset 5 on; it is at 90, and has written none"):
        made.go_on(90)


# new_snapshots: Each snapshot of a node is judged once.
class Judge(NewSnapshotInvariant):
    def __init__(self, where: Any) -> None:
        super().__init__(where)
        self.judged: list[tuple[types.OffsetAndEpoch, bytes | None]] = []

    def judge(self, node: Any, snapshot_id: types.OffsetAndEpoch, content: bytes | None) -> None:
        self.judged.append((snapshot_id, content))


# next_slice: Slices of a snapshot that are requested twice or left out are found.
PARTITION = Path("/disk/log")


def fetching(size_bytes: int | None, **host: Any) -> Any:
    """A node that has so many bytes of a snapshot of the leader of epoch 2."""
    made = node(1, **{"epoch": 2, "leader_id": 3, **host})
    made.disk, made.config = VirtualDisk(Random(1)), SimpleNamespace(partition_directory=PARTITION)
    make_directory(made.disk, PARTITION)
    if size_bytes is not None:
        path = part_path(PARTITION, snapshot_id(9), leader_epoch=types.Epoch(2))
        made.disk.open(path, create=True).pwrite([bytes(size_bytes)], 0)
    return made


def asks(position: int, *, epoch: int = 2) -> Spoken:
    return Spoken(epoch=epoch, sliced=SliceAsked(snapshot_id=snapshot_id(9), position=position), target_id=3)


@pytest.mark.parametrize(("size_bytes", "seen"), [(4, "has 4 of them"), (6, "has 6 of them"), (None, "has none")])
def test_another_position_is_found(size_bytes: int | None, seen: str) -> None:
    with pytest.raises(ViolationError, match=seen):
        NextSliceFollows(world()).before_send(fetching(size_bytes), asks(5))


# parts: More parts of snapshots than a node can be working on are found.
NAMES = (
    "00000000000000000010-0000000001.checkpoint.part",
    "00000000000000000020-0000000001-0000000002.checkpoint.part",
    "00000000000000000030-0000000001.checkpoint.part",
)


def holding(*names: str) -> Any:
    found = node(epoch=1)
    found.config.partition_directory = "d"
    found.disk.directory = lambda path: SimpleNamespace(cached=dict.fromkeys(names))
    return found


def test_a_third_part_is_found() -> None:
    with pytest.raises(ViolationError, match="node 1 holds 3 parts of snapshots"):
        PartsAreRemoved(world()).changed(holding(*NAMES), view(), view(snapshots=(snapshot_id(30),)))


def test_parts_that_a_power_loss_brought_back_are_left_to_the_start() -> None:
    dead = holding(*NAMES)
    dead.process = None
    PartsAreRemoved(world()).changed(dead, view(snapshots=(snapshot_id(30),)), view())


def test_all_running_nodes_are_looked_at_in_the_end() -> None:
    made: Any = world()
    made.nodes = {1: holding(*NAMES)}
    with pytest.raises(ViolationError, match="node 1 holds 3 parts of snapshots"):
        PartsAreRemoved(made).ended()
    made.nodes = {1: holding(*NAMES)}
    made.nodes[1].process = None
    PartsAreRemoved(made).ended()


# snapshot_alike: Two snapshots of one id with different bytes are found.
def test_the_same_bytes_are_accepted_and_others_are_found() -> None:
    where = world()
    made = SnapshotsAlike(where)
    known = view(snapshots=(snapshot_id(3),))
    for at, content in ((1, b"one"), (2, b"one"), (3, b"other")):
        where.contents[at, snapshot_id(3)] = content
    made.changed(node(4), BEFORE, known)
    made.changed(node(1), BEFORE, known)
    made.changed(node(2), BEFORE, known)
    made.changed(node(3), known, known)
    made.changed(node(3), known, view(snapshots=(snapshot_id(3), snapshot_id(5))))
    with pytest.raises(ViolationError, match="node 3 has another snapshot up to 3 of epoch 1"):
        made.changed(node(3), BEFORE, known)


# snapshot_committed: A snapshot that differs from the committed log before its end is found.
COMMITTED = [entry(0), entry(1), entry(2, epoch=2)]


def check_committed(snapshot: types.OffsetAndEpoch, content: bytes | None) -> None:
    where = world()
    where.committed = Ledger(COMMITTED)
    if content is not None:
        where.contents[1, snapshot] = content
    made = SnapshotIsCommitted(where)
    known = view(snapshots=(snapshot,))
    made.changed(node(1), known, known)
    for _ in range(2):
        made.changed(node(1), BEFORE, known)


@pytest.mark.parametrize(
    ("snapshot", "batches"),
    [
        (snapshot_id(2), COMMITTED[:1]),
        (snapshot_id(2), COMMITTED),
        (snapshot_id(2), []),
        (snapshot_id(2, epoch=2), COMMITTED[:2]),
        (snapshot_id(2), [entry(0), entry(1, crc=9)]),
        (snapshot_id(4, epoch=2), [*COMMITTED, entry(3, epoch=2)]),
        (snapshot_id(2), [COMMITTED[1]]),
    ],
)
def test_anything_else_is_found(snapshot: types.OffsetAndEpoch, batches: list[Entry]) -> None:
    with pytest.raises(ViolationError, match=f"node 1 has a snapshot up to {snapshot.offset}"):
        check_committed(snapshot, snapshot_of(batches))


# snapshot_durable: A snapshot that a node relies on and that a power loss would remove is found.
WHOLE = snapshot_of([entry(0)])


def check_durable(content: bytes | None, snapshot: types.OffsetAndEpoch) -> SnapshotIsDurable:
    where = world()
    if content is not None:
        where.contents[1, snapshot] = content
    made = SnapshotIsDurable(where)
    known = view(snapshots=(snapshot,))
    made.changed(node(1), known, known)
    made.changed(node(1), known, BEFORE)
    made.changed(node(1), BEFORE, known)
    made.changed(node(1), known, view(snapshots=(snapshot,), epoch=2))
    return made


@pytest.mark.parametrize(
    ("content", "epoch"), [(None, 1), (b"", 1), (WHOLE[:-1], 1), (WHOLE[:100], 1), (bytes(len(WHOLE)), 1), (WHOLE, 2)]
)
def test_one_that_is_not_there_or_not_whole_or_of_another_epoch_is_found(content: bytes | None, epoch: int) -> None:
    with pytest.raises(ViolationError, match="node 1 counts on"):
        check_durable(content, snapshot_id(1, epoch=epoch))


def test_a_start_without_the_newest_one_is_found() -> None:
    made = check_durable(WHOLE, snapshot_id(1))
    made.started(node(2))
    made.facts.snapshots[1] = (snapshot_id(4),)  # type: ignore[attr-defined]
    made.started(node(1))
    made.facts.snapshots[1] = ()  # type: ignore[attr-defined]
    with pytest.raises(ViolationError, match="node 1 had the snapshot"):
        made.started(node(1))
    made.facts.set_aside.add((1, snapshot_id(1)))  # type: ignore[attr-defined]
    made.started(node(1))
    made.facts.set_aside.clear()  # type: ignore[attr-defined]
    made.wiped(node(1))
    made.started(node(1))


# snapshot_voters: A snapshot with other voters than those at its end is found.
OLD, NEW = keyed(1, 2), keyed(1, 2, 3)


def content(voters: types.VoterSet | None) -> bytes:
    head = (types.SnapshotHeader(0), types.KRaftVersion(1), *(() if voters is None else (types.KRaftVoters(voters),)))
    batches = (
        encode_control_batch(head, base_offset=types.Offset(0), epoch=types.Epoch(1), timestamp_ms=0).data,
        encode_control_batch(
            (types.SnapshotFooter(),), base_offset=types.Offset(len(head)), epoch=types.Epoch(1), timestamp_ms=0
        ).data,
    )
    return b"".join(batches)


def check_voters(end: int, voters: types.VoterSet | None, *, bytes_: bytes | None = None) -> None:
    """The log says OLD at 2 and NEW at 5; a third record at 6 is not committed."""
    where = world()
    where.members.electorate.records[:] = [voter_record(2, OLD), voter_record(5, NEW), voter_record(6, keyed(1))]
    where.committed = Ledger([entry(offset) for offset in range(6)])
    where.contents[1, snapshot_id(end)] = content(voters) if bytes_ is None else bytes_
    made = SnapshotNamesItsVoters(where)
    known = view(snapshots=(snapshot_id(end),))
    made.changed(node(1), known, known)
    made.changed(node(1), BEFORE, known)


@pytest.mark.parametrize(("end", "voters"), [(3, None), (5, NEW), (6, OLD), (7, keyed(1))])
def test_any_others_are_found(end: int, voters: types.VoterSet | None) -> None:
    with pytest.raises(ViolationError, match=f"a snapshot up to {end} that names the voters"):
        check_voters(end, voters)
