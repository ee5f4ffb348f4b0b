"""Signatures first; the body follows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pykraft.log.config import LogConfig
from pykraft.log.fs import Fs
from pykraft.log.recovery import Recovery
from pykraft.protocol.records import BatchHeader
from pykraft.types import Buffer, Epoch, EpochStart, Offset, Uuid


class Log:
    """One partition directory: `<topic>-<partition>`. Writers: one thread at a time (the ordered lane)."""

    @classmethod
    def open(cls, fs: Fs, directory: Path, *, config: LogConfig, topic_id: Uuid) -> tuple[Log, Recovery]:
        """Create or recover; everything found is synced before it returns.

        Errors: StorageError; ForeignDirectoryError for another topic id. Corruption below the recovery point is
        reported in the Recovery: the log then holds the valid prefix and refuses writes.
        """
        ...

    @property
    def start_offset(self) -> Offset: ...
    @property
    def end_offset(self) -> Offset: ...
    @property
    def flushed_offset(self) -> Offset: ...
    @property
    def last_epoch(self) -> Epoch:
        """Epoch of the last batch, 0 when there is none."""
        ...

    @property
    def epochs(self) -> list[EpochStart]: ...
    @property
    def generation(self) -> int:
        """Counts truncations: bytes read before it changed may no longer be in the log."""
        ...

    def append(self, batches: Sequence[tuple[BatchHeader, Buffer]]) -> None:
        """Whole, verified batches, contiguous from end_offset; not durable until flush()."""
        ...

    def flush(self) -> None: ...
    def truncate_to(self, offset: Offset) -> None:
        """Drop everything from the batch that holds `offset` on; durable when it returns."""
        ...

    def read(self, offset: Offset, size_bytes_max: int) -> bytes:
        """Whole batches from the one that holds `offset`; at least one, never across two segments.

        Empty at the end offset. Any thread. Errors: UsageError outside [start, end]; CorruptionError.
        """
        ...

    def close(self) -> None:
        """Flush, trim the indexes to their entries, sync, close."""
        ...
