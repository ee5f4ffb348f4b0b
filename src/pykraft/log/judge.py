"""Decides which part of a log counts, and what the first place that does not count is: a torn tail or damage.

Recovery, `pykraft verify` and Spark's reader all ask this module, so they agree about every directory. It reads no
file: headers and the evidence of the other files come in, and a verdict comes out. Invariant of a sound log: each batch
is whole (header, CRC), begins at the offset where the previous one ended, also across segments, and does not have a
smaller epoch. The first violation, at offset x, is

- *damage* if x lies below the recovery point, because it was synced once. A log that ends below its recovery point lost
  synced records, which is damage as well. If the recovery point cannot be read, or is missing although a node of
  ours wrote one (`NO_ONE_KNOWS`), nobody knows what was synced, so everything invalid is damage, but the log may end
  anywhere.
- *a torn tail* if x lies at or above the recovery point. It was never synced, or its truncation was interrupted. The
  log ends at x, and nothing after it counts, later segments included.
- without a recovery point (a Java node's directory), as `pykraft.log.tail` finds it: *damage* if a whole batch stands
  behind x that could follow in this log; else *a torn tail* if the bytes look like what a crash leaves; else
  *unproven*. A start truncates the last two, as Kafka does; `pykraft verify` and Spark report an unproven end, because
  it may hold acknowledged records.

A whole batch (right CRC) at the expected offset is never a torn tail, wherever the recovery point is: a crash cannot
produce a batch that was not written. Nor is a sector that the disk cannot read. But no CRC covers a batch's epoch, so
the epoch may be damaged. It counts as damage when it is smaller than the epoch before it; when it is 0 and the
checkpoint does not say so; when ``leader-epoch-checkpoint`` has another epoch for an offset below the recovery point,
or above it and the file does not merely lag; and when it is above the epoch of ``quorum-state`` and missing in
``leader-epoch-checkpoint``. ``quorum-state`` is durable before any record of its epoch, so a smaller epoch there means
that an older copy was restored, or that the file belongs to another log. If the checkpoint confirms the log's epoch, or
there is no checkpoint, the log is right and ``quorum-state`` is too old.

The file ``quarantine`` may say that a batch was found with a wrong epoch. If the batch still has it, and the checkpoint
does not confirm it, it still is damage: the checkpoint, or the memory of the node that found it, may be gone since.

`pykraft.log.evidence` reads the evidence. Source: Kafka's ``LogLoader.recoverLog``, ``LogSegment.recover``; the
recovery point is ours.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from pykraft.config import INT32_MAX
from pykraft.core.epochs import EpochCache
from pykraft.errors import CorruptionError, ReadError, UnusableLogError
from pykraft.log.paths import LOG, leftover_kind, parse_checkpoint
from pykraft.log.scan import epoch_in_words
from pykraft.log.small_files.epoch_checkpoint import FILE_NAME as EPOCHS_NAME
from pykraft.protocol.batch import BatchHeader, BatchRun
from pykraft.types import EPOCH_MAX, EPOCH_ZERO, Damage, Epoch, EpochStart, Offset

NO_ONE_KNOWS: Final = Offset(2**63 - 1)
"""Recovery point of a log that lost its own: anything invalid is damage, and the log may end anywhere."""

EPOCH_LEAST: Final = Epoch(1)
"""Nobody leads a quorum in epoch 0, so no record of one has it; other topics of Kafka begin with it."""

MISSING_START_REPAIR: Final = (
    "restore the missing segments, or a snapshot that reaches the log start, from another replica; empty the directory "
    "only if the other voters still hold the whole log or a snapshot of its beginning, and never that of an only voter"
)
SWAP_REPAIR: Final = (
    "start Kafka once on this directory; or empty the directory, but only if the other voters still hold the whole "
    "log, and never that of an only voter"
)


class EpochError(CorruptionError):
    """A whole batch at the expected offset whose epoch contradicts other files or the batch before it."""


class Verdict(Enum):
    """What ends the sound prefix of a log; the module explains each."""

    SOUND = "sound"
    """Nothing: the prefix is the whole log."""
    TORN = "torn"
    UNPROVEN = "unproven"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What other files say about a log: how far it was synced, where epochs begin, and the highest epoch."""

    recovery_point: Offset | None
    """None when there never was such a file; `NO_ONE_KNOWS` when it is lost or cannot be read."""
    epochs: EpochCache | None = None
    """None when there is no ``leader-epoch-checkpoint``; empty when it cannot be read."""
    epoch_max: Epoch = EPOCH_MAX
    """Epoch of ``quorum-state``; a record with a higher one counts if ``epochs`` does not contradict it."""
    noted: Sequence[Damage] = ()
    """The damaged places that ``quarantine`` names; some may be mended already."""

    @property
    def synced_offset(self) -> Offset:
        """Everything below this offset (exclusive) was synced once; 0 when nobody noted it."""
        return self.recovery_point or Offset(0)

    def is_unsynced(self, header: BatchHeader) -> bool:
        """True for a batch that the recovery point does not reach; False for all batches if nothing is known."""
        return self.recovery_point is not None and header.end_offset > self.recovery_point

    def note_on(self, header: BatchHeader) -> Damage | None:
        """The note that this batch was found with this epoch, which is wrong; None without one."""
        found = epoch_in_words(header.epoch)
        return next(
            (each for each in self.noted if (each.start_offset, each.found) == (header.base_offset, found)), None
        )

    def noted_after(self, offset: Offset) -> Offset:
        """The first noted place above this offset."""
        return min((each.start_offset for each in self.noted if each.start_offset > offset), default=NO_ONE_KNOWS)

    def verdict_on(self, problem: CorruptionError, offset: Offset, *, judge_bytes: Callable[[], Verdict]) -> Verdict:
        """What a problem at this offset is.

        ``judge_bytes`` judges the bytes from there on (`pykraft.log.tail`); it is called only if nothing else tells.
        """
        if isinstance(problem, EpochError | ReadError):
            # A crash leaves neither a whole batch that nobody wrote nor a sector that cannot be read.
            return Verdict.DAMAGED
        if self.recovery_point is None:
            return judge_bytes()
        return Verdict.DAMAGED if offset < self.recovery_point else Verdict.TORN

    def missing_end(self, path: Path, position: int, end_offset: Offset) -> CorruptionError | None:
        """The problem of a log whose last sound batch ends at this offset, below its recovery point; None if it is not.

        Above it nothing is missing: the recovery point lags behind the log.
        """
        if not end_offset < self.synced_offset < NO_ONE_KNOWS:
            return None
        return CorruptionError(path, position=position, expected=f"offset {end_offset}", found="the end of the log")


