"""Rows become record batches, as they will be in the log but for the producer's numbers.

A batch has as many rows as fit; nothing is compressed, and all records of a batch have its one time. So rows without
keys and with values are what every replica reads, Kafka's too. Invariant: rows keep their order, each is in one batch,
and no batch is larger than it may be: a row that does not fit alone is an error that names it.

Source: `pykraft.protocol.records` has the layout of a record, and ADR 079 what Kafka's replicas read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pykraft.errors import UsageError
from pykraft.protocol.batch import HEADER_SIZE_BYTES, seal_batch
from pykraft.protocol.records import encode_batch
from pykraft.protocol.varint import encode_varint
from pykraft.types import EPOCH_ZERO, Offset

RECORD_OVERHEAD_BYTES_MAX = 24
"""Most bytes that a batch adds to key and value: four varints and four single bytes."""
_NULL = encode_varint(-1)


class BatchMaker:
    """Makes batches of one partition's rows."""

    def __init__(self, *, partition: int, size_bytes_max: int, timestamp_ms: int) -> None:
        """``partition`` is Spark's number, for errors; ``timestamp_ms`` is wall time."""
        self._partition = partition
        self._size_bytes_max = size_bytes_max
        self._timestamp_ms = timestamp_ms
        self._values: list[bytes | None] = []
        self._keys: list[bytes | None] = []
        self._size_bytes = HEADER_SIZE_BYTES
        self.rows = 0
        """Rows that it was given."""

    def add(self, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None) -> Iterator[tuple[bytes, int]]:
        """Take these rows; the batches that are full now, each with its number of rows.

        Errors: UsageError for a row that is too large.
        """
        for index, value in enumerate(values):
            key = None if keys is None else keys[index]
            size_bytes = RECORD_OVERHEAD_BYTES_MAX + len(value or b"") + len(key or b"")
            if self._size_bytes + size_bytes > self._size_bytes_max:
                yield from self.rest()
                if HEADER_SIZE_BYTES + size_bytes > self._size_bytes_max:
                    raise UsageError(
                        f"row {self.rows} of partition {self._partition} (both from 0) takes {size_bytes} bytes as a "
                        f"record, and a batch may take {self._size_bytes_max}: set the option maxBatchBytes, but not "
                        "above internal.metadata.max.batch.size.in.bytes of the nodes"
                    )
            self._values.append(value)
            self._keys.append(key)
            self._size_bytes += size_bytes
            self.rows += 1

    def rest(self) -> Iterator[tuple[bytes, int]]:
        """The batch that is not full, if there is one."""
        values, keys = self._values, self._keys
        self._values, self._keys, self._size_bytes = [], [], HEADER_SIZE_BYTES
        if values:
            yield _encode(values, keys, self._timestamp_ms), len(values)


def _encode(values: Sequence[bytes | None], keys: Sequence[bytes | None], timestamp_ms: int) -> bytes:
    plain = [value for value in values if value]
    if len(plain) == len(values) and not any(key is not None for key in keys):
        return encode_batch(plain, base_offset=Offset(0), epoch=EPOCH_ZERO, timestamp_ms=timestamp_ms).data
    pieces: list[bytes] = []
    for delta, (key, value) in enumerate(zip(keys, values, strict=True)):
        record = b"".join((b"\x00\x00", encode_varint(delta), _blob(key), _blob(value), b"\x00"))
        pieces += (encode_varint(len(record)), record)
    body = b"".join(pieces)
    count = len(values)
    return seal_batch(body, count=count, base_offset=Offset(0), epoch=EPOCH_ZERO, timestamp_ms=timestamp_ms).data


def _blob(data: bytes | None) -> bytes:
    return _NULL if data is None else encode_varint(len(data)) + data
