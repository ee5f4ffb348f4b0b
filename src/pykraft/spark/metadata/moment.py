"""A moment in the life of a cluster: an offset of its metadata log, or a wall time.

- ``157``: after the records below offset 157, as a snapshot of this end offset holds them.
- ``2026-11-23T14:03`` (UTC unless it names a zone): after the records that were appended up to then.

Times are those that leaders wrote into batches. A leader whose clock was behind may have appended a later record with
an earlier time; the log up to the first record that is too new counts.

Source: ISO 8601.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pykraft.errors import UsageError
from pykraft.types import Offset

_OFFSET: Final = re.compile("[0-9]{1,19}")
_OFFSET_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An exclusive end offset, or an inclusive wall time (ms); neither: what is known now."""

    end_offset: Offset | None = None
    wall_ms: int | None = None

    def includes(self, offset: Offset, timestamp_ms: int) -> bool:
        """Whether a record at this offset, appended at this time, was there."""
        if self.end_offset is not None:
            return offset < self.end_offset
        return self.wall_ms is None or timestamp_ms <= self.wall_ms


NOW: Final = Moment()


def parse_moment(text: str, option: str) -> Moment:
    """An offset or a time, as ``option`` of a command gave it. Errors: UsageError."""
    if _OFFSET.fullmatch(text):
        if int(text) > _OFFSET_MAX:
            raise UsageError(f"{option} {text}: an offset is at most {_OFFSET_MAX}")
        return Moment(end_offset=Offset(int(text)))
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return Moment(wall_ms=int(time.timestamp() * 1_000))
    except (ValueError, OverflowError):
        raise UsageError(f"{option} {text}: give an offset, or a time such as 2026-11-23T14:03") from None