class Chain:
    """Checks that each batch follows the one before it; one pass over a log, or a part of it, front to back.

    ``offset`` is where the next batch must begin, and ``epoch`` the smallest epoch that it may have.
    """

    __slots__ = ("_agreed_until", "_evidence", "_segment_offset", "epoch", "offset")

    def __init__(
        self, evidence: Evidence, offset: Offset, epoch: Epoch = EPOCH_ZERO, *, segment_offset: Offset | None = None
    ) -> None:
        """Begin before the batch at ``offset``, in the segment with this base offset if it is not the first there."""
        self.offset = offset
        self.epoch = epoch
        self._evidence = evidence
        self._segment_offset = offset if segment_offset is None else segment_offset
        self._agreed_until = Offset(-1)

    def begin_segment(self, path: Path, base_offset: Offset) -> None:
        """The next batch is the first of this segment. Errors: CorruptionError when it cannot follow."""
        self._segment_offset = base_offset
        if base_offset != self.offset:
            found = f"a segment that begins at offset {base_offset}"
            raise CorruptionError(path, position=0, expected=f"offset {self.offset}", found=found)

    def restart(self, offset: Offset) -> None:
        """Continue after damage, at this offset; its epoch cannot be compared with those before the damage."""
        self.offset = offset
        self.epoch = EPOCH_ZERO
        self._agreed_until = Offset(-1)

    def check(self, path: Path, position: int, header: BatchHeader) -> None:
        """Refuse a batch that is sound in itself but cannot follow the previous one, or take it as the new last one.

        Errors: CorruptionError; EpochError if only the epoch is wrong.
        """
        if header.base_offset != self.offset:
            raise _misplaced(path, position, f"offset {self.offset}", f"offset {header.base_offset}")
        if header.epoch < self.epoch:
            raise _contradicted(path, position, f"an epoch of at least {self.epoch}", header)
        if header.last_offset - self._segment_offset > INT32_MAX or position + header.size_bytes > INT32_MAX:
            raise _misplaced(path, position, "a segment of less than 2^31 offsets and bytes", "a larger one")
        if header.epoch != self.epoch or header.base_offset >= self._agreed_until:
            self._check_epoch(path, position, header)
        self.offset = header.end_offset
        self.epoch = header.epoch

    def check_run(self, run: BatchRun) -> bool:
        """Take these batches as the next ones, if nothing about them needs a closer look; else change nothing."""
        is_next = (
            run.base_offset == self.offset
            and run.epoch == self.epoch
            # No other file has to be asked about an epoch before this offset.
            and run.end_offset <= self._agreed_until
            and run.last_offsets[-1] - self._segment_offset <= INT32_MAX
            and run.end <= INT32_MAX
        )
        if is_next:
            self.offset = run.end_offset
        return is_next

    def skip(self, header: BatchHeader) -> None:
        """Continue after a batch that `check` refused, to look for further damage."""
        self.offset = header.end_offset
        # The batches after it are compared with the smaller epoch: one flipped bit is reported once.
        self.epoch = min(self.epoch, header.epoch)

    def _check_epoch(self, path: Path, position: int, header: BatchHeader) -> None:
        evidence = self._evidence
        entries = () if evidence.epochs is None else evidence.epochs.entries
        at = bisect_right(entries, header.base_offset, key=lambda entry: entry.start_offset)
        epoch = entries[at - 1].epoch if at else None
        if epoch != header.epoch:
            # Whoever noted it knew the right epoch from a checkpoint or a memory that may be gone by now.
            if (note := evidence.note_on(header)) is not None:
                raise _contradicted(path, position, note.expected, header)
            # quorum-state is durable before any record of its epoch, and the checkpoint does not confirm this epoch
            # either. Without a checkpoint only the batches know the epochs, so the log is right even if quorum-state
            # has a smaller epoch.
            if evidence.epochs is not None and header.epoch > evidence.epoch_max:
                expected = (
                    f"an epoch that {EPOCHS_NAME} has for this offset, or one of at most {evidence.epoch_max}, which "
                    "quorum-state has"
                )
                raise _contradicted(path, position, expected, header)
            if epoch is not None and (
                header.base_offset < evidence.synced_offset or not _may_lag(evidence, entries, at, header)
            ):
                raise _contradicted(path, position, f"epoch {epoch} as in {EPOCHS_NAME}", header)
            if header.epoch < EPOCH_LEAST:
                raise _contradicted(path, position, f"an epoch of at least {EPOCH_LEAST}", header)
        # The next batches of this epoch need no look before the checkpoint's next entry, or a noted place.
        next_entry = entries[at].start_offset if at < len(entries) else NO_ONE_KNOWS
        self._agreed_until = min(next_entry, evidence.noted_after(header.base_offset))


