"""Checks the indexes of a segment against its batches.

The comparison runs along with one pass over the log file. Invariant: a sound index has ascending entries and zeros up
to its end, and each entry of

- the offset index has the last offset of the batch that begins at its position;
- the time index has the last offset of a batch and that batch's largest timestamp, and no batch before has a larger
  one.

Entries are skipped where the log itself is damaged, and after the end of the checked log. Memory: one chunk of
each index.

Source: Kafka's ``OffsetIndex``, ``TimeIndex``, ``LogSegment``.
"""

import struct
from pathlib import Path
from typing import Final

from pykraft.log.fs import File
from pykraft.log.index import OFFSET_ENTRY, TIME_ENTRY, index_entries
from pykraft.log.offline.verify_findings import Findings
from pykraft.types import Offset

ZEROS_SIZE_BYTES: Final = 1024 * 1024
ADVICE: Final = "stop the node and remove this index: it is derived from the log again at the next start"
NO_TIMESTAMP: Final = -1
_NEVER: Final = 2**63


class _IndexCheck:
    """Checks the entries of one index file, one at a time.

    ``ahead`` is the next entry, and ``next`` where it says that the log has its batch: a position, or an offset.
    """

    def __init__(
        self, path: Path, file: File, layout: struct.Struct, findings: Findings, *, what: str, base: int
    ) -> None:
        self.path = path
        self.at = 0
        """Position of ``ahead`` in the index file."""
        self._file = file
        self._layout = layout
        self._findings = findings
        self._what = what
        self._base = base
        self._entries = index_entries(file, layout)
        self._is_broken = False
        self.ahead: tuple[int, int] | None = None
        self.next = _NEVER
        self.advance()

    def advance(self) -> None:
        """Take the next entry; one that does not ascend is damage, and the index is not read further."""
        last, self.ahead, self.next = self.ahead, None, _NEVER
        found = next(self._entries, None)
        if found is None:
            self.at += self._layout.size if last is not None else 0
            return
        self.at, entry = found
        if last is not None and not (entry[0] > last[0] and entry[1] >= last[1]):
            self.damage(f"an entry above {last}", str(entry))
            self._is_broken = True
            return
        self.ahead, self.next = entry, self._base + entry[1]

    def skip_to(self, place: int) -> None:
        """Skip the entries below this place: the log is damaged there, so they cannot be checked."""
        while self.next < place:
            self.advance()

    def finish(self, end: int, *, is_growing: bool) -> None:
        """Check what is left at the end of the log; while the log is growing, later entries may follow.

        Only zeros follow the last entry, and no part of an entry.
        """
        if is_growing or self._is_broken:
            return
        if self.ahead is not None:
            self.damage(f"{self._what} below {end}, the end of the log", f"{self.next}")
            return
        size_bytes = self._file.size()
        # A running node has added an entry where the zeros began, so there is nothing to check.
        if any(self._file.pread(self._layout.size, self.at)) and size_bytes % self._layout.size == 0:
            return
        if odd := size_bytes % self._layout.size:
            self.at = size_bytes - odd
            self.damage(f"whole entries of {self._layout.size} bytes", f"{odd} bytes at the end")
            return
        for start in range(self.at, size_bytes, ZEROS_SIZE_BYTES):
            rest = self._file.pread(min(ZEROS_SIZE_BYTES, size_bytes - start), start).lstrip(b"\0")
            if rest:
                self.at = min(start + ZEROS_SIZE_BYTES, size_bytes) - len(rest)
                self.damage("zeros after the last entry", f"{rest[:8].hex(' ')}")
                return

    def damage(self, expected: str, found: str) -> None:
        """Report that the entry ahead is wrong."""
        self._findings.add_damage(self.path, self.at, expected=expected, found=found, advice=ADVICE)


class OffsetIndexCheck(_IndexCheck):
    """Checks the offset index; ``next`` is the position where its next entry says that a batch begins."""

    def __init__(self, path: Path, file: File, base_offset: Offset, findings: Findings) -> None:
        super().__init__(path, file, OFFSET_ENTRY, findings, what="a position", base=0)
        self._base_offset = base_offset

    def saw(self, position: int, last_offset: int) -> None:
        """Check the entries up to this batch, which begins at or after ``next``."""
        while self.ahead is not None and self.next <= position:
            delta, entry_position = self.ahead
            offset = self._base_offset + delta
            expected = f"a batch that ends with offset {offset} at position {entry_position} of the log"
            if entry_position < position:
                self.damage(expected, "no batch that begins there")
            elif last_offset != offset:
                self.damage(expected, f"one that ends with offset {last_offset}")
            self.advance()


class TimeIndexCheck(_IndexCheck):
    """Checks the time index; ``next`` is the offset of its next entry."""

    def __init__(self, path: Path, file: File, base_offset: Offset, findings: Findings) -> None:
        super().__init__(path, file, TIME_ENTRY, findings, what="an offset", base=base_offset)

    def saw(self, last_offset: int, own_timestamp: int, max_timestamp: int) -> None:
        """Check the entries up to this batch; ``max_timestamp`` is the largest timestamp up to and including it."""
        while self.ahead is not None and self.next <= last_offset:
            timestamp = self.ahead[0]
            expected = f"a batch that ends with offset {self.next}, its largest timestamp {timestamp}"
            if self.next < last_offset:
                self.damage(expected, "no batch that ends there")
            elif not timestamp == own_timestamp == max_timestamp:
                self.damage(expected, f"timestamp {own_timestamp}, and {max_timestamp} until there")
            self.advance()
