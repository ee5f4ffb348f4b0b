"""The indexes of a segment against its batches.

Owns the comparison, which runs along with one walk over the log file. Invariant: an index that is called sound has
ascending entries, and each entry of

- the offset index names the last offset of the batch that begins at its position;
- the time index names the last offset of a batch whose largest timestamp it has, and none before had a larger one;

and zeros to its end. Entries at places where the log itself is damaged, and behind the end that is looked at, are
passed over. Memory: one chunk of each index.

It refuses to know which batches must be there. Source: Kafka's ``OffsetIndex``, ``TimeIndex``, ``LogSegment``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pykraft.log.fs import File
from pykraft.log.index import OFFSET_ENTRY, TIME_ENTRY
from pykraft.log.verify_findings import Findings
from pykraft.protocol.batch import BatchHeader
from pykraft.types import Offset

CHUNK_ENTRIES: Final = 8_192
ZEROS_SIZE_BYTES: Final = 1024 * 1024
ADVICE: Final = "stop the node and remove this index: it is derived from the log again at the next start"
_NEVER: Final = 2**63


class IndexReader:
    """The entries of one index file, one at a time; ``ahead`` is the next one."""

    def __init__(self, path: Path, file: File, layout: struct.Struct, findings: Findings) -> None:
        self.path = path
        self.at = 0
        """Position of ``ahead`` in the index file."""
        self._file = file
        self._layout = layout
        self._findings = findings
        self._entries = entries(file, layout)
        self._is_broken = False
        self.ahead: tuple[int, int] | None = None
        self.advance()

    def advance(self) -> None:
        """Take the next entry; one that does not ascend is damage, and ends the index."""
        last = self.ahead
        found = next(self._entries, None)
        if found is None:
            self.at += self._layout.size if last is not None else 0
            self.ahead = None
            return
        self.at, self.ahead = found
        if last is not None and not (self.ahead[0] > last[0] and self.ahead[1] >= last[1]):
            self.damage(f"an entry above {last}", str(self.ahead))
            self.ahead = None
            self._is_broken = True

    def finish(self) -> None:
        """All entries were seen: only zeros may follow them, and no part of an entry.

        Where the first zeros were found, a running node may have put an entry since.
        """
        if self._is_broken or self.ahead is not None:
            return
        end = self._file.size()
        if any(self._file.pread(self._layout.size, self.at)) and end % self._layout.size == 0:
            return
        if odd := end % self._layout.size:
            self.at = end - odd
            self.damage(f"whole entries of {self._layout.size} bytes", f"{odd} bytes at the end")
            return
        for start in range(self.at, end, ZEROS_SIZE_BYTES):
            rest = self._file.pread(min(ZEROS_SIZE_BYTES, end - start), start).lstrip(b"\0")
            if rest:
                self.at = min(start + ZEROS_SIZE_BYTES, end) - len(rest)
                self.damage("zeros behind the last entry", f"{rest[:8].hex(' ')}")
                return

    def damage(self, expected: str, found: str) -> None:
        """The entry ahead is wrong."""
        self._findings.add_damage(self.path, self.at, expected=expected, found=found, advice=ADVICE)


class OffsetIndexCheck:
    """The offset index; ``next_position`` is where its next entry says that a batch begins."""

    def __init__(self, path: Path, file: File, base_offset: Offset, findings: Findings) -> None:
        self._reader = IndexReader(path, file, OFFSET_ENTRY, findings)
        self._base_offset = base_offset
        self.next_position = 0
        self._look()

    def saw(self, position: int, header: BatchHeader) -> None:
        """A batch begins here, at or behind ``next_position``."""
        while self._reader.ahead is not None and self.next_position <= position:
            delta, entry_position = self._reader.ahead
            offset = self._base_offset + delta
            expected = f"a batch that ends with offset {offset} at position {entry_position} of the log"
            if entry_position < position:
                self._reader.damage(expected, "no batch that begins there")
            elif header.last_offset != offset:
                self._reader.damage(expected, f"one that ends with offset {header.last_offset}")
            self._advance()

    def skip_to(self, position: int) -> None:
        """Nothing can be said about entries below this position."""
        while self._reader.ahead is not None and self.next_position < position:
            self._advance()

    def finish(self, end: int, *, is_growing: bool) -> None:
        """The log ends here; one that grows may have entries behind."""
        if self._reader.ahead is not None and not is_growing:
            found = f"{self._reader.ahead[1]}"
            self._reader.damage(f"a position below the end of the log, {end}", found)
        if not is_growing:
            self._reader.finish()

    def _advance(self) -> None:
        self._reader.advance()
        self._look()

    def _look(self) -> None:
        self.next_position = _NEVER if self._reader.ahead is None else self._reader.ahead[1]


class TimeIndexCheck:
    """The time index; ``next_offset`` is the offset of its next entry."""

    def __init__(self, path: Path, file: File, base_offset: Offset, findings: Findings) -> None:
        self._reader = IndexReader(path, file, TIME_ENTRY, findings)
        self._base_offset = base_offset
        self.next_offset = 0
        self._look()

    def saw(self, header: BatchHeader, max_timestamp: int) -> None:
        """A batch that ends at or behind ``next_offset``; no timestamp so far is above ``max_timestamp``."""
        while self._reader.ahead is not None and self.next_offset <= header.last_offset:
            timestamp = self._reader.ahead[0]
            expected = f"a batch that ends with offset {self.next_offset}, its largest timestamp {timestamp}"
            if self.next_offset < header.last_offset:
                self._reader.damage(expected, "no batch that ends there")
            elif not timestamp == header.max_timestamp == max_timestamp:
                self._reader.damage(expected, f"timestamp {header.max_timestamp}, and {max_timestamp} until there")
            self._advance()

    def skip_to(self, offset: Offset) -> None:
        """Nothing can be said about entries below this offset."""
        while self._reader.ahead is not None and self.next_offset < offset:
            self._advance()

    def finish(self, end_offset: Offset, *, is_growing: bool) -> None:
        """The log ends here; one that grows may have entries behind."""
        if self._reader.ahead is not None and not is_growing:
            self._reader.damage(f"an offset below the end of the log, {end_offset}", f"{self.next_offset}")
        if not is_growing:
            self._reader.finish()

    def _advance(self) -> None:
        self._reader.advance()
        self._look()

    def _look(self) -> None:
        self.next_offset = _NEVER if self._reader.ahead is None else self._base_offset + self._reader.ahead[1]


def entries(file: File, layout: struct.Struct) -> Iterator[tuple[int, tuple[int, int]]]:
    """Position and content of each whole entry, up to the zeros that a preallocated file ends with."""
    end = file.size()
    whole = end - end % layout.size
    for start in range(0, whole, CHUNK_ENTRIES * layout.size):
        data = file.pread(min(CHUNK_ENTRIES * layout.size, whole - start), start)
        for at, (first, second) in enumerate(layout.iter_unpack(data[: len(data) - len(data) % layout.size])):
            if first == second == 0:
                return
            yield start + at * layout.size, (first, second)
