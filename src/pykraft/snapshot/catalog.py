"""The complete snapshots of one partition: their ids, the open files of those being fetched, and how long they stay.

Invariant: every snapshot in the catalog is complete and durable; a retired one leaves the catalog first, then the
directory. Everything runs in the bulk lane, but any thread may read `Catalog.ids`, replaced as a whole. The caller
moves the log start before it retires snapshots, so that no replica is sent to one that is about to be removed.

The newest snapshot stays, and so does one that a replica is fetching, with all newer ones. The log starts where the
oldest snapshot that stays ends.

1. Take the snapshots oldest first, except the newest. A snapshot goes if it is older than ``retention_age_ms_max``, or
   if the log and all snapshots together are larger than ``retention_size_bytes_max``. A negative number is no limit.
2. The segments of the log that end at or below the offset of the next snapshot go with it, and no longer count as size.
3. The first snapshot that stays ends this: all later ones stay, too.

The next one is due by what was committed since the last: without a new record there is none, whatever time has passed.

Source: KIP-630, KIP-876; Kafka's ``KafkaRaftLog`` (``readSnapshot``, ``forgetSnapshotsBefore``, ``maybeClean``),
``metadata.max.retention.bytes``, ``metadata.max.retention.ms`` and ``SnapshotGenerator``. Keeping a snapshot for its
readers is ours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from pykraft.config import LogSettings
from pykraft.errors import CorruptionError
from pykraft.log.fs import Fs
from pykraft.snapshot.files import clean_at_start, in_order, retire
from pykraft.snapshot.head import RawReader, read_head
from pykraft.types import Epoch, Offset, OffsetAndEpoch


class Reason(Enum):
    """Why a snapshot is due, worded for a log line."""

    SIZE = "enough bytes were committed since the last one"
    TIME = "the last one is old"


def due(settings: LogSettings, *, record_bytes: int, elapsed_ms: int) -> Reason | None:
    """Why a snapshot is due, or None.

    ``record_bytes`` is the size of the batches since the last snapshot, ``elapsed_ms`` the time since then. Without a
    snapshot both count from the start of the node. A ``snapshot_interval_ms`` of 0 means no time limit.
    """
    if record_bytes >= settings.snapshot_record_bytes_max:
        return Reason.SIZE
    if record_bytes > 0 and 0 < settings.snapshot_interval_ms <= elapsed_ms:
        return Reason.TIME
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSnapshot:
    """The facts about a snapshot that the rule needs; the timestamp (wall ms) is that of its last record."""

    snapshot_id: OffsetAndEpoch
    size_bytes: int
    last_contained_log_timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSegment:
    """The facts about a segment that the rule needs; the end offset is exclusive."""

    end_offset: Offset
    size_bytes: int


def expired(
    settings: LogSettings,
    snapshots: Sequence[KeptSnapshot],
    segments: Sequence[KeptSegment],
    *,
    in_use: Collection[OffsetAndEpoch],
    now_ms: int,
) -> list[OffsetAndEpoch]:
    """Ids of the snapshots to delete, oldest first.

    ``snapshots`` and ``segments`` are oldest first. The last segment takes appends and always stays.
    """
    removed: list[OffsetAndEpoch] = []
    for index, snapshot in enumerate(snapshots[:-1]):
        # 2. Segments that went with the removed snapshots do not count.
        start_offset = snapshot.snapshot_id.offset if removed else Offset(0)
        size_bytes = sum(each.size_bytes for each in snapshots[index:])
        size_bytes += sum(each.size_bytes for each in segments[:-1] if each.end_offset > start_offset)
        size_bytes += sum(each.size_bytes for each in segments[-1:])
        # 1. Size or age; a negative limit never applies.
        is_large = 0 <= settings.retention_size_bytes_max < size_bytes
        is_old = 0 <= settings.retention_age_ms_max < now_ms - snapshot.last_contained_log_timestamp
        # 3. This one stays, and all newer ones.
        if snapshot.snapshot_id in in_use or not (is_large or is_old):
            break
        removed.append(snapshot.snapshot_id)
    return removed


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
        """The snapshots that are no longer needed; see `pykraft.snapshot.catalog.expired`."""
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
        for snapshot_id in [*self._served]:
            self._close(snapshot_id)

    def _fact(self, snapshot_id: OffsetAndEpoch) -> KeptSnapshot:
        """Size and time of a snapshot; its header is read only once."""
        if snapshot_id not in self._facts:
            self._facts[snapshot_id] = self._read_fact(snapshot_id)
        return self._facts[snapshot_id]

    def _read_fact(self, snapshot_id: OffsetAndEpoch) -> KeptSnapshot:
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
