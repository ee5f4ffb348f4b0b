"""The headers of many batches as columns of numbers, without an object for each batch.

What rows need of their batches' headers is computed for all of them at once. Most headers are as KRaft writes them;
`headers_of` asks the protocol about each one that is not.

Invariant: every batch here is whole, and `pykraft.protocol.batch.read_header` takes it.

Source: KIP-98; NumPy's structured arrays.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from crc32c import crc32c

from pykraft.errors import ProtocolError
from pykraft.protocol.batch import (
    HEADER_SIZE_BYTES,
    MAGIC,
    RECORD_SIZE_BYTES_MIN,
    BatchHeader,
    BatchRun,
    batch_starts,
    read_header,
)
from pykraft.types import Buffer, Epoch, Offset

_HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("batch_length", ">i4"),
        ("epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("records_count", ">i4"),
    ]
)
assert _HEADER.itemsize == HEADER_SIZE_BYTES
_LENGTH_END = _HEADER.fields["epoch"][1]
_CRC_START = _HEADER.fields["attributes"][1]
"""The first byte that a CRC covers."""
_COMPRESSION_MASK = 0x07
_LOG_APPEND_TIME_BIT = 0x08
_CONTROL_BIT = 0x20


class Headers:
    """Headers in order, and ``positions``: where each batch starts in the bytes that they are of."""

    __slots__ = ("_fields", "positions")

    def __init__(self, positions: np.ndarray, fields: np.ndarray) -> None:
        self.positions = positions
        self._fields = fields

    def __len__(self) -> int:
        return len(self.positions)

    def at(self, which: slice | np.ndarray) -> Headers:
        """Some of them: a slice, or those for which an array is true."""
        return Headers(self.positions[which], self._fields[which])

    def pair(self, index: int) -> tuple[int, BatchHeader]:
        """See `pykraft.spark.data_source.splits.FoundHeaders`."""
        base_offset, batch_length, *rest = self._fields[index].item()
        return int(self.positions[index]), BatchHeader(base_offset, batch_length + _LENGTH_END, *rest)

    def pairs(self) -> Iterator[tuple[int, BatchHeader]]:
        """See `pykraft.spark.data_source.splits.FoundHeaders`."""
        return map(self.pair, range(len(self)))

    def column(self, name: str) -> np.ndarray:
        """A field of `BatchHeader`, as 64-bit numbers."""
        return self._fields[name].astype(np.int64)

    @property
    def sizes_bytes(self) -> np.ndarray:
        return self.column("batch_length") + _LENGTH_END

    @property
    def counts(self) -> np.ndarray:
        return self.column("records_count")

    @property
    def last_offsets(self) -> np.ndarray:
        """Offsets of the last records, inclusive."""
        return self.column("base_offset") + self.column("last_offset_delta")

    @property
    def codecs(self) -> np.ndarray:
        """The numbers of `pykraft.protocol.compression.Compression`."""
        return self._fields["attributes"] & _COMPRESSION_MASK

    @property
    def are_control(self) -> np.ndarray:
        return (self._fields["attributes"] & _CONTROL_BIT) != 0

    @property
    def are_log_append_time(self) -> np.ndarray:
        """In which every record has the time ``max_timestamp``."""
        return (self._fields["attributes"] & _LOG_APPEND_TIME_BIT) != 0

    @property
    def are_compacted(self) -> np.ndarray:
        """From which a cleaner removed records, so that they have fewer records than offsets."""
        return self._fields["records_count"] != self.column("last_offset_delta") + 1

    def have_crcs_of(self, data: Buffer) -> np.ndarray:
        """Which batches have the CRC of their bytes in ``data``."""
        begins = self.positions + _CRC_START
        ends = self.positions + self.sizes_bytes
        with memoryview(data) as view:
            computed = [crc32c(view[begin:end]) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
        return np.array(computed, dtype=np.int64) == self.column("crc")

    def run(self, shift: int) -> BatchRun | None:
        """See `pykraft.spark.data_source.splits.FoundHeaders`."""
        base_offsets, epochs, last_offsets = self.column("base_offset"), self._fields["epoch"], self.last_offsets
        is_run = len(self) and (epochs == epochs[0]).all() and (base_offsets[1:] == last_offsets[:-1] + 1).all()
        if not is_run or self._fields["attributes"].any():
            return None
        return BatchRun(
            b"",
            shift,
            positions=(shift + int(self.positions[0]), shift + int(self.positions[-1] + self.sizes_bytes[-1])),
            base_offset=Offset(int(base_offsets[0])),
            epoch=Epoch(int(epochs[0])),
            last_offsets=(int(last_offsets[-1]),),
            max_timestamps=(),
        )

    def _are_plain(self) -> np.ndarray:
        fields = self._fields
        deltas, counts = self.column("last_offset_delta"), self.counts
        return (
            (fields["magic"] == MAGIC)
            & (fields["base_offset"] >= 0)
            & (deltas >= 0)
            & (self.last_offsets >= 0)  # a sum that is too large is negative
            & (fields["epoch"] >= 0)
            & (self.codecs == 0)
            & (counts >= 0)
            & (counts <= deltas + 1)
            & (counts * RECORD_SIZE_BYTES_MIN <= self.sizes_bytes - HEADER_SIZE_BYTES)
        )


def headers_of(data: Buffer) -> Headers:
    """Those of the whole batches at the beginning, up to the first that is cut or has no valid header."""
    positions = _starts(data)
    if not len(positions):
        return Headers(positions, np.empty(0, dtype=_HEADER))
    anywhere = np.ndarray(len(data) - HEADER_SIZE_BYTES + 1, dtype=f"V{HEADER_SIZE_BYTES}", buffer=data, strides=(1,))
    found = Headers(positions, anywhere[positions].view(_HEADER))
    for index in np.flatnonzero(~found._are_plain()).tolist():  # noqa: SLF001 - our own class
        try:
            read_header(data, int(positions[index]))
        except ProtocolError:
            return found.at(slice(index))
    return found


def _starts(data: Buffer) -> np.ndarray:
    found = [np.empty(0, dtype=np.int64)]
    at = 0
    while len(starts := batch_starts(data, at)) > 1:
        at = starts[-1]
        if isinstance(starts, range):
            found.append(np.arange(starts.start, at, starts.step))
        else:
            found.append(np.array(starts[:-1], dtype=np.int64))
    return np.concatenate(found)
