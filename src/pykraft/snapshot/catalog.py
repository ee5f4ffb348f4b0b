"""The whole snapshots of one partition: which there are, their facts, and who reads them.

Owns the open files of snapshots that are served, and when each was last asked for. Invariant: what the catalog names is
whole and durable; what it retires is gone from it first, then from the directory. All of it runs in one lane, but for
`Catalog.ids`, which is replaced as a whole and may be looked at from anywhere.

It refuses to know where the log starts: who retires snapshots moves the log's start first, so that nobody is sent to
one that is about to go.

Source: KIP-630; Kafka's ``KafkaRaftLog`` (its map of snapshots, ``readSnapshot``, ``forgetSnapshotsBefore``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pykraft.errors import CorruptionError
from pykraft.log.fs import Fs
from pykraft.snapshot.files import clean_at_start, in_order, retire
from pykraft.snapshot.head import read_head
from pykraft.snapshot.reader import RawReader
from pykraft.snapshot.retention import KeptSegment, KeptSnapshot, Retention, expired
from pykraft.types import Epoch, Offset, OffsetAndEpoch

NO_TIMESTAMP: Final = -(2**63)
"""Wall ms of the last record of a snapshot whose header cannot be read: before all others."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Bytes of a snapshot, and the size of the whole."""

    data: bytes
    size_bytes: int


@dataclass(slots=True)
class _Served:
    """A snapshot that was asked for: its open file, and when (mono ms) it was asked for last."""

    raw: RawReader
    asked_mono_ms: int


class Catalog:
    """The snapshots of one directory. Errors of all methods: StorageError."""

    def __init__(self, fs: Fs, directory: Path, snapshot_ids: Iterable[OffsetAndEpoch]) -> None:
        """Snapshots that are known to be there; see `open`."""
        self._fs = fs
        self._directory = directory
        self._served: dict[OffsetAndEpoch, _Served] = {}
        self._facts: dict[OffsetAndEpoch, KeptSnapshot] = {}
        self.ids: tuple[OffsetAndEpoch, ...] = tuple(in_order(snapshot_ids))
        """All of them, oldest first."""

    @classmethod
    def open(cls, fs: Fs, directory: Path, *, log_start_offset: Offset, leader_epoch: Epoch | None = None) -> Catalog:
        """What a start finds; see `pykraft.snapshot.files.clean_at_start`."""
        found = clean_at_start(fs, directory, log_start_offset=log_start_offset, leader_epoch=leader_epoch)
        return cls(fs, directory, found)

    @property
    def newest(self) -> OffsetAndEpoch | None:
        """The snapshot that a new replica should get; None when there is none."""
        return self.ids[-1] if self.ids else None

    @property
    def oldest(self) -> OffsetAndEpoch | None:
        """The snapshot that the log starts behind, if it starts behind any."""
        return self.ids[0] if self.ids else None

    def add(self, snapshot_id: OffsetAndEpoch) -> None:
        """A snapshot was frozen."""
        if snapshot_id not in self.ids:
            self.ids = tuple(in_order([*self.ids, snapshot_id]))

    def read(self, snapshot_id: OffsetAndEpoch, position: int, size_bytes_max: int, *, mono_ms: int) -> Slice | None:
        """Bytes of a snapshot for another replica; None when there is no such snapshot.

        Errors: ProtocolError as `RawReader.read`.
        """
        if snapshot_id not in self.ids:
            return None
        served = self._served.get(snapshot_id)
        if served is None:
            served = _Served(RawReader(self._fs, self._directory, snapshot_id), mono_ms)
            self._served[snapshot_id] = served
        served.asked_mono_ms = mono_ms
        return Slice(served.raw.read(position, size_bytes_max), served.raw.size_bytes)

    def expired(
        self, retention: Retention, segments: Sequence[KeptSegment], *, mono_ms: int, wall_ms: int
    ) -> list[OffsetAndEpoch]:
        """Which snapshots are no longer needed; see `pykraft.snapshot.retention.expired`."""
        if len(self.ids) < 2:
            return []
        since_mono_ms = mono_ms - retention.interval_ms
        in_use = [each for each, served in self._served.items() if served.asked_mono_ms > since_mono_ms]
        kept = [self._fact(snapshot_id) for snapshot_id in self.ids]
        return expired(retention, kept, segments, in_use=in_use, now_ms=wall_ms)

    def retire_before(self, snapshot_id: OffsetAndEpoch) -> list[OffsetAndEpoch]:
        """Let all that are older no longer count: the log starts here now, by cleaning or by an install.

        Who is in the midst of fetching one is told that it is gone. Returns them; their bytes are freed later.
        """
        assert snapshot_id in self.ids
        index = self.ids.index(snapshot_id)
        gone, self.ids = self.ids[:index], self.ids[index:]
        for each in gone:
            self._facts.pop(each, None)
            self._close(each)
            retire(self._fs, self._directory, each)
        return list(gone)

    def close(self) -> None:
        """Let go of all files."""
        for snapshot_id in [*self._served]:
            self._close(snapshot_id)

    def _fact(self, snapshot_id: OffsetAndEpoch) -> KeptSnapshot:
        """Size and time of a snapshot; its header is read once."""
        if snapshot_id not in self._facts:
            self._facts[snapshot_id] = self._read_fact(snapshot_id)
        return self._facts[snapshot_id]

    def _read_fact(self, snapshot_id: OffsetAndEpoch) -> KeptSnapshot:
        """A damaged one is of no use to anybody, and counts as old as can be; the newest is kept all the same."""
        try:
            size_bytes, head = read_head(self._fs, self._directory, snapshot_id)
        except CorruptionError:
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
