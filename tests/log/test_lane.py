"""The ordered lane: what it groups, what is durable in which order, and a power loss at any operation.

The crash tests know which logs and elections the jobs passed through. What recovers must be one of them: nothing
acknowledged lost, nothing mixed, no bytes that were never written. A node that can never vote syncs later (ADR 118).
"""

from contextlib import suppress
from random import Random

import pytest

from pykraft.config import LogSettings
from pykraft.core import effects
from pykraft.core.quarantine import Quarantine
from pykraft.errors import StorageError
from pykraft.log.lane import UNSYNCED_SIZE_BYTES_MAX, AppendBytes, Job, OrderedLane
from pykraft.log.log import Log
from pykraft.log.small_files.proof_file import ProofFile
from pykraft.log.small_files.quarantine_file import QuarantineFile
from pykraft.log.small_files.quorum_state import ElectionStore
from pykraft.protocol.batch import read_header
from pykraft.sim.machine.disk import Interrupted
from pykraft.types import Election, Epoch, Io, NodeId, Offset, OffsetAndEpoch, ReplicaKey, Uuid
from tests.disks import ScriptedDisk
from tests.log.logs import DIRECTORY, ONE, SMALL, Batch, bytes_of, content, open_log, random_run, run_of

VOTERS = (NodeId(1), NodeId(2), NodeId(3))
LOG_0 = f"{0:020d}.log"


def election(epoch: int) -> Election:
    return Election(epoch=Epoch(epoch), voted=ReplicaKey(NodeId(1), Uuid(bytes(15) + b"\7")))


def write_election(io: int, epoch: int) -> effects.WriteElectionState:
    return effects.WriteElectionState(io=Io(io), election=election(epoch), voters=VOTERS, kraft_version=1)


def append(io: int, batches: list[Batch]) -> AppendBytes:
    return AppendBytes(io=Io(io), batches=batches)


def truncate(io: int, offset: int) -> effects.TruncateTo:
    return effects.TruncateTo(io=Io(io), end_offset=Offset(offset))


State = tuple[list[bytes], Election | None]


class Replica:
    """A lane on a disk, and every (batches, election) that its jobs have passed through since the last answer."""

    def __init__(
        self, fs: ScriptedDisk, passed: list[State] | None = None, *, config: LogSettings = SMALL, can_vote: bool = True
    ) -> None:
        self.fs = fs
        self.can_vote = can_vote
        self.config = config
        self.passed = passed or [([], None)]
        self.restart()

    @property
    def end_offset(self) -> int:
        return read_header(self.batches[-1]).end_offset if self.batches else 0

    def restart(self) -> None:
        """Open whatever the disk holds: it must be a state that was passed through, and is the state from now on."""
        self.log, self.recovery = open_log(self.fs, self.config)
        elections = ElectionStore(self.fs, DIRECTORY)
        stored = elections.read()
        notes = QuarantineFile(self.fs, DIRECTORY), ProofFile(self.fs, DIRECTORY)
        self.lane = OrderedLane(self.log, elections, *notes, can_vote=self.can_vote)
        self.io = 0
        assert self.recovery.corrupt == ()
        found = content(self.log), stored.election if stored else None
        assert found in self.passed
        self.passed = [found]
        self.batches, self.election = found

    def perform(self, jobs: list[Job]) -> None:
        """Note every state on the way, carry the jobs out, and from then on accept the last state only."""
        for job in jobs:
            self.io = job.io
            match job:
                case AppendBytes():
                    for _, data in job.batches:
                        self._pass([*self.batches, bytes(data)])
                case effects.TruncateTo():
                    while self.end_offset > job.end_offset:
                        self._pass(self.batches[:-1])
                case effects.WriteElectionState():
                    self.election = job.election
                    self._pass(self.batches)
        assert self.lane.perform(jobs) == self.io
        if self.can_vote:
            self.passed = self.passed[-1:]

    def _pass(self, batches: list[bytes]) -> None:
        self.batches = batches
        self.passed.append((batches, self.election))


