"""What a reader of chunks needs of their headers, and headers as the protocol's own reader finds them, one by one.

Whoever has NumPy reads them as columns (`pykraft.spark.data_source.headers.columns`), a few times as fast.

Invariant: every batch here is whole, and `pykraft.protocol.batch.read_header` takes it.

Source: KIP-98.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Protocol

from pykraft.errors import ProtocolError
from pykraft.protocol.batch import BatchHeader, scan
from pykraft.protocol.batch_run import BatchRun
from pykraft.types import Buffer


class FoundHeaders(Protocol):
    """Headers of batches that follow each other in some bytes."""

    def __len__(self) -> int: ...

    def pair(self, index: int) -> tuple[int, BatchHeader]:
        """Position and header of one batch; a negative index counts from the end."""

    def pairs(self) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch."""

    def run(self, shift: int) -> BatchRun | None:
        """Them as a run of batches in a file, in which the bytes begin at ``shift``; None if they are no run.

        Nobody has compared their CRCs.
        """


class ScannedHeaders:
    """An object for each header. They are no run: that is found out in the time that it would save."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Sequence[tuple[int, BatchHeader]]) -> None:
        self._pairs = pairs

    def __len__(self) -> int:
        return len(self._pairs)

    def pair(self, index: int) -> tuple[int, BatchHeader]:
        """See `FoundHeaders`."""
        return self._pairs[index]

    def pairs(self) -> Iterator[tuple[int, BatchHeader]]:
        """See `FoundHeaders`."""
        return iter(self._pairs)

    def run(self, shift: int) -> BatchRun | None:
        """See `FoundHeaders`."""


def scanned_headers(data: Buffer) -> ScannedHeaders:
    """Those of the whole batches at the beginning, up to the first that is cut or has no valid header."""
    pairs: list[tuple[int, BatchHeader]] = []
    # A bad header is reported once it is the first: the batches before it still count.
    with suppress(ProtocolError):
        pairs.extend(scan(data, verify_crc=False))
    return ScannedHeaders(pairs)
