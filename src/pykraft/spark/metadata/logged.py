"""A metadata record with its place in the log, or in the snapshot that replaces a part of the log.

Source: KIP-630, KIP-631.
"""

from __future__ import annotations

from dataclasses import dataclass

from pykraft.errors import ProtocolError
from pykraft.protocol.metadata.record import MetadataRecord, read_metadata_record
from pykraft.protocol.records import Record
from pykraft.types import Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRecord:
    """A record and its place; ``offset`` is None for a record of a snapshot, whose place in the log is forgotten.

    Units: ``end_offset`` is exclusive: one more than ``offset``, or the end of the snapshot. ``timestamp_ms`` is the
    wall time of the append, or of the newest record that the snapshot stands for.
    """

    offset: Offset | None
    end_offset: Offset
    timestamp_ms: int
    record: MetadataRecord


def logged_record(where: object, record: Record) -> LoggedRecord:
    """A data record of the log, decoded. Errors: ProtocolError that names the place."""
    try:
        decoded = read_metadata_record(record.value)
    except ProtocolError as error:
        raise ProtocolError(f"{where}: offset {record.offset}: {error}", error.code) from error
    end_offset = Offset(record.offset + 1)
    return LoggedRecord(offset=record.offset, end_offset=end_offset, timestamp_ms=record.timestamp_ms, record=decoded)
