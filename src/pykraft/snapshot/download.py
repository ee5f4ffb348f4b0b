"""A snapshot on its way from the leader: bytes at rising positions, checked as they come, resumed where they ended.

Owns the part that is fetched. Invariant: what is frozen is a whole snapshot, every batch of it sound. A replica is
about to put it in the place of its log, so a leader's word is not enough (Kafka takes it).

The bytes of one snapshot id may differ between replicas, since each takes its own. Within one epoch they come from one
leader, and from one file. So the leader's epoch stands in the part's name, and a download goes on only with a part of
the same id and epoch: after a lost connection, another state in between, or a restart. After a loss of power the last
pages of the part may be missing: `Download.catch_up` checks what is there, and cuts it where it is no longer sound.
What is sound it writes again. It may be in the page cache only, after a sync that failed, where no later sync finds it.

It refuses to know requests and replies, and when to give up.

Source: KIP-630 §FetchSnapshot; Kafka's ``KafkaRaftClient.handleFetchSnapshotResponse``. Checks and resuming are ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pykraft.errors import CorruptionError, ErrorCode, ProtocolError
from pykraft.log.fs import Fs
from pykraft.snapshot.batches import BatchStream
from pykraft.snapshot.files import part_path, remove_fetched_parts
from pykraft.snapshot.raw_writer import RawWriter
from pykraft.types import Buffer, Epoch, OffsetAndEpoch

CATCH_UP_SIZE_BYTES: Final = 4 * 1024 * 1024
"""What one call of `Download.catch_up` reads."""


class Download:
    """One snapshot that is fetched from the leader of one epoch. There is one at a time in a directory."""

    def __init__(self, fs: Fs, directory: Path, snapshot_id: OffsetAndEpoch, *, leader_epoch: Epoch) -> None:
        """Begin, or go on with what is there; the parts of other downloads are removed. Errors: StorageError."""
        path = part_path(directory, snapshot_id, leader_epoch=leader_epoch)
        remove_fetched_parts(fs, directory, but=path)
        self._raw = RawWriter(fs, path, snapshot_id)
        self._stream = BatchStream(path, snapshot_id.epoch)
        self._read_bytes = 0
        self._is_caught_up = self._raw.size_bytes == 0

    @property
    def snapshot_id(self) -> OffsetAndEpoch:
        """Which snapshot it is."""
        return self._raw.snapshot_id

    @property
    def position(self) -> int:
        """Position of the next byte to ask for; after `catch_up` returned True."""
        assert self._is_caught_up
        return self._raw.size_bytes

    @property
    def is_whole(self) -> bool:
        """True when nothing is missing; after `catch_up` returned True."""
        assert self._is_caught_up
        return self._stream.is_whole

    def catch_up(self) -> bool:
        """Check a few megabytes of what an earlier download left, and write them again; True when all is checked.

        Errors: StorageError. What is damaged is not an error: the part is cut before it.
        """
        if self._is_caught_up:
            return True
        try:
            data = self._raw.read(CATCH_UP_SIZE_BYTES, self._read_bytes)
            # A sync of these pages may have failed in an earlier process: only what is written again will be synced.
            self._raw.write_again(data, self._read_bytes)
            self._read_bytes += len(data)
            self._stream.feed(data)
            is_sound = self._read_bytes < self._raw.size_bytes
        except CorruptionError:
            is_sound = False
        if not is_sound:
            self._stream.forget_rest()
            self._raw.cut(self._stream.position)
            self._is_caught_up = True
        return self._is_caught_up

    def append(self, data: Buffer) -> None:
        """Take the bytes at `position`; nothing of them is written if they cannot belong to a snapshot.

        Errors: ProtocolError CORRUPT_MESSAGE, and all that is left is `abandon`; UsageError, StorageError as
        `RawWriter.append`.
        """
        assert self._is_caught_up
        with _blaming_the_peer(self.snapshot_id):
            self._stream.feed(data)
        self._raw.append([data])

    def freeze(self) -> None:
        """All bytes are there: make the snapshot count.

        Errors: ProtocolError CORRUPT_MESSAGE when it has no end; UsageError, StorageError as `RawWriter.freeze`.
        """
        assert self._is_caught_up
        with _blaming_the_peer(self.snapshot_id):
            self._stream.finish()
        self._raw.freeze()

    def close(self) -> None:
        """Let go of the part: another download of the same id and epoch goes on with it."""
        self._raw.close()

    def abandon(self) -> None:
        """Close, and remove the part. Errors: StorageError."""
        self._raw.abandon()


@contextmanager
def _blaming_the_peer(snapshot_id: OffsetAndEpoch) -> Iterator[None]:
    try:
        yield
    except CorruptionError as error:
        raise ProtocolError(
            f"the snapshot of offset {snapshot_id.offset} and epoch {snapshot_id.epoch} that the leader sends is "
            f"damaged at position {error.position}: expected {error.expected}, found {error.found}",
            ErrorCode.CORRUPT_MESSAGE,
        ) from error
