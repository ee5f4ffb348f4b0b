"""One log of one replica after its judgment: what the comparison and the search for acknowledged records need of it.

Source: ours; Kafka's ``ProducerStateManager`` names the files that tell how far a log was written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pykraft.audit.digest import RangeDigest
from pykraft.audit.part import PartResult
from pykraft.audit.plan import AuditedPartition
from pykraft.log.judge import Verdict
from pykraft.log.offline.verify import PartitionReport
from pykraft.log.offline.verify_parts import LogSummary
from pykraft.log.paths import LOG, parse_checkpoint, segment_file
from pykraft.log.small_files import recovery_point
from pykraft.types import EpochStart, Offset

_PRODUCER_SNAPSHOT: Final = re.compile(r"([0-9]{20})\.snapshot")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedLog:
    """A log, and what the tasks and the judge found; ``end_offset`` is exclusive."""

    replica: str
    path: Path
    segments: Sequence[tuple[Offset, int]]
    start_offset: Offset
    end_offset: Offset
    epochs: Sequence[EpochStart]
    is_sound: bool
    digests: Mapping[int, RangeDigest]
    snapshot_ends: Sequence[Offset]
    summary: LogSummary
    recovery_point: Offset
    """How far our node says that the log was synced once; 0 if it does not."""
    producers_offset: Offset
    """How far the names of Kafka's files say that the log was written once; 0 if there are none."""

    @property
    def missing_end(self) -> tuple[Offset, str] | None:
        """The offset that the log reached once, and the file that says so; None if it does still."""
        said = ((self.recovery_point, recovery_point.FILE_NAME), (self.producers_offset, _producers_file(self)))
        furthest = max(said)
        return furthest if self.segments and self.end_offset < furthest[0] else None

    def segment_of(self, offset: Offset) -> tuple[Path, Offset, int]:
        """The segment that should hold this offset: path, base offset, size in bytes."""
        found = (segment for segment in reversed(self.segments) if segment[0] <= offset)
        base_offset, size_bytes = next(found, self.segments[0] if self.segments else (Offset(0), 0))
        return self.path / segment_file(base_offset, LOG), base_offset, size_bytes


def _producers_file(log: JudgedLog) -> str:
    return f"{log.producers_offset:020d}.snapshot"


def judged(partition: AuditedPartition, report: PartitionReport, results: Sequence[PartResult]) -> JudgedLog:
    """Put together what is known of a log. Digests of parts that share a range are added."""
    digests: dict[int, RangeDigest] = {}
    for one in (digest for result in results for digest in result.digests):
        known = digests.get(one.number)
        digests[one.number] = one if known is None else known.plus(one)
    log = report.log
    snapshots = [found.offset for found in map(parse_checkpoint, partition.names) if found]
    written = [int(match[1]) for match in map(_PRODUCER_SNAPSHOT.fullmatch, partition.names) if match]
    return JudgedLog(
        replica=partition.replica,
        path=partition.path,
        segments=partition.segments,
        start_offset=log.start_offset,
        end_offset=log.end_offset,
        epochs=log.epochs,
        is_sound=log.verdict is Verdict.SOUND,
        digests=digests,
        snapshot_ends=[end for end in snapshots if end <= log.end_offset],
        summary=log,
        recovery_point=report.recovery_point or Offset(0),
        producers_offset=Offset(max(written, default=0)),
    )
