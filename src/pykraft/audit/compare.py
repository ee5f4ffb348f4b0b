"""Compares the logs of replicas by their digests, and decides what a difference means.

Where a range of offsets has other digests, `pykraft.audit.narrow` finds the first byte. By Raft's Log Matching, two
logs with a batch of the same epoch at one offset are equal up to there. So a difference is damage if

1. the batches at this offset have the same epoch, or one of them is not sound;
2. a later offset has the same epoch in both logs; or
3. the offset is committed: below the end of a snapshot, or of an acknowledged record.

Otherwise a log has records that a later leader replaced, and that were never committed: it will truncate them.

The reference is the log with which most others agree. Source: KIP-595; Raft §5.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pykraft.audit.findings import AuditKind, AuditReport
from pykraft.audit.judged import JudgedLog
from pykraft.audit.narrow import ByteDifference, NarrowTask
from pykraft.core.epochs import epoch_at
from pykraft.text.words import counted
from pykraft.types import Offset

NARROWED_MAX: Final = 64
"""Ranges of one replica in which the first byte is looked for: the first ones."""
DIFFERS_ADVICE: Final = (
    "if the other replicas agree, stop this one, keep a copy of its directory, and let it fetch the log from the leader"
)


def narrow_tasks(logs: Sequence[JudgedLog], width: int) -> list[NarrowTask]:
    """The pairs of logs that differ in a range of this width, at most NARROWED_MAX ranges of a log."""
    narrowed: Counter[Path] = Counter()
    tasks: list[NarrowTask] = []
    for number in sorted({number for log in logs for number in log.digests}):
        start, end = Offset(number * width), Offset((number + 1) * width)
        here = [log for log in logs if log.start_offset < end and log.end_offset > start]
        votes = Counter(log.digests.get(number) for log in here)
        if len(votes) == 1:
            continue
        known = [log for log in here if number in log.digests]
        reference = max(known, key=lambda log: (votes[log.digests[number]], log.is_sound, log.end_offset))
        for other in here:
            if other.digests.get(number) != reference.digests[number] and narrowed[other.path] < NARROWED_MAX:
                narrowed[other.path] += 1
                first = Offset(max(start, other.start_offset, reference.start_offset))
                tasks.append(NarrowTask(reference=reference.path, other=other.path, start_offset=first, end_offset=end))
    return tasks


def is_damage(found: ByteDifference, other: JudgedLog, reference: JudgedLog, committed: Offset) -> bool:
    """Whether a difference is more than records that were never committed; the module has the three rules."""
    # 1. The same epoch, or no sound batch.
    if found.epoch is None or found.epoch == found.reference_epoch:
        return True
    # 3. Committed.
    if found.offset < committed:
        return True
    # 2. The same epoch later on. It is enough to look where an epoch of either log begins.
    end = min(other.end_offset, reference.end_offset)
    starts = {found.offset, *(entry.start_offset for entry in (*other.epochs, *reference.epochs))}
    later = [offset for offset in starts if found.offset <= offset < end]
    return any(epoch_at(other.epochs, offset) == epoch_at(reference.epochs, offset) for offset in later)


def tell_differences(
    logs: Sequence[JudgedLog],
    pairs: Sequence[tuple[NarrowTask, ByteDifference]],
    acknowledged_end: Offset,
    report: AuditReport,
) -> None:
    """Report what the tasks found; ``acknowledged_end`` is the offset after the last acknowledged record."""
    by_path = {log.path: log for log in logs}
    committed = max([acknowledged_end, *(end for log in logs for end in log.snapshot_ends)])
    at_place = Counter((found.reference_path, found.reference_position) for _, found in pairs)
    told: set[tuple[Path, int]] = set()
    over: set[Path] = set()
    for task, found in sorted(pairs, key=lambda pair: pair[1].offset):
        other, reference = by_path[task.other], by_path[task.reference]
        place, place_there = (found.path, found.position), (found.reference_path, found.reference_position)
        here = sum(log.start_offset <= found.offset < log.end_offset for log in logs)
        if found.epoch is not None and at_place[place_there] > here - at_place[place_there]:
            # More logs differ from the reference than agree with it: the reference itself is alone.
            other, reference, place, place_there = reference, other, place_there, place
        if place in told or other.path in over:
            continue
        told.add(place)
        beside = f"{reference.replica} at byte {place_there[1]} of {place_there[0].name}"
        if is_damage(found, other, reference, committed):
            report.add(
                AuditKind.DIFFERS,
                other.replica,
                *place,
                expected=f"what {beside} has, in the batch at offset {found.offset}",
                found="other bytes",
                advice=DIFFERS_ADVICE,
            )
            continue
        # The rest of this log differs as well, and for the same reason.
        over.add(other.path)
        text = (
            f"from byte {place[1]} (offset {found.offset}) on, the log differs from {beside}, with epochs "
            f"{found.epoch} and {found.reference_epoch}: one of them has uncommitted records of an older leader, which "
            "it truncates at its next fetch"
        )
        report.add_note(other.replica, place[0], text)


def tell_ends(logs: Sequence[JudgedLog], report: AuditReport) -> None:
    """Say which logs end before the furthest one: such a replica is only behind."""
    furthest = max(logs, key=lambda log: log.end_offset)
    for log in logs:
        if log.end_offset < furthest.end_offset:
            behind = counted(furthest.end_offset - log.end_offset, "record")
            text = f"ends at offset {log.end_offset}, {behind} before {furthest.replica}"
            report.add_note(log.replica, log.path, text)
