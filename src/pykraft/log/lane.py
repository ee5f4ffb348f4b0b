"""The ordered lane runs the storage jobs of one replica in order; a job is durable before the next one starts.

This module owns the grouping of jobs. Invariant: when `OrderedLane.perform` returns an io, that job and all before it
are durable, and no later job became durable before an earlier one that the core ordered first:

- Consecutive appends share one write for each segment and one sync (group commit).
- Every other job (an election write, a truncation at either end, the beginning or end of a quarantine, a proof) waits
  until the appends before it are durable, and is durable before anything after it.

A replica that can never vote is the exception: nobody relies on its copy, so its appends are written when `perform`
returns, and durable after UNSYNCED_SIZE_BYTES_MAX, before any other job, when the lane is idle, and at the end (ADR
118).

After a failure the lane is unusable: nobody knows what is on the disk, and a repeated fsync would report success for
pages that the kernel has dropped. The lane has no thread and no loop: the caller, one thread at a time, passes all
waiting jobs.

Source: etcd ``raft`` doc §Usage (persist before send); PostgreSQL's fsync failure of 2018; Kafka's
``KafkaRaftClient.appendAsFollower``, which syncs for voters and controllers only.
"""

from collections.abc import Callable, Sequence
from typing import Final, ParamSpec, TypeAlias, assert_never

from pykraft.core import effects
from pykraft.core.proof import Proof
from pykraft.errors import StorageError
from pykraft.log.directory import LogDirectory
from pykraft.log.log import Log
from pykraft.log.small_files.proof_file import ProofFile
from pykraft.log.small_files.quarantine_file import QuarantineFile
from pykraft.log.small_files.quorum_state import ElectionStore
from pykraft.protocol.batch import BatchHeader
from pykraft.types import NO_IO, Buffer, Io
from pykraft.value import value

P = ParamSpec("P")
UNSYNCED_SIZE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Appended bytes after which a replica that can never vote syncs them."""


@value(frozen=True, slots=True, kw_only=True)
class AppendBytes:
    """The bytes for an ``AppendBatches`` or ``AppendFetched``: whole, verified batches that follow the log end."""

    io: Io
    batches: Sequence[tuple[BatchHeader, Buffer]]

    @property
    def size_bytes(self) -> int:
        return sum(header.size_bytes for header, _ in self.batches)


Job: TypeAlias = (
    effects.WriteElectionState
    | AppendBytes
    | effects.TruncateTo
    | effects.EnterQuarantine
    | effects.LeaveQuarantine
    | effects.NoteProof
    | effects.InstallSnapshot
    | effects.MoveLogStart
)
"""The core's storage effects; those that append come with their bytes."""


class OrderedLane:
    """Runs jobs in whichever single thread calls it."""

    def __init__(
        self,
        log: Log,
        elections: ElectionStore,
        quarantine: QuarantineFile,
        proof: ProofFile,
        *,
        can_vote: bool = True,
        directory: LogDirectory | None = None,
    ) -> None:
        """``directory``: whose lock to look after."""
        self._directory = directory
        self._log = log
        self._unsynced_size_bytes = 0
        self._unsynced_size_bytes_max = 0 if can_vote else UNSYNCED_SIZE_BYTES_MAX
        self._elections = elections
        self._quarantine = quarantine
        self._proof = proof
        self._last_io = NO_IO
        self.failure: BaseException | None = None
        """The error that made the lane unusable; None while it works."""

    def perform(self, jobs: Sequence[Job]) -> Io:
        """Run the jobs in order; all are durable when it returns the last one's io, for a replica that can vote.

        Errors: StorageError from the disk; every later call raises it, too.
        """
        self._work(self._perform, jobs)
        return self._last_io

    def only_writes(self, job: Job) -> bool:
        """True for a job that would be written and not synced, if it came next."""
        if not self._unsynced_size_bytes_max or not isinstance(job, AppendBytes):
            return False
        return self._unsynced_size_bytes + job.size_bytes <= self._unsynced_size_bytes_max

    def settle(self) -> None:
        """Make appends and the recovery point durable while the lane is idle; nothing waits for it.

        Errors: StorageError.
        """
        self._work(self._settle)

    def relieve(self) -> None:
        """Do after a job what nobody waits for: see `pykraft.log.log.Log.relieve`. Errors: StorageError."""
        self._work(self._log.relieve)

    def check_files(self) -> None:
        """Check between two jobs that nobody deleted or renamed the files or the lock. Errors: StorageError."""
        self._work(self._check_files)

    def _perform(self, jobs: Sequence[Job]) -> None:
        appends: list[tuple[BatchHeader, Buffer]] = []
        for job in jobs:
            assert job.io > self._last_io, "jobs are numbered in order"
            if not isinstance(job, AppendBytes):
                # Each other job first makes the appends before it durable.
                self._append(appends)
                self._sync()
            match job:
                case AppendBytes():
                    # Group commit: appends wait for the next job of another kind, or the end, and share one write and
                    # one sync.
                    appends.extend(job.batches)
                case effects.WriteElectionState():
                    self._elections.write(job.election, voters=job.voters, kraft_version=job.kraft_version)
                case effects.TruncateTo():
                    self._log.truncate_to(job.end_offset)
                case effects.EnterQuarantine():
                    self._quarantine.write(job.quarantine)
                case effects.LeaveQuarantine():
                    self._quarantine.remove()
                case effects.NoteProof():
                    self._proof.write(Proof(is_complete=True, votes_above=job.votes_above))
                case effects.InstallSnapshot():
                    self._log.begin_anew_at(job.snapshot_id.offset)
                case effects.MoveLogStart():
                    self._log.delete_before(job.snapshot_id.offset)
                case _:
                    assert_never(job)
            self._last_io = job.io
        self._append(appends)

    def _append(self, appends: list[tuple[BatchHeader, Buffer]]) -> None:
        """Write the appends gathered so far, and sync them unless they may wait; then clear the list."""
        if appends:
            self._log.append(appends)
            self._unsynced_size_bytes += sum(header.size_bytes for header, _ in appends)
            appends.clear()
            if self._unsynced_size_bytes > self._unsynced_size_bytes_max:
                self._sync()

    def _sync(self) -> None:
        if self._unsynced_size_bytes:
            self._log.flush()
            self._unsynced_size_bytes = 0

    def _check_files(self) -> None:
        self._log.check_files()
        if self._directory is not None:
            self._directory.check_lock()

    def _settle(self) -> None:
        self._sync()
        self._log.settle()

    def _work(self, act: Callable[P, None], *arguments: P.args, **named: P.kwargs) -> None:
        """Refuse to work after a failure; any exception of ``act`` makes the lane unusable."""
        # A repeated fsync would report success for pages that the kernel has dropped.
        if self.failure is not None:
            raise StorageError(
                self._log.path,
                f"nothing more is written after a failure: {self.failure}",
                repair="restart the node once the disk works; it recovers what was durable",
            ) from self.failure
        try:
            act(*arguments, **named)
        except BaseException as error:
            self.failure = error
            raise