def _may_lag(evidence: Evidence, entries: Sequence[EpochStart], at: int, header: BatchHeader) -> bool:
    """True when a checkpoint whose entry ``at - 1`` covers this sound batch, which has another epoch, may only lag.

    A node of ours writes the file after the first batch of an epoch, and before anything follows a truncation. So the
    file lags behind the log by the epochs after its last entry alone. Java may write it later.
    """
    is_later = at == len(entries) and header.epoch > entries[at - 1].epoch
    return is_later or evidence.recovery_point is None


def refuse_impossible(
    directory: Path, names: Sequence[str], base_offsets: Sequence[Offset], *, repair: str = MISSING_START_REPAIR
) -> None:
    """Refuse a log that lacks its beginning and has no snapshot in its place, and one that Kafka was about to swap.

    Errors: UnusableLogError; with this ``repair`` for a beginning that is lost.
    """
    if (start_offset := lost_before(names, base_offsets)) > 0:
        raise UnusableLogError(
            directory,
            f"the log starts at offset {start_offset} and no snapshot reaches that far: the records before are lost",
            repair=repair,
        )
    for name in names:
        if leftover_kind(name) == "swap":
            raise UnusableLogError(
                directory / name,
                "Kafka was stopped while it replaced this segment, which it never does to a Raft log",
                repair=SWAP_REPAIR,
            )


def lost_before(names: Sequence[str], base_offsets: Sequence[Offset]) -> Offset:
    """The offset before which all records are lost, because the log starts there and no snapshot reaches it; else 0."""
    start_offset = min(base_offsets, default=Offset(0))
    snapshots = filter(None, map(parse_checkpoint, names))
    return Offset(0) if any(snapshot.offset >= start_offset for snapshot in snapshots) else start_offset


def end_of_cleaning(names: Sequence[str], gaps: Iterable[tuple[Offset, Offset]]) -> Offset:
    """The log start once a cleaning that a power loss interrupted is finished; 0 when there was none.

    ``gaps`` are where a segment ended too early and where the next one begins. `pykraft.log.log.Log.delete_before`
    retires segments oldest first, but a file system may keep a later rename and lose an earlier one. Then a segment is
    missing between two others. That is neither damage nor a torn tail: a snapshot has all of its records, and the
    records after the gap may have been acknowledged.
    """
    retired = [Offset(int(name[:20])) for name in names if leftover_kind(name) == "deleted" and LOG in name]
    snapshot_end = max((snapshot.offset for snapshot in map(parse_checkpoint, names) if snapshot), default=Offset(0))
    first_offset = Offset(0)
    for end_offset, base_offset in gaps:
        # Only a retired segment may be missing.
        if any(end_offset <= offset < base_offset <= snapshot_end for offset in retired):
            first_offset = base_offset
    return first_offset


def _contradicted(path: Path, position: int, expected: str, header: BatchHeader) -> EpochError:
    return EpochError(path, position=position, expected=expected, found=epoch_in_words(header.epoch))


def _misplaced(path: Path, position: int, expected: str, found: str) -> CorruptionError:
    return CorruptionError(path, position=position, expected=expected, found=found)
