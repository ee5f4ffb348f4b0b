"""What a check of a log, or of a part of it, found out about it.

A log that is larger than one process can read in time is checked in parts, which know nothing of each other:
`pykraft.log.offline.verify_log.LogCheck.run_part` checks one, and `LogCheck.join` puts the results together. Invariant:
the size of a result does not depend on the size of the part, but on the number of its epochs and findings, and findings
are limited (`pykraft.log.offline.verify_findings`).

Source: ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pykraft.log.judge import Verdict
from pykraft.log.offline.verify_findings import Findings
from pykraft.types import Epoch, EpochStart, Offset

OFFSET_ZERO: Final = Offset(0)


@dataclass(slots=True)
class LogSummary:
    """Facts about the log, as far as it was read; ``end_offset`` is exclusive."""

    start_offset: Offset = OFFSET_ZERO
    end_offset: Offset = OFFSET_ZERO
    segments_count: int = 0
    batches_count: int = 0
    size_bytes: int = 0
    epochs: list[EpochStart] = field(default_factory=list)
    verdict: Verdict = Verdict.SOUND
    """What ends the sound prefix of the log."""
    sound_end_offset: Offset = OFFSET_ZERO
    """Where the sound prefix ends; the check continues after damage."""
    recovery_point: Offset | None = None
    """None when there is no such file, or when it is damaged."""

    @property
    def is_sound(self) -> bool:
        """True when all batches that count are as they were written."""
        return self.verdict in (Verdict.SOUND, Verdict.TORN)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """Some bytes of one segment, from the start of a batch to that of another one, or to the end of the file.

    ``start`` and ``end`` (exclusive) are positions; ``offset`` is the base offset of the first batch.
    """

    base_offset: Offset
    start: int
    end: int
    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPart:
    """What `LogCheck.run_part` found in a part, for the one who joins the parts of a log."""

    part: LogPart
    summary: LogSummary
    findings: Findings
    is_offset_known: bool
    """False when the part ends with bytes whose offsets nobody knows; else the next batch has ``end_offset``."""
    is_over: bool
    """The log ends in this part, whatever comes after it."""
    epoch: Epoch | None
    """Smallest epoch that the next batch may have; None when the part has no sound batch."""
    max_timestamp: int
    first_time_entry: tuple[int, int] | None
    """Position and timestamp of the first entry of the time index about this part; None if there is none."""
