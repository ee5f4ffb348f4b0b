"""Reads the batches of a file one after the other without holding the file in memory.

At most one chunk, or one larger batch, is in memory; a length is compared with the remaining bytes before anything is
read for it. Invariant: each batch yielded lies whole below ``end``, is sound in itself (header, and the CRC if asked),
and follows the previous one without a gap of bytes.

An error says where, what was expected and what was found.

Source: Kafka's ``FileLogInputStream`` and ``LogSegment.recover``.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pykraft.errors import CorruptionError, ProtocolError, ReadError
from pykraft.log.fs import File
from pykraft.protocol.batch import (
    BATCHES_MIN,
    HEADER_SIZE_BYTES,
    BatchHeader,
    BatchRun,
    batch_run,
    batch_starts,
    crc_of,
    read_header,
)

CHUNK_SIZE_BYTES: Final = 4 * 1024 * 1024
HEADERS_CHUNK_SIZE_BYTES: Final = 16 * 1024
REPAIR: Final = (
    "check the disk, and start the node: it fetches the damaged part from the leader. If no other voter leads, copy "
    "intact segments from another replica. Empty the directory only if the other voters still hold the whole log, and "
    "never that of an only voter"
)


def scan_file(
    path: Path, file: File, position: int, end: int, *, chunk_size_bytes: int = CHUNK_SIZE_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch between two positions; header and CRC are checked.

    Errors: CorruptionError at the first batch that is cut or wrong, after the good ones before it were yielded.
    """
    for place in _scan(path, file, position, end, chunk_size_bytes=chunk_size_bytes, verify_crc=True):
        assert not isinstance(place, BatchRun)
        yield place


def scan_runs(path: Path, file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader] | BatchRun]:
    """Like `scan_file`, with the same reads, but many plain batches that follow each other come as one run."""
    yield from _scan(path, file, position, end, chunk_size_bytes=CHUNK_SIZE_BYTES, verify_crc=True, has_runs=True)


def scan_headers(path: Path, file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Like `scan_file`, but skips the records and checks no CRC: for the few batches after an index entry."""
    for place in _scan(path, file, position, end, chunk_size_bytes=HEADERS_CHUNK_SIZE_BYTES, verify_crc=False):
        assert not isinstance(place, BatchRun)
        yield place


def _scan(
    path: Path, file: File, position: int, end: int, *, chunk_size_bytes: int, verify_crc: bool, has_runs: bool = False
) -> Iterator[tuple[int, BatchHeader] | BatchRun]:
    chunk, chunk_position, no_run_until = b"", position, position
    while position < end:
        at = position - chunk_position
        if has_runs and position >= no_run_until:
            starts = batch_starts(chunk, at)
            # What is no run is read batch by batch, which also finds out what is wrong, if anything is.
            no_run_until = starts[-1] + chunk_position
            if len(starts) > BATCHES_MIN and (run := batch_run(chunk, starts, shift=chunk_position)) is not None:
                yield run
                position = run.end
                continue
        held = len(chunk) - at
        remaining = end - position
        header = _header(path, position, chunk, at) if held >= HEADER_SIZE_BYTES else None
        size_bytes = header.size_bytes if header else HEADER_SIZE_BYTES
        # Check the length before reading: a damaged length must not make us read gigabytes.
        if size_bytes > remaining:
            raise _corruption(path, position, f"a batch of {size_bytes} bytes", f"{remaining} bytes")
        if header is None or (verify_crc and size_bytes > held):
            try:
                chunk = file.pread(min(remaining, max(chunk_size_bytes, size_bytes)), position)
            except ReadError:
                if chunk_size_bytes <= size_bytes:
                    raise
                # The disk lost bytes somewhere in this chunk, perhaps not in this batch. Read one batch at a time from
                # here on; do not try the large read again, since a read that fails may take seconds.
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


def epoch_in_words(epoch: int | None) -> str:
    """How errors and the notes in ``quarantine`` name a batch's epoch; recovery finds its own notes again by it."""
    return f"epoch {epoch}"
