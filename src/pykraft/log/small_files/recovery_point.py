"""How far the log was once synced; this separates a torn tail from damage.

File ``recovery-point`` in the partition directory, ours alone (Java ignores it): a `SlotFile` whose payload is the
offset, exclusive, in decimal digits. Invariant: every batch below the *durable* point has been synced and not been
truncated since. So after a crash, an unreadable batch below the point is corruption, and one above it is a torn tail.

- The point rises after a flush. It is written at once, so that it survives the process, and synced by `settle`: now
  and then, since each sync takes as long as one of the log. After a power loss it may therefore lag by a few groups of
  appends (ADR 059). A lagging point is safe: at worst, a damaged batch of these groups looks torn.
- The point falls before a truncation: it is written and synced first. A crash in between leaves a whole log that ends
  above the point.

If the file is absent in a Java node's directory, nothing is known, and what looks like a torn tail is one. If it is
absent in one of ours, which other files show, it was lost: see `pykraft.log.evidence.wrote_point`.

Source: ours, after Kafka's ``recovery-point-offset-checkpoint``, which KRaft does not use.
"""

from __future__ import annotations

from pathlib import Path

from pykraft.errors import CorruptionError
from pykraft.log.fs import Fs
from pykraft.log.small_files.slots import SlotFile, parse_slots
from pykraft.types import Offset

FILE_NAME = "recovery-point"
OFFSET_MAX = 2**63 - 1
REPAIR = (
    "start the node: it writes the file again if the log is valid to its end, and otherwise fetches the invalid part "
    "from the leader. To truncate the log at its first invalid batch instead, as Kafka does, stop the node and remove "
    f"{FILE_NAME}, quarantine and quorum-state.check, and replica-proof beside meta.properties; acknowledged records "
    "may then be lost"
)


class RecoveryPoint:
    """The open file and its offset."""

    def __init__(self, file: SlotFile, offset: Offset) -> None:
        self._file = file
        self.offset = offset
        """The recovery point as last written, exclusive."""

    @classmethod
    def create(cls, fs: Fs, directory: Path, offset: Offset) -> RecoveryPoint:
        """Create the file, durably; everything below the offset must be durable already."""
        return cls(SlotFile.create(fs, directory / FILE_NAME, b"%d" % offset), offset)

    @classmethod
    def open(cls, fs: Fs, directory: Path) -> RecoveryPoint | None:
        """Open the file; None when it is absent. Errors: CorruptionError with the repair."""
        path = directory / FILE_NAME
        if not fs.exists(path):
            return None
        file = SlotFile.open(fs, path, repair=REPAIR)
        try:
            return cls(file, _offset_of(path, file.newest.payload))
        except CorruptionError:
            file.close()
            raise

    def raise_to(self, offset: Offset) -> None:
        """The log is durable up to ``offset``: write this point without a sync."""
        if offset > self.offset:
            self._file.rewrite(b"%d" % offset)
            self.offset = offset

    def lower_to(self, offset: Offset) -> None:
        """The log is about to be truncated to ``offset``; the point is durable when this returns."""
        if offset < self.offset:
            self._file.write(b"%d" % offset)
            self.offset = offset
        self.settle()

    def settle(self) -> None:
        """Sync the point unless it is durable already."""
        self._file.sync()

    def close(self) -> None:
        """Close without syncing."""
        self._file.close()


def parse_recovery_point(path: Path, content: bytes) -> Offset:
    """The offset in the bytes of the file, for code that only reads. Errors: CorruptionError with the repair."""
    slots = parse_slots(content)
    if not slots:
        raise _unreadable(path, "none with a valid checksum in its two slots")
    return _offset_of(path, slots[-1].payload)


def _offset_of(path: Path, payload: bytes) -> Offset:
    if not payload.isdigit() or len(payload) > 19 or int(payload) > OFFSET_MAX:
        raise _unreadable(path, repr(payload[:32]))
    return Offset(int(payload))


def _unreadable(path: Path, found: str) -> CorruptionError:
    return CorruptionError(path, position=0, expected="an offset", found=found, repair=REPAIR)
