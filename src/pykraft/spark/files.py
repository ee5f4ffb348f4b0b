"""Which bytes of which replica a Spark task reads: segment files, cut at batch boundaries.

The driver looks at headers only, at all of them: they say where a batch ends, and that each begins where the one before
it ended, which no CRC covers. (Of an epoch, which none covers either, only a step back shows; replicas that differ show
more, see `pykraft.spark.audit`.) Behind the last whole batch of a replica's newest segment there may be a torn tail
(`pykraft.spark.tail`): it is not read. Everything else that is not a batch in its place is an error.

Invariant: a piece is whole batches, and all pieces of a replica are its log, each batch once.
It refuses to know records.

Source: KIP-595 (log layout); Kafka ``FileRecords`` and ``LogSegment.recover``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path

from pykraft.errors import CorruptionError, ProtocolError, UsageError
from pykraft.log.fs import File
from pykraft.log.os_fs import OsFs
from pykraft.log.paths import LOG, parse_segment_file
from pykraft.log.scan import scan_headers
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader, check_crc
from pykraft.spark.tail import Expected, is_torn, written_end
from pykraft.types import EPOCH_ZERO, Offset

PIECE_SIZE_BYTES = 64 * 1024 * 1024
"""About how much of a segment one task reads."""
PART_SIZE_BYTES = 8 * 1024 * 1024
"""About how much of it is in memory at one time."""
LENGTH_START, LENGTH_END = 8, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Whole batches of one segment, from ``position`` to ``end_position`` (exclusive)."""

    replica: str
    path: str
    position: int
    end_position: int


def find_segments(patterns: Sequence[str]) -> dict[str, list[Path]]:
    """Segments by replica, oldest first, for partition directories, segment files and globs of them.

    A replica is named by what tells its directory from the others.

    Errors: UsageError when one of the patterns matches no segment.
    """
    found: dict[Path, set[Path]] = {}
    for pattern in patterns:
        matches = [pattern] if Path(pattern).exists() else glob(pattern)  # noqa: PTH207 - may be absolute
        files = [file for match in matches for file in _segments_of(Path(match).resolve())]
        if not files:
            raise UsageError(f"{pattern}: no segment files; give partition directories, .log files or globs of them")
        for file in files:
            found.setdefault(file.parent, set()).add(file)
    names = replica_names(sorted(found))
    return {names[directory]: sorted(found[directory]) for directory in sorted(found)}


def replica_names(directories: Sequence[Path]) -> dict[Path, str]:
    """A short name for each directory: the part of its path in which it differs from the others."""
    if len(directories) == 1:
        return {directories[0]: directories[0].parent.name or str(directories[0])}
    parts = {directory: directory.absolute().parts for directory in directories}
    start = _common_length(list(parts.values()))
    end = _common_length([tuple(reversed(each)) for each in parts.values()])
    return {directory: "/".join(each[start : len(each) - end]) or str(directory) for directory, each in parts.items()}


def _common_length(sequences: Sequence[Sequence[str]]) -> int:
    """How many elements all sequences begin with."""
    count = 0
    for column in zip(*sequences, strict=False):
        if len(set(column)) > 1:
            break
        count += 1
    return count


def _segments_of(path: Path) -> list[Path]:
    candidates = sorted(path.iterdir()) if path.is_dir() else [path]
    return [file for file in candidates if (parsed := parse_segment_file(file.name)) and parsed[1] == LOG]


def pieces_of(replica: str, segments: Sequence[Path], *, size_bytes: int = PIECE_SIZE_BYTES) -> Iterator[Piece]:
    """Cut a replica's segments, oldest first, into pieces of whole batches.

    Errors: CorruptionError as `headers_of`.
    """
    ends = _end_offsets(segments)
    for segment in segments:
        start = end = 0
        for position, header in headers_of(segment, end_offset=ends[segment]):
            end = position + header.size_bytes
            if end - start > size_bytes and position > start:
                yield Piece(replica=replica, path=str(segment), position=start, end_position=position)
                start = position
        if end > start:
            yield Piece(replica=replica, path=str(segment), position=start, end_position=end)


