"""Logs as the judge leaves them, without files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pykraft.audit.judged import JudgedLog
from pykraft.audit.part import RangeDigest
from pykraft.log.offline.verify_log import LogSummary
from pykraft.types import EpochStart, Offset


def judged_log(
    name: str,
    *,
    epochs: Sequence[EpochStart] = (),
    end_offset: int = 0,
    salt: int = 0,
    recovery_point: int = 0,
    producers_offset: int = 0,
) -> JudgedLog:
    """A log of one segment, with a digest of each offset; ``salt`` makes the digests differ."""
    digests = {
        at: RangeDigest(
            number=at,
            first_offset=Offset(at),
            end_offset=Offset(at + 1),
            batches_count=1,
            size_bytes=80,
            total=at + salt,
        )
        for at in range(end_offset)
    }
    return JudgedLog(
        replica=name,
        path=Path("/data") / name,
        segments=[(Offset(0), 80 * end_offset)],
        start_offset=Offset(0),
        end_offset=Offset(end_offset),
        epochs=epochs,
        is_sound=True,
        digests=digests,
        snapshot_ends=[],
        summary=LogSummary(),
        recovery_point=Offset(recovery_point),
        producers_offset=Offset(producers_offset),
    )
