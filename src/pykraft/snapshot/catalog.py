"""The complete snapshots of one partition: ids, sizes and times, and the open files of those being fetched.

This module keeps the files of served snapshots open and notes when each was last requested. Invariant: every snapshot
in the catalog is complete and durable; a retired one leaves the catalog first, then the directory. Everything runs in
one lane, except that any thread may read `Catalog.ids`, which is replaced as a whole.

The caller moves the log start before it retires snapshots, so that no replica is sent to a snapshot that is about to be
removed.

Source: KIP-630; Kafka's ``KafkaRaftLog`` (its map of snapshots, ``readSnapshot``, ``forgetSnapshotsBefore``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pykraft.config import LogSettings
from pykraft.errors import CorruptionError
from pykraft.log.fs import Fs
from pykraft.snapshot.files import clean_at_start, in_order, retire
from pykraft.snapshot.head import read_head
from pykraft.snapshot.reader import RawReader
from pykraft.snapshot.retention import KeptSegment, KeptSnapshot, expired
from pykraft.types import Epoch, Offset, OffsetAndEpoch

NO_TIMESTAMP: Final = -(2**63)
"""Timestamp (wall ms) of a snapshot whose header cannot be read: older than all others."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Some bytes of a snapshot, and the size of the whole."""

    data: bytes
    size_bytes: int


@dataclass(slots=True)
class _Served:
    """A snapshot that a replica fetched from: its open file, and the time of the last request (mono ms)."""

    raw: RawReader
    asked_mono_ms: int


class Catalog:
    """The snapshots of one directory. All methods may raise StorageError."""

    def __init__(self, fs: Fs, directory: Path, snapshot_ids: Iterable[OffsetAndEpoch]) -> None:
        """Take a list of snapshots that exist; `open` reads the directory."""
        self._fs = fs
        self._directory = directory
        self._served: dict[OffsetAndEpoch, _Served] = {}
        self._facts: dict[OffsetAndEpoch, KeptSnapshot] = {}
        self.ids: tuple[OffsetAndEpoch, ...] = tuple(in_order(snapshot_ids))
        """All of them, oldest first."""

    @classmethod
    def open(cls, fs: Fs, directory: Path, *, log_start_offset: Offset, leader_epoch: Epoch | None = None) -> Catalog:
        """The snapshots that a start finds; see `pykraft.snapshot.files.clean_at_start`."""
        found = clean_at_start(fs, directory, log_start_offset=log_start_offset, leader_epoch=leader_epoch)
        return cls(fs, directory, found)

    @property
    def newest(self) -> OffsetAndEpoch | None:
        """The snapshot that a new replica should fetch; None when there is none."""
        return self.ids[-1] if self.ids else None

    @property
    def oldest(self) -> OffsetAndEpoch | None:
        """The snapshot at whose end the log starts, if the log does not start at 0."""
        return self.ids[0] if self.ids else None

    def add(self, snapshot_id: OffsetAndEpoch) -> None:
        """Add a snapshot that was just frozen."""
        if snapshot_id not in self.ids:
            self.ids = tuple(in_order([*self.ids, snapshot_id]))

    def read(self, snapshot_id: OffsetAndEpoch, position: int, size_bytes_max: int, *, mono_ms: int) -> Slice | None:
        """Bytes of a snapshot for another replica; None when there is no such snapshot.

        Errors: ProtocolError as `RawReader.read`.
        """
        if snapshot_id not in self.ids:
            return None
        # Keep the file open between requests: a replica fetches it slice by slice.
        served = self._served.get(snapshot_id)
        if served is None:
            served = _Served(RawReader(self._fs, self._directory, snapshot_id), mono_ms)
            self._served[snapshot_id] = served
        served.asked_mono_ms = mono_ms
        return Slice(served.raw.read(position, size_bytes_max), served.raw.size_bytes)

    def expired(
        self,
        settings: LogSettings,
        segments: Sequence[KeptSegment],
        *,
        fetch_timeout_ms: int,
        mono_ms: int,
        wall_ms: int,
    ) -> list[OffsetAndEpoch]:
        """The snapshots that are no longer needed; see `pykraft.snapshot.retention.expired`."""
        if len(self.ids) < 2:
            return []
        # A snapshot requested since the last check is being fetched, so it stays. However short that interval is, a
        # replica may take a fetch timeout to write what it got, and needs the log after it when it has all (ADR 121).
        since_mono_ms = mono_ms - max(settings.clean_interval_ms, fetch_timeout_ms)
        in_use = [each for each, served in self._served.items() if served.asked_mono_ms > since_mono_ms]
        kept = [self._fact(snapshot_id) for snapshot_id in self.ids]
        return expired(settings, kept, segments, in_use=in_use, now_ms=wall_ms)

    def retire_before(self, snapshot_id: OffsetAndEpoch) -> list[OffsetAndEpoch]:
        """Retire all snapshots older than this one: the log now starts at its end, by cleaning or by an install.

        Returns their ids; the bulk lane frees their bytes later.
        """
        assert snapshot_id in self.ids
        index = self.ids.index(snapshot_id)
        # Leave the catalog first: a replica that is fetching one of them gets SNAPSHOT_NOT_FOUND from now on.
        gone, self.ids = self.ids[:index], self.ids[index:]
        for each in gone:
            self._facts.pop(each, None)
            self._close(each)
            retire(self._fs, self._directory, each)
        return list(gone)

    def close(self) -> None:
        """Close all files."""
        for snapshot_id in [*self._served]:
            self._close(snapshot_id)

    def _fact(self, snapshot_id: OffsetAndEpoch) -> KeptSnapshot:
        """Size and time of a snapshot; its header is read only once."""
        if snapshot_id not in self._facts:
            self._facts[snapshot_id] = self._read_fact(snapshot_id)
        return self._facts[snapshot_id]

    def _read_fact(self, snapshot_id: OffsetAndEpoch) -> KeptSnapshot:
        """Read size and time from the file."""
        try:
            size_bytes, head = read_head(self._fs, self._directory, snapshot_id)
        except CorruptionError:
            # Nobody can use a damaged snapshot, so it counts as the oldest; retention still keeps the newest one.
            return KeptSnapshot(snapshot_id=snapshot_id, size_bytes=0, last_contained_log_timestamp=NO_TIMESTAMP)
        return KeptSnapshot(
            snapshot_id=snapshot_id,
            size_bytes=size_bytes,
            last_contained_log_timestamp=head.last_contained_log_timestamp,
        )

    def _close(self, snapshot_id: OffsetAndEpoch) -> None:
        served = self._served.pop(snapshot_id, None)
        if served is not None:
            served.raw.close()