def random_jobs(random: Random, replica: Replica) -> list[Job]:
    """One to four jobs that a core could ask for next."""
    jobs: list[Job] = []
    epoch = replica.election.epoch if replica.election else 1
    end_offset = replica.end_offset
    for io in range(replica.io + 1, replica.io + random.randint(2, 5)):
        kind = random.random()
        if kind < 0.6:
            batches = random_run(random, end_offset, epoch=epoch)
            end_offset = batches[-1][0].end_offset
            jobs.append(append(io, batches))
        elif kind < 0.75 and not any(isinstance(job, AppendBytes) for job in jobs):
            starts = [0, *(read_header(data).end_offset for data in replica.batches)]
            end_offset = random.choice([start for start in starts if start <= end_offset])
            jobs.append(truncate(io, end_offset))
        else:
            epoch += 1
            jobs.append(write_election(io, epoch))
    return jobs


def live(replica: Replica, random: Random, groups: int) -> None:
    """Jobs at random, with an idle moment now and then."""
    for _ in range(groups):
        replica.perform(random_jobs(random, replica))
        replica.lane.check_files()
        if random.random() < 0.3:
            replica.lane.settle()


@pytest.mark.conformance(104)
@pytest.mark.parametrize("seed", range(250))
def test_power_loss_at_a_random_operation_loses_nothing_that_was_answered(seed: int) -> None:
    fs, random = ScriptedDisk(), Random(seed)
    replica = Replica(fs)
    for _ in range(4):
        fs.last_operation = len(fs.operations) + random.randrange(60)
        with pytest.raises(Interrupted):
            live(replica, random, groups=100)
        fs.power_loss(random)
        if random.random() < 0.5:
            fs.last_operation = len(fs.operations) + random.randrange(12)
            with suppress(Interrupted):
                replica.restart()
            fs.power_loss(random)
        replica.restart()
        if random.random() < 0.5:
            fs.power_loss(random)
            replica.restart()


@pytest.mark.parametrize("seed", range(60))
def test_a_kill_loses_nothing_and_what_it_leaves_is_durable_after_recovery(seed: int) -> None:
    fs, random = ScriptedDisk(), Random(seed)
    replica = Replica(fs)
    for _ in range(3):
        fs.last_operation = len(fs.operations) + random.randrange(60)
        with pytest.raises(Interrupted):
            live(replica, random, groups=100)
        fs.kill()
        replica.restart()
        fs.power_loss(random)
        replica.restart()


PAGES = LogSettings(segment_size_bytes=10 * 1024, index_interval_bytes=2000, index_size_bytes_max=480)
"""Ten batches of 1 KiB, and so two and a half pages, to a segment."""


def pages_of(base_offset: int, count: int, *, fill: int) -> list[Batch]:
    """Batches of 1 KiB: pages end where batches do, so a mix of old and new pages would look sound."""
    batches = run_of(base_offset, count, size_bytes=954, fill=fill)
    assert all(len(data) == 1024 for _, data in batches)
    return batches


def started(jobs: list[Job]) -> Replica:
    replica = Replica(ScriptedDisk(), config=PAGES)
    replica.perform(jobs)
    return replica


@pytest.mark.parametrize("cut", [pytest.param(cut, marks=pytest.mark.no_cover) for cut in (0, 4, 13, 20, 25)])
def test_power_loss_at_every_operation_of_a_truncation_never_mixes_old_and_new_batches(cut: int) -> None:
    start: list[Job] = [append(1, pages_of(0, 26, fill=1))]
    jobs: list[Job] = [truncate(2, cut), append(3, pages_of(cut, 26 - cut, fill=2))]
    first = len(started(start).fs.operations)
    for last in range(first, len(started([*start, *jobs]).fs.operations) + 1):
        for seed in range(5):
            replica = started(start)
            replica.fs.last_operation = last
            with suppress(Interrupted):
                replica.perform(jobs)
            replica.fs.power_loss(Random(seed))
            replica.restart()
            replica.perform([append(1, pages_of(replica.end_offset, 3, fill=3))])
            replica.fs.power_loss(Random(seed))
            replica.restart()


