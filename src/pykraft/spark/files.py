"""Which bytes of which replica a Spark task reads: segment files, cut at batch boundaries.

Only headers are looked at. Behind the last whole batch of a replica's newest segment there may be a torn
batch or preallocated zeros: it is not yet, or no more, part of the log. Anywhere else that is corruption.

Source: KIP-595 (log layout); Kafka ``FileRecords`` and ``LogSegment.recover``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from pykraft.errors import CorruptionError, UsageError
from pykraft.log.paths import LOG, parse_segment_file
from pykraft.protocol.batch import HEADER_SIZE_BYTES

PIECE_SIZE_BYTES = 64 * 1024 * 1024
"""About how much of a segment one task reads."""
LENGTH_START, LENGTH_END = 8, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Whole batches of one segment, from ``position`` to ``end_position`` (exclusive)."""

    replica: str
    path: str
    position: int
    end_position: int


def find_segments(paths: str) -> dict[str, list[Path]]:
    """Segments by replica, oldest first, for a comma list of partition directories, files and globs.

    A replica is named by what tells its directory from the others.

    Errors: UsageError when a path matches nothing.
    """
    found: dict[Path, list[Path]] = {}
    for pattern in [part.strip() for part in paths.split(",") if part.strip()]:
        matches = [Path(match) for match in sorted(glob(pattern))]  # noqa: PTH207 - may be absolute
        files = [file for match in matches for file in _segments_of(match)]
        if not files:
            raise UsageError(f"{pattern}: no segment files; give partition directories, .log files or globs of them")
        for file in files:
            found.setdefault(file.parent, []).append(file)
    if not found:
        raise UsageError("the option path is empty: give partition directories, .log files or globs of them")
    names = replica_names(list(found))
    return {names[directory]: sorted(set(files)) for directory, files in found.items()}


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
    """Cut a replica's segments into pieces of whole batches.

    Errors: CorruptionError where an older segment does not end with a whole batch.
    """
    for segment in segments:
        start = position = 0
        for end in batch_ends(segment, is_newest=segment == segments[-1]):
            if end - start > size_bytes and position > start:
                yield Piece(replica=replica, path=str(segment), position=start, end_position=position)
                start = position
            position = end
        if position > start:
            yield Piece(replica=replica, path=str(segment), position=start, end_position=position)


def batch_ends(segment: Path, *, is_newest: bool) -> Iterator[int]:
    """Where each whole batch of a segment ends.

    Errors: CorruptionError for what is not a batch, unless it is the tail of the newest segment.
    """
    position = 0
    with segment.open("rb", buffering=1024 * 1024) as file:
        size_bytes = segment.stat().st_size
        while position < size_bytes:
            file.seek(position)
            head = file.read(HEADER_SIZE_BYTES)
            length = int.from_bytes(head[LENGTH_START:LENGTH_END], "big", signed=True)
            end = position + LENGTH_END + length
            if length < HEADER_SIZE_BYTES - LENGTH_END or end > size_bytes:
                if is_newest and (end > size_bytes or not any(head)):
                    return
                found = f"a batch length of {length} bytes"
                raise CorruptionError(segment, position=position, expected="a whole batch", found=found)
            position = end
            yield position


def read_piece(piece: Piece) -> bytes:
    """The bytes of a piece. Errors: CorruptionError when the file became shorter."""
    with Path(piece.path).open("rb") as file:
        file.seek(piece.position)
        data = file.read(piece.end_position - piece.position)
    if len(data) < piece.end_position - piece.position:
        found = f"only {len(data)} bytes"
        expected = f"{piece.end_position - piece.position} bytes"
        raise CorruptionError(piece.path, position=piece.position, expected=expected, found=found)
    return data
