"""A snapshot that a replica fetches from the leader: checked as the bytes arrive, and resumed where they stopped.

Invariant: a frozen snapshot is complete and every batch of it is sound. The replica is about to replace its log with
it, so we do not trust the leader here (Kafka does). A download resumes a part with the same snapshot id and leader's
epoch, after a lost connection, another state in between, or a restart; see `Download.catch_up`.

Source: KIP-630 §FetchSnapshot; Kafka's ``KafkaRaftClient.handleFetchSnapshotResponse``. Checks and resuming are ours.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pykraft.errors import CorruptionError, ErrorCode, ProtocolError
from pykraft.log.fs import Fs
from pykraft.snapshot.files import part_path, remove_fetched_parts
from pykraft.snapshot.head import BatchStream
from pykraft.snapshot.writer import RawWriter, not_relied_on
from pykraft.types import Buffer, Epoch, OffsetAndEpoch

CATCH_UP_SIZE_BYTES: Final = 4 * 1024 * 1024
"""Bytes that one call of `Download.catch_up` reads."""


class Download:
    """The download of one snapshot from the leader of one epoch. A directory has at most one download at a time."""

    def __init__(self, fs: Fs, directory: Path, snapshot_id: OffsetAndEpoch, *, leader_epoch: Epoch) -> None:
        """Begin, or resume the part that exists; parts of other downloads are removed. Errors: SnapshotFailedError."""
        # Each replica writes its own snapshots, so two leaders may have different bytes for one id. Within one epoch
        # all bytes come from one leader's file, so the part's name has the epoch.
        path = part_path(directory, snapshot_id, leader_epoch=leader_epoch)
        with not_relied_on():
            remove_fetched_parts(fs, directory, but=path)
        self._raw = RawWriter(fs, path, snapshot_id)
        self._stream = BatchStream(path, snapshot_id.epoch)
        self._read_bytes = 0
        self._is_caught_up = self._raw.size_bytes == 0

    @property
    def snapshot_id(self) -> OffsetAndEpoch:
        return self._raw.snapshot_id

    @property
    def position(self) -> int:
        """Position of the next byte to request; only after `catch_up` returned True."""
        assert self._is_caught_up
        return self._raw.size_bytes

    @property
    def is_whole(self) -> bool:
        """True when no byte is missing; only after `catch_up` returned True."""
        assert self._is_caught_up
        return self._stream.is_whole

    def catch_up(self) -> bool:
        """Check a few megabytes of an earlier download's part and write them again; True when all is checked.

        Damage is not an error: the part is cut before it. Errors: SnapshotFailedError.
        """
        if self._is_caught_up:
            return True
        try:
            # After a power loss pages of the part may be missing, so nothing in it counts before it is checked.
            data = self._raw.read(CATCH_UP_SIZE_BYTES, self._read_bytes)
            # A sync of these pages may have failed in an earlier process. The kernel then treats them as clean, so
            # only bytes that are written again reach the disk with the next sync.
            self._raw.write_again(data, self._read_bytes)
            self._read_bytes += len(data)
            self._stream.feed(data)
            is_sound = self._read_bytes < self._raw.size_bytes
        except CorruptionError:
            is_sound = False
        if not is_sound:
            # Continue after the last whole batch: what follows may be torn, or may be the first half of a batch.
            self._stream.forget_rest()
            self._raw.cut(self._stream.position)
            self._is_caught_up = True
        return self._is_caught_up

    def append(self, data: Buffer) -> None:
        """Append the bytes at `position`; none of them are written if they cannot belong to a snapshot.

        Errors: ProtocolError CORRUPT_MESSAGE, after which only `abandon` is left; those of `RawWriter.append`.
        """
        assert self._is_caught_up
        # Check before writing: if the bytes cannot belong to a snapshot, none of them reaches the part.
        with _blaming_the_peer(self.snapshot_id):
            self._stream.feed(data)
        self._raw.append([data])

    def freeze(self) -> None:
        """All bytes are here: make the snapshot count.

        Errors: ProtocolError CORRUPT_MESSAGE when the footer is missing; those of `RawWriter.freeze`.
        """
        assert self._is_caught_up
        with _blaming_the_peer(self.snapshot_id):
            self._stream.finish()
        self._raw.freeze()

    def close(self) -> None:
        """Close the part and keep it: another download of the same id and epoch resumes it."""
        self._raw.close()

    def abandon(self) -> None:
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
