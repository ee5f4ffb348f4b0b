"""The snapshot files of a node, shared by its components: directory, catalog and settings.

Source: Kafka's ``KafkaRaftLog``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pykraft.config import LogSettings
from pykraft.core.events import SnapshotFrozen
from pykraft.errors import CorruptionError, ReadError, SnapshotFailedError, StorageError
from pykraft.log.fs import Fs
from pykraft.snapshot.catalog import Catalog
from pykraft.snapshot.files import BOOTSTRAP_ID, list_snapshots, parse_snapshot_file
from pykraft.snapshot.head import read_head
from pykraft.snapshot.reader import Deserializer, SnapshotReader
from pykraft.types import Epoch, Offset, OffsetAndEpoch

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFiles:
    """The directory and the catalog of its complete snapshots, without the bootstrap checkpoint."""

    fs: Fs
    directory: Path
    catalog: Catalog
    settings: LogSettings
    has_bootstrap: bool = False
    """True when the directory was formatted for a dynamic quorum and its log still starts at 0."""

    @classmethod
    def open(
        cls, fs: Fs, directory: Path, *, log_start_offset: Offset, leader_epoch: Epoch | None, settings: LogSettings
    ) -> SnapshotFiles:
        """The snapshots that a start finds, in order and durable. A directory without snapshots is left unchanged.

        Errors: StorageError.
        """
        found = [file for file in map(parse_snapshot_file, fs.listdir(directory)) if file is not None]
        if any(file.snapshot_id != BOOTSTRAP_ID for file in found):
            Catalog.open(fs, directory, log_start_offset=log_start_offset, leader_epoch=leader_epoch)
        catalog = Catalog(fs, directory, real_snapshots(fs, directory))
        has_bootstrap = log_start_offset == 0 and BOOTSTRAP_ID in list_snapshots(fs, directory)
        return cls(fs=fs, directory=directory, catalog=catalog, settings=settings, has_bootstrap=has_bootstrap)

    def open_newest(self, deserializer: Deserializer[T]) -> SnapshotReader[T]:
        """On the bulk lane: open the newest snapshot. Errors: StorageError, CorruptionError."""
        newest = self.catalog.newest
        assert newest is not None, "where the log does not begin at 0, there is a snapshot"
        return SnapshotReader.of(self.fs, self.directory, newest, deserializer)

    def open_bootstrap(self, deserializer: Deserializer[T]) -> SnapshotReader[T]:
        """On the bulk lane: open the checkpoint that formatting wrote. Errors: StorageError, CorruptionError."""
        return SnapshotReader.of(self.fs, self.directory, BOOTSTRAP_ID, deserializer)

    def frozen(self, snapshot_id: OffsetAndEpoch) -> SnapshotFrozen:
        """On the bulk lane: a snapshot was frozen; the event for the core.

        One that cannot be read is not served, nor is the core told of it; the next start examines it.

        Errors: SnapshotFailedError, CorruptionError.
        """
        try:
            _, head = read_head(self.fs, self.directory, snapshot_id)
        except StorageError as error:
            raise unless_wrong(error) from error
        self.catalog.add(snapshot_id)
        return SnapshotFrozen(snapshot_id=snapshot_id, membership=head.membership)


def real_snapshots(fs: Fs, directory: Path) -> list[OffsetAndEpoch]:
    """Ids of the complete snapshots, oldest first, without the bootstrap checkpoint."""
    return [snapshot_id for snapshot_id in list_snapshots(fs, directory) if snapshot_id != BOOTSTRAP_ID]


def unless_wrong(error: StorageError) -> StorageError:
    """A SnapshotFailedError for a file that cannot be read now; the same error for bytes that can, and are wrong.

    Wrong bytes stay wrong: the node ends, and the next start sets the file aside or says what repairs it.
    """
    is_wrong = isinstance(error, CorruptionError) and not isinstance(error, ReadError)
    return error if is_wrong else SnapshotFailedError.of(error)
