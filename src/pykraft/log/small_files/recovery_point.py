"""How far the log was once synced, and how far it was known to be committed then.

File ``recovery-point`` in the partition directory, ours alone (Java ignores it): a `SlotFile` whose payload is two
offsets, exclusive, in decimal digits: ``<recovery point> <committed end>``. Older versions wrote only the first.

Invariant: every batch below the *durable* point has been synced and not been truncated since. So after a crash, an
unreadable batch below the point is corruption, and one above it is a torn tail. Everything below the committed end is
committed: a leader that asks this replica to truncate it has lost records (ADR 128).

- The point rises after a flush. It is written at once, so that it survives the process, and synced by `settle`: now
  and then, since each sync takes as long as one of the log. After a power loss it may therefore lag by a few groups of
  appends (ADR 059). A lagging point is safe: at worst, a damaged batch of these groups looks torn.
- The point falls before a truncation: it is written and synced first. A crash in between leaves a whole log that ends
  above the point. The committed end falls with it; only damage and snapshots cut that deep.
- The committed end lags as the point does, and by one more flush: it is a lower bound.

If the file is absent in a Java node's directory, nothing is known, and what looks like a torn tail is one. If it is
absent in one of ours, which other files show, it was lost: see `pykraft.log.evidence.wrote_point`.

Source: ours, after Kafka's ``recovery-point-offset-checkpoint``, which KRaft does not use.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pykraft.errors import CorruptionError
from pykraft.log.fs import Fs
from pykraft.log.small_files.slots import SlotFile, parse_slots
from pykraft.types import Offset
from pykraft.value import value

FILE_NAME = "recovery-point"
OFFSET_MAX = 2**63 - 1
NOTHING_COMMITTED: Final = Offset(0)
REPAIR = (
    "start the node: it writes the file again if the log is valid to its end, and otherwise fetches the invalid part "
    "from the leader. To truncate the log at its first invalid batch instead, as Kafka does, stop the node and remove "
    f"{FILE_NAME}, quarantine and quorum-state.check, and replica-proof beside meta.properties; acknowledged records "
    "may then be lost"
)


@value(frozen=True, slots=True)
class Point:
    """What the file says: both offsets are exclusive, and ``committed_end_offset`` is not above ``offset``."""

    offset: Offset
    committed_end_offset: Offset


class RecoveryPoint:
    """The open file and its offsets."""

    def __init__(self, file: SlotFile, point: Point) -> None:
        self._file = file
        self.offset = point.offset
        """The recovery point as last written, exclusive."""
        self.committed_end_offset = point.committed_end_offset
        """Everything below is committed, as last written."""

    @classmethod
    def create(cls, fs: Fs, directory: Path, offset: Offset) -> RecoveryPoint:
        """Create the file, durably; everything below the offset must be durable already."""
        point = Point(offset, Offset(0))
        return cls(SlotFile.create(fs, directory / FILE_NAME, _encode(point)), point)

    @classmethod
    def open(cls, fs: Fs, directory: Path) -> RecoveryPoint | None:
        """Open the file; None when it is absent. Errors: CorruptionError with the repair."""
        path = directory / FILE_NAME
        if not fs.exists(path):
            return None
        file = SlotFile.open(fs, path, repair=REPAIR)
        try:
            return cls(file, _point_of(path, file.newest.payload))
        except CorruptionError:
            file.close()
            raise

    def raise_to(self, offset: Offset, committed_end_offset: Offset = NOTHING_COMMITTED) -> None:
        """The log is durable up to ``offset``, and committed up to the other: write both without a sync."""
        offset = max(offset, self.offset)
        committed_end_offset = max(min(offset, committed_end_offset), self.committed_end_offset)
        if (offset, committed_end_offset) != (self.offset, self.committed_end_offset):
            self._file.rewrite(self._take(offset, committed_end_offset))

    def lower_to(self, offset: Offset) -> None:
        """The log is about to be truncated to ``offset``; the point is durable when this returns."""
        if offset < self.offset:
            self._file.write(self._take(offset, min(offset, self.committed_end_offset)))
        self.settle()

    def settle(self) -> None:
        """Sync the point unless it is durable already."""
        self._file.sync()

    def close(self) -> None:
        """Close without syncing."""
        self._file.close()

    def _take(self, offset: Offset, committed_end_offset: Offset) -> bytes:
        self.offset, self.committed_end_offset = offset, committed_end_offset
        return _encode(Point(offset, committed_end_offset))


def parse_recovery_point(path: Path, content: bytes) -> Point:
    """The offsets in the bytes of the file, for code that only reads. Errors: CorruptionError with the repair."""
    slots = parse_slots(content)
    if not slots:
        raise _unreadable(path, "none with a valid checksum in its two slots")
    return _point_of(path, slots[-1].payload)


def _encode(point: Point) -> bytes:
    return b"%d %d" % (point.offset, point.committed_end_offset)


def _point_of(path: Path, payload: bytes) -> Point:
    words = payload.split(b" ")
    is_number = all(word.isdigit() and len(word) <= 19 and int(word) <= OFFSET_MAX for word in words)
    if len(words) > 2 or not is_number:
        raise _unreadable(path, repr(payload[:32]))
    point = Point(Offset(int(words[0])), Offset(int(words[1])) if len(words) > 1 else NOTHING_COMMITTED)
    if point.committed_end_offset > point.offset:
        raise _unreadable(path, repr(payload[:32]))
    return point


def _unreadable(path: Path, found: str) -> CorruptionError:
    return CorruptionError(path, position=0, expected="an offset", found=found, repair=REPAIR)
