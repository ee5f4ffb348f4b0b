"""Reads metadata records from a live quorum, as an observer without an id: its newest snapshot, then its log.

Invariant: only committed records are read, up to the high watermark at the start, and they describe the cluster
completely, because an observer that loads snapshots begins where the log alone is not enough.

Source: KIP-595 §Fetch, KIP-630.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from pykraft.client.reader import StateReader
from pykraft.client.remote.observer import Observer, Start
from pykraft.errors import UsageError
from pykraft.protocol.metadata.record import read_metadata_record
from pykraft.protocol.records import Record, decode_records
from pykraft.spark.data_source.live import FETCH_LIMITS, PATIENCE
from pykraft.spark.metadata.directory import Moment
from pykraft.spark.metadata.image import LoggedRecord, logged_record
from pykraft.types import Endpoint, Offset

CLIENT_ID: Final = "pykraft-metadata"


class _EnoughError(Exception):
    """Raised at the first record that the moment does not include."""


def read_live(bootstrap: Sequence[Endpoint], moment: Moment, take: Callable[[LoggedRecord], object]) -> Offset:
    """Pass on the records that describe the cluster at a moment, and return the offset after the last.

    Errors: UsageError if the quorum's log does not reach back, or not up, to that moment; ProtocolError for a record
    that this version cannot decode; QuorumUnavailableError.
    """
    return asyncio.run(_Reading(bootstrap, moment, take).run())


class _Reading:
    def __init__(self, bootstrap: Sequence[Endpoint], moment: Moment, take: Callable[[LoggedRecord], object]) -> None:
        self._bootstrap = bootstrap
        self._moment = moment
        self._take = take
        self._end = Offset(0)

    async def run(self) -> Offset:
        observer = Observer(
            self._bootstrap,
            start=Start.EARLIEST,
            client_id=CLIENT_ID,
            patience=PATIENCE,
            limits=FETCH_LIMITS,
            load_snapshot=self._load,
        )
        async with observer:
            await observer.begin()
            high_watermark = observer.high_watermark or Offset(0)
            wanted = self._moment.end_offset
            if wanted is not None and wanted > high_watermark:
                raise UsageError(f"the quorum has committed {high_watermark} offsets, not yet {wanted}")
            with suppress(_EnoughError):
                if self._end >= high_watermark:
                    return self._end
                async for batch in observer:
                    for record in decode_records(batch.data, verify_crc=False):
                        self._one(record, is_control=batch.is_control)
                    if batch.end_offset >= high_watermark:
                        break
        return self._end

    async def _load(self, reader: StateReader[bytes]) -> None:
        """Take a snapshot. Errors: UsageError if the cluster was already another one at the moment."""
        end_offset, timestamp_ms = reader.snapshot_id.offset, reader.last_contained_log_timestamp
        if end_offset and not self._moment.includes(Offset(end_offset - 1), timestamp_ms):
            raise UsageError(f"the quorum's snapshot, which ends at offset {end_offset}, is newer than this moment")
        async for batch in reader:
            for value in batch.records:
                record = read_metadata_record(value)
                self._take(LoggedRecord(offset=None, end_offset=end_offset, timestamp_ms=timestamp_ms, record=record))
        self._end = end_offset

    def _one(self, record: Record, *, is_control: bool) -> None:
        if record.offset < self._end:
            return
        if not self._moment.includes(record.offset, record.timestamp_ms):
            raise _EnoughError
        if not is_control:
            self._take(logged_record("the quorum's log", record))
        self._end = Offset(record.offset + 1)
