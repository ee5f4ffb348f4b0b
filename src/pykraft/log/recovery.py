"""Signatures first; the body follows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pykraft.types import Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptRange:
    """Bytes below the recovery point that are not what was once synced; nothing was changed on disk."""

    path: Path
    position: int
    start_offset: Offset
    end_offset: Offset
    expected: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What opening a log found and did; everything it left is durable when it is returned."""

    recovery_point: Offset | None
    """Offset up to which (exclusive) the log was known to be synced; None: no file (a Java node's directory)."""
    truncated_bytes: int
    """Bytes of a torn tail that were cut off, 0 after a clean stop."""
    scanned_bytes: int
    corrupt: tuple[CorruptRange, ...]
    notes: tuple[str, ...]
    """Sentences for the operator's log, one per finding."""

    def refuse_corrupt(self) -> None:
        """Raise a CorruptionError with file, position and repair if anything below the recovery point is bad."""
        ...
