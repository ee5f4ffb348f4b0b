"""Walking over the batches of a file without holding the file in memory.

Owns the chunking: at most one chunk, or one larger batch, is held; a length is compared with the bytes that
remain before anything is read for it. Invariant: what it yields stands whole below ``end``, in itself sound
(header, and the CRC if asked), one after the other without a gap of bytes.

It refuses to know which offset or epoch must come next (`pykraft.log.recovery`) and what a bad batch means: it
says where, what was expected and what was found.

Source: Kafka's ``FileLogInputStream`` and ``LogSegment.recover``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pykraft.errors import CorruptionError, ProtocolError, ReadError
from pykraft.log.fs import File
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader, crc_of, read_header

CHUNK_SIZE_BYTES: Final = 4 * 1024 * 1024
HEADERS_CHUNK_SIZE_BYTES: Final = 16 * 1024
REPAIR: Final = "give the replica an empty directory and let it fetch the log again, after the disk was checked"


def scan_file(
    path: Path, file: File, position: int, end: int, *, chunk_size_bytes: int = CHUNK_SIZE_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch between two positions; header and CRC are right.

    Errors: CorruptionError at the first batch that is cut or wrong; the good ones before it were yielded.
    """
    yield from _scan(path, file, position, end, chunk_size_bytes=chunk_size_bytes, verify_crc=True)


def scan_headers(path: Path, file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """As `scan_file`, but it skips the records and does not check the CRC: for the few batches after an index entry."""
    yield from _scan(path, file, position, end, chunk_size_bytes=HEADERS_CHUNK_SIZE_BYTES, verify_crc=False)


def _scan(
    path: Path, file: File, position: int, end: int, *, chunk_size_bytes: int, verify_crc: bool
) -> Iterator[tuple[int, BatchHeader]]:
    chunk, chunk_position = b"", position
    while position < end:
        at = position - chunk_position
        held = len(chunk) - at
        remaining = end - position
        header = _header(path, position, chunk, at) if held >= HEADER_SIZE_BYTES else None
        size_bytes = header.size_bytes if header else HEADER_SIZE_BYTES
        if size_bytes > remaining:
            raise _corruption(path, position, f"a batch of {size_bytes} bytes", f"{remaining} bytes")
        if header is None or (verify_crc and size_bytes > held):
            try:
                chunk = file.pread(min(remaining, max(chunk_size_bytes, size_bytes)), position)
            except ReadError:
                if chunk_size_bytes <= size_bytes:
                    raise
                # The disk has lost something ahead, perhaps not of this batch. From here on read one batch at a time:
                # a read that fails may take seconds, so the large one is not tried again.
                chunk_size_bytes = 0
                continue
            chunk_position = position
            if len(chunk) < size_bytes:
                raise _corruption(path, position, f"{remaining} bytes", f"{len(chunk)} bytes")
            continue
        if verify_crc and (crc := crc_of(chunk, at, header)) != header.crc:
            raise _corruption(path, position, f"CRC {header.crc:08x} of {size_bytes} bytes", f"CRC {crc:08x}")
        yield position, header
        position += size_bytes


def _header(path: Path, position: int, chunk: bytes, at: int) -> BatchHeader:
    try:
        return read_header(chunk, at)
    except ProtocolError as error:
        found = str(error).removeprefix(f"the batch at byte {at} ")
        raise _corruption(path, position, "a batch header", f"one that {found}") from error


def _corruption(path: Path, position: int, expected: str, found: str) -> CorruptionError:
    return CorruptionError(path, position=position, expected=expected, found=found, repair=REPAIR)
