"""Snapshots for a node under load, so that its disk stays bounded: they let the log be cleaned.

The load keeps no state, so a snapshot has one record, which names the end of what it stands for. Replicas write the
same bytes. Invariant: a log whose newest snapshot belongs to an application gets none from here, since that would drop
the application's state.

Source: KIP-630; Kafka's ``metadata.log.*`` and ``metadata.max.retention.*`` say when one is due and what is deleted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import Any, Final, Protocol

from pykraft.errors import PykraftError, SnapshotFailedError
from pykraft.host.delivery import CommittedBatch
from pykraft.host.snapshots.creation import NewSnapshot
from pykraft.host.snapshots.loading import Loader
from pykraft.snapshot.reader import SnapshotReader
from pykraft.snapshot.writer import Serializer
from pykraft.types import Epoch, NodeId, OffsetAndEpoch

_MARK: Final = "pykraft-load"
_PREFIX: Final = f'{{"{_MARK}"'.encode()


class Snapshotter(Protocol):
    """The part of `pykraft.host.host.Host` that these snapshots need."""

    def create_snapshot(
        self,
        snapshot_id: OffsetAndEpoch,
        serializer: Serializer[Any],
        on_begun: Callable[[NewSnapshot | Exception | None], None],
    ) -> None:
        """See `pykraft.host.host.Host`."""
        ...


class LoadSnapshots:
    """A listener that takes a snapshot whenever one is due; register it with its `loader`."""

    def __init__(
        self, host: Snapshotter, *, report: Callable[[str], None], failed: Callable[[Exception], None]
    ) -> None:
        """``report`` gets lines for the log; ``failed`` gets bugs of ours."""
        self._host = host
        self._report = report
        self._failed = failed
        self._is_foreign = False

    @property
    def loader(self) -> Loader:
        """How the host gives and requests snapshots."""
        return Loader(deserializer=self, load=self._load, save=self._save)

    def serialize(self, record: OffsetAndEpoch) -> bytes:
        """The only record of a snapshot: which records of the load it stands for."""
        return json.dumps({_MARK: {"endOffset": record.offset, "epoch": record.epoch}}).encode()

    def deserialize(self, data: bytes) -> bytes:
        """A record of a snapshot, perhaps of an application's."""
        return data

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """See `pykraft.host.delivery.HostListener`; the host counts the bytes."""

    def on_leader_change(self, epoch: Epoch, leader_id: NodeId | None) -> None:
        """See `pykraft.host.delivery.HostListener`; followers take snapshots, too."""

    def _load(self, reader: SnapshotReader[bytes]) -> None:
        """Look whose snapshot this is, at its first record."""
        first = b""
        with closing(reader), suppress(PykraftError):  # a damaged one may be an application's
            first = next((record for batch in reader for record in batch.records), b"")
        self._is_foreign = not first.startswith(_PREFIX)
        if self._is_foreign:
            self._report(
                f"the snapshot at offset {reader.snapshot_id.offset} is an application's, so the load takes no "
                "snapshots, and the log grows without a bound"
            )

    def _save(self, snapshot_id: OffsetAndEpoch) -> None:
        if not self._is_foreign:
            self._host.create_snapshot(snapshot_id, self, self._begun)

    def _begun(self, taken: NewSnapshot | Exception | None) -> None:
        if isinstance(taken, Exception):
            # The log was truncated or cleaned meanwhile, say: the next snapshot is due soon.
            self._report(f"no snapshot of the load: {taken}")
        elif taken is not None:
            taken.append([taken.snapshot_id], lambda error: self._appended(taken, error))

    def _appended(self, taken: NewSnapshot, error: Exception | None) -> None:
        if error is None:
            taken.freeze(lambda result: self._frozen(taken, result))
        else:
            taken.close()
            # A failing disk is no bug: the node has reported it, and the next snapshot is due soon.
            if not isinstance(error, SnapshotFailedError):
                self._failed(error)

    def _frozen(self, taken: NewSnapshot, result: int | Exception) -> None:
        if isinstance(result, Exception):
            # Larger than pykraft.snapshot.max.bytes allows, say.
            taken.close()
            self._report(f"no snapshot of the load: {result}")
