"""Checks one record batch of a client before a leader appends it, in either of two profiles.

Any client's batch: one whole batch of version 2 with a valid CRC, as many records as offsets, each of them well formed,
nothing of a transaction, no control records. In KRaft's profile also what Java's replicas demand: no compression, no
keys, no headers, no empty values, one timestamp. Invariant: no input takes more memory than four of the largest batches
do, nor more time than RECORDS_MAX records.

Source: Kafka's ``LogValidator`` and ``RecordsIterator``; the two profiles are ours (ADR 065, ADR 079).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.batch import BatchHeader, check_crc, read_header
from pykraft.protocol.compression import Compression
from pykraft.protocol.records import Record, are_plain_records, iterate_body, open_batch
from pykraft.types import Buffer

RECORDS_MAX: Final = 500_000
"""Most records of one batch."""
EXPANSION_MAX: Final = 2
"""The records of a compressed batch may take so many times what a batch may; expanding them needs twice their size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrictProfile:
    """KRaft's profile holds: why, and the code for a batch that only the other profile takes."""

    why: str
    code: ErrorCode = ErrorCode.INVALID_RECORD

    def breaks(self, rule: str) -> ProtocolError:
        """The error for a batch that breaks a rule of this profile."""
        text = f"Kafka's own replicas cannot read this batch, since {rule}; it is refused because {self.why}"
        return ProtocolError(text, self.code)


def check_client_batch(records: Buffer | None, *, size_bytes_max: int, strict: StrictProfile | None) -> BatchHeader:
    """The header of the one batch in ``records``; ``strict`` is None in the profile of any client's batch.

    Errors: ProtocolError with CORRUPT_MESSAGE, INVALID_RECORD or MESSAGE_TOO_LARGE, or the code of ``strict``.
    """
    if not records:
        raise _invalid("there are no records")
    header = read_header(records)
    if header.size_bytes < len(records):
        raise _invalid("there is more than one batch")
    if header.size_bytes > size_bytes_max:
        text = f"the batch takes {header.size_bytes} bytes, a batch may take {size_bytes_max}"
        raise ProtocolError(text, ErrorCode.MESSAGE_TOO_LARGE)
    check_crc(records, 0, header)
    _check_header(header)
    if strict is not None and header.compression is not Compression.NONE:
        raise strict.breaks(f"it is compressed with {header.compression.name.lower()}")
    _, body = open_batch(records, verify_crc=False, size_bytes_max=EXPANSION_MAX * size_bytes_max)
    if are_plain_records(header, body, is_kraft=strict is not None):
        return header
    for record in iterate_body(header, body):
        if strict is not None:
            _check_kraft(header, record, strict)
    return header


def _check_header(header: BatchHeader) -> None:
    if header.is_control:
        raise _invalid("a client writes no control records")
    if header.is_transactional:
        raise _invalid("transactions are not supported")
    if not 0 < header.records_count <= RECORDS_MAX:
        raise _invalid(f"the batch has {header.records_count} records, from 1 to {RECORDS_MAX} are accepted")
    if header.records_count != header.last_offset_delta + 1:
        raise _invalid(f"the batch has {header.records_count} records for {header.last_offset_delta + 1} offsets")
    if header.producer_id >= 0 and (header.producer_epoch < 0 or header.base_sequence < 0):
        found = f"epoch {header.producer_epoch} and sequence {header.base_sequence}"
        raise _invalid(f"the batch of producer {header.producer_id} has {found}")


def _check_kraft(header: BatchHeader, record: Record, strict: StrictProfile) -> None:
    if record.key is not None:
        raise strict.breaks("a record has a key")
    if record.headers:
        raise strict.breaks("a record has headers")
    if not record.value:
        raise strict.breaks("a record has no value")
    if record.timestamp_ms != header.base_timestamp:
        raise strict.breaks("its records have different timestamps")


def _invalid(text: str) -> ProtocolError:
    return ProtocolError(text, ErrorCode.INVALID_RECORD)