@pytest.mark.parametrize("seed", range(8))
def test_power_loss_at_every_operation_of_the_first_start(seed: int) -> None:
    jobs: list[Job] = [write_election(1, 1), append(2, run_of(0, 2))]
    for last in range(70):
        fs = ScriptedDisk()
        fs.last_operation = last
        batches = bytes_of(run_of(0, 2))
        passed: list[State] = [([], None), *((batches[:count], election(1)) for count in range(3))]
        with suppress(Interrupted):
            Replica(fs, passed).perform(jobs)
            assert last > 40
        fs.power_loss(Random(seed))
        replica = Replica(fs, passed)
        replica.perform([write_election(1, 2), append(2, run_of(replica.end_offset, 2))])


@pytest.fixture
def fs() -> ScriptedDisk:
    return ScriptedDisk()


@pytest.mark.conformance("H44")
def test_a_group_of_appends_is_one_write_and_one_sync(fs: ScriptedDisk) -> None:
    log, _ = open_log(fs, ONE)
    lane = OrderedLane(log, ElectionStore(fs, DIRECTORY), QuarantineFile(fs, DIRECTORY), ProofFile(fs, DIRECTORY))
    lane.perform([append(1, run_of(0, 1))])
    assert not lane.only_writes(append(2, run_of(1, 1)))
    fs.operations.clear()
    assert lane.perform([append(io, run_of(io - 1, 1)) for io in range(2, 12)]) == 11
    assert [one for one in fs.operations if one[1] == LOG_0] == [("pwrite", LOG_0), ("sync", LOG_0)]
    assert log.end_offset == 11


def test_an_election_waits_for_the_appends_before_it_and_precedes_those_after(fs: ScriptedDisk) -> None:
    replica = Replica(fs)
    replica.perform([write_election(1, 1), append(2, run_of(0, 1))])
    fs.operations.clear()
    replica.perform([append(3, run_of(1, 1)), write_election(4, 2), append(5, run_of(2, 1))])
    steps = [one for one in fs.operations if one[1] in (LOG_0, "quorum-state")]
    assert steps == [("pwrite", LOG_0), ("sync", LOG_0), ("rename", "quorum-state"), ("pwrite", LOG_0), ("sync", LOG_0)]


def test_a_truncation_is_durable_before_a_later_append_is_written(fs: ScriptedDisk) -> None:
    replica = Replica(fs)
    replica.perform([append(1, run_of(0, 30, size_bytes=200))])
    replica.lane.settle()
    fs.operations.clear()
    replica.perform([truncate(2, 2), append(3, run_of(2, 1))])
    kinds = [one for one in fs.operations if not one[1].endswith("index") and "epoch" not in one[1]]
    removed = [name for operation, name in kinds if operation == "remove"]
    assert removed == sorted(removed, reverse=True)
    assert [one for one in kinds if one[0] != "remove"] == [
        ("pwrite", "recovery-point"),
        ("sync", "recovery-point"),
        ("sync_dir", DIRECTORY.name),
        ("truncate", LOG_0),
        ("sync", LOG_0),
        ("pwrite", LOG_0),
        ("sync", LOG_0),
        ("pwrite", "recovery-point"),
    ]


def test_nothing_to_do_is_nothing_done(fs: ScriptedDisk) -> None:
    replica = Replica(fs)
    replica.perform([append(1, run_of(0, 2))])
    fs.operations.clear()
    assert replica.lane.perform([]) == 1
    replica.perform([truncate(2, 2), append(3, [])])
    assert fs.operations == []