def _end_offsets(segments: Sequence[Path]) -> dict[Path, Offset | None]:
    """For each segment where the next one in its directory begins, asked for or not; None for the newest."""
    found: dict[Path, Offset | None] = {}
    for directory in {segment.parent for segment in segments}:
        files = _segments_of(directory)
        found |= dict(zip(files, [*map(_base_offset, files[1:]), None], strict=True))
    return {segment: found[segment] for segment in segments}


def _base_offset(segment: Path) -> Offset:
    parsed = parse_segment_file(segment.name)
    assert parsed is not None, f"{segment} is no segment"
    return parsed[0]


def headers_of(segment: Path, *, end_offset: Offset | None) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch; checked is what the CRC does not cover, and not what it covers.

    ``end_offset`` is where the next segment begins; None for the newest, which may end in a torn tail.

    Errors: CorruptionError for what is not the batch that must come next; StorageError when it cannot be read.
    """
    file = OsFs().open(segment)
    try:
        written = written_end(file) if end_offset is None else file.size()
        expected, reached = Expected(base_offset=_base_offset(segment), epoch=EPOCH_ZERO), 0
        try:
            for position, header in scan_headers(segment, file, 0, file.size()):
                _check(segment, file, position, header, expected, written)
                yield position, header
                reached = position + header.size_bytes
                expected = Expected(base_offset=header.end_offset, epoch=header.epoch)
        except CorruptionError:
            if end_offset is not None or not is_torn(file, reached, written, expected):
                raise
        if end_offset is not None and expected.base_offset != end_offset:
            found = f"the end of the segment, and the next begins at {end_offset}"
            raise CorruptionError(segment, position=reached, expected=f"offset {expected.base_offset}", found=found)
    finally:
        file.close()


def _check(segment: Path, file: File, position: int, header: BatchHeader, expected: Expected, written: int) -> None:
    """Refuse a batch that cannot come next, and one with bytes that were never written."""
    if not expected.is_met_by(header):
        wanted = f"offset {expected.base_offset} of epoch {expected.epoch} or later"
        found = f"offset {header.base_offset} of epoch {header.epoch}"
        raise CorruptionError(segment, position=position, expected=wanted, found=found)
    if position + header.size_bytes > written:
        try:
            check_crc(file.pread(header.size_bytes, position), 0, header)
        except ProtocolError as error:
            raise CorruptionError(segment, position=position, expected="a whole batch", found=str(error)) from error


def read_parts(piece: Piece, *, size_bytes: int = PART_SIZE_BYTES) -> Iterator[tuple[Piece, bytes]]:
    """A piece in parts of whole batches, each with its bytes, so that only one needs to be in memory.

    A part is of about ``size_bytes``, or one batch.

    Errors: CorruptionError when the file is no longer as it was; StorageError when it cannot be read.
    """
    file = OsFs().open(Path(piece.path))
    try:
        least = max(size_bytes, HEADER_SIZE_BYTES)
        position, wanted = piece.position, least
        while position < piece.end_position:
            data = file.pread(min(wanted, piece.end_position - position), position)
            whole, next_size_bytes = _whole_batches(data)
            if whole:
                end_position = position + whole
                yield replace(piece, position=position, end_position=end_position), data[:whole]
                position, wanted = end_position, least
            elif wanted < next_size_bytes <= piece.end_position - position:
                wanted = next_size_bytes
            else:
                found = f"{len(data)} bytes that are none"
                raise CorruptionError(piece.path, position=position, expected="a whole batch", found=found)
    finally:
        file.close()


def _whole_batches(data: bytes) -> tuple[int, int]:
    """Bytes of the whole batches at the begin, as their lengths say, and of the one that is cut after them, or 0."""
    end = 0
    while len(data) - end >= LENGTH_END:
        size_bytes = LENGTH_END + int.from_bytes(data[end + LENGTH_START : end + LENGTH_END], "big", signed=True)
        if size_bytes < HEADER_SIZE_BYTES:
            return end, 0
        if size_bytes > len(data) - end:
            return end, size_bytes
        end += size_bytes
    return end, 0