def test_jobs_out_of_order_are_our_bug() -> None:
    lane = Replica(ScriptedDisk()).lane
    lane.perform([write_election(2, 1)])
    with pytest.raises(AssertionError, match="in order"):
        lane.perform([write_election(2, 2)])
    assert isinstance(lane.failure, AssertionError)


def test_a_failed_sync_is_fatal_and_never_repeated() -> None:
    """The repeated sync would succeed, and the batch would be gone."""
    fs, random = ScriptedDisk(), Random(1)
    replica = Replica(fs)
    replica.perform([append(1, run_of(0, 3))])
    kept = list(replica.batches)
    fs.fail = lambda operation, path: operation == "sync" and path.suffix == ".log"
    with pytest.raises(StorageError, match=r"\.log: cannot sync: Input/output error"):
        replica.perform([append(2, run_of(3, 1, size_bytes=5000))])
    fs.fail = lambda _operation, _path: False
    fs.operations.clear()
    for jobs in ([append(3, run_of(4, 1))], []):
        with pytest.raises(StorageError, match=r"nothing more is written after a failure: .*cannot sync.*; restart"):
            replica.lane.perform(jobs)
    with pytest.raises(StorageError, match="nothing more is written"):
        replica.lane.settle()
    assert fs.operations == []
    fs.power_loss(random)
    replica.restart()
    assert replica.batches == kept


@pytest.mark.parametrize("room_bytes", [0, 1, 500, 5000])
def test_a_full_disk_is_a_clear_error_and_loses_nothing(fs: ScriptedDisk, room_bytes: int) -> None:
    replica = Replica(fs)
    replica.perform([append(1, run_of(0, 3))])
    fs.capacity_bytes = fs.used_bytes() + room_bytes
    with pytest.raises(StorageError, match="No space left on device"):
        replica.perform([append(2, run_of(3, 10, size_bytes=700, fill=5))])
    fs.capacity_bytes = None
    fs.kill()
    replica.restart()
    replica.perform([append(1, run_of(replica.end_offset, 2))])


def test_a_failed_recovery_point_is_fatal_too(fs: ScriptedDisk) -> None:
    replica = Replica(fs)
    replica.perform([append(1, run_of(0, 3))])
    fs.fail = lambda operation, path: operation == "sync" and path.name == "recovery-point"
    with pytest.raises(StorageError, match="recovery-point: cannot sync"):
        replica.lane.settle()
    with pytest.raises(StorageError, match="nothing more is written"):
        replica.lane.perform([append(2, run_of(3, 1))])


def test_the_same_log_reads_equal_on_every_replica() -> None:
    """Groups differ from replica to replica; the bytes of the log do not."""
    one, other = Replica(ScriptedDisk()), Replica(ScriptedDisk())
    batches = run_of(0, 40, size_bytes=150)
    one.perform([append(1, batches)])
    for at in range(0, 40, 4):
        other.perform([append(at + 1, batches[at : at + 2]), append(at + 2, batches[at + 2 : at + 4])])
    assert content(one.log) == content(other.log) == bytes_of(batches)
    logs = [name for name in one.fs.listdir(DIRECTORY) if name.endswith(".log")]
    assert all(one.fs.read(DIRECTORY / name) == other.fs.read(DIRECTORY / name) for name in logs)


def test_a_quarantine_is_noted_before_the_log_is_cut_and_forgotten_after_it_grew_again(fs: ScriptedDisk) -> None:
    log, _ = open_log(fs, ONE)
    file = QuarantineFile(fs, DIRECTORY)
    lane = OrderedLane(log, ElectionStore(fs, DIRECTORY), file, ProofFile(fs, DIRECTORY))
    note = Quarantine(epoch=Epoch(1), until_offset=None, damages=(), is_cut=True)
    fs.operations.clear()
    lane.perform(
        [
            append(1, run_of(0, 4)),
            effects.EnterQuarantine(io=Io(2), quarantine=note, end_offset=Offset(0)),
            truncate(3, 2),
        ]
    )
    assert file.read() == note
    steps = [one for one in fs.operations if one in (("sync", LOG_0), ("rename", "quarantine"), ("truncate", LOG_0))]
    assert steps.index(("sync", LOG_0)) < steps.index(("rename", "quarantine")) < steps.index(("truncate", LOG_0))
    fs.operations.clear()
    lane.perform([append(4, run_of(2, 3)), effects.LeaveQuarantine(io=Io(5))])
    assert not file.exists()
    assert fs.operations.index(("sync", LOG_0)) < fs.operations.index(("remove", "quarantine"))


def test_what_was_appended_before_the_log_begins_anew_or_later_is_durable_first() -> None:
    replica = Replica(ScriptedDisk())
    lane = replica.lane
    delete, anew = (
        effects.MoveLogStart(io=Io(2), snapshot_id=OffsetAndEpoch(Offset(2), Epoch(1))),
        effects.InstallSnapshot(io=Io(4), snapshot_id=OffsetAndEpoch(Offset(9), Epoch(1))),
    )
    assert lane.perform([append(1, run_of(0, 3)), delete, append(3, run_of(3, 1)), anew, append(5, run_of(9, 1))]) == 5
    assert bytes_of(run_of(9, 1)) == content(replica.log)


def test_a_lane_that_cannot_relieve_its_log_is_unusable(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica(ScriptedDisk())
    replica.lane.relieve()

    def fails(_: Log) -> None:
        raise StorageError("log", "gone")

    monkeypatch.setattr(Log, "relieve", fails)
    with pytest.raises(StorageError, match="gone"):
        replica.lane.relieve()
    with pytest.raises(StorageError, match="nothing more is written"):
        replica.lane.perform([])


def test_who_can_never_vote_syncs_after_many_bytes_and_before_any_other_job_and_when_idle(fs: ScriptedDisk) -> None:
    replica = Replica(fs, config=ONE, can_vote=False)
    replica.perform([append(1, run_of(0, 3))])
    fs.operations.clear()
    next_one = append(2, run_of(3, 1))
    assert replica.lane.only_writes(next_one)
    assert not replica.lane.only_writes(write_election(2, 1))
    replica.perform([next_one])
    replica.lane.relieve()
    assert fs.operations == [("pwrite", LOG_0)]
    replica.perform([append(3, run_of(4, 1)), write_election(4, 1)])
    steps = [("pwrite", LOG_0), ("sync", LOG_0), ("rename", "quorum-state")]
    assert [one for one in fs.operations[1:] if one in steps] == steps
    fs.operations.clear()
    large = append(5, run_of(5, 1, size_bytes=UNSYNCED_SIZE_BYTES_MAX + 1))
    assert not replica.lane.only_writes(large)
    replica.perform([large])
    replica.perform([append(6, run_of(6, 1))])
    assert [one for one in fs.operations if one[1] == LOG_0] == [*steps[:2], ("pwrite", LOG_0)]
    replica.lane.settle()
    assert fs.operations[-3:] == [("sync", LOG_0), ("pwrite", "recovery-point"), ("sync", "recovery-point")]
    replica.passed = replica.passed[-1:]
    fs.power_loss(Random(1))
    replica.restart()
    assert replica.end_offset == 7


@pytest.mark.parametrize("seed", range(100))
def test_who_can_never_vote_finds_a_prefix_after_a_power_loss(seed: int) -> None:
    random = Random(seed)
    fs = ScriptedDisk()
    replica = Replica(fs, can_vote=False)
    for _ in range(4):
        for _ in range(random.randint(1, 6)):
            replica.perform(random_jobs(random, replica))
        if random.random() < 0.5:
            replica.lane.settle()
            replica.passed = replica.passed[-1:]
        fs.power_loss(random)
        replica.restart()
