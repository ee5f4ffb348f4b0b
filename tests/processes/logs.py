"""The logs of replicas as streams of batches, read from their files while the nodes run or after.

Owns reading and comparing. Invariant: a stream is contiguous and every batch in it has the right CRC; where it is cut
into segments differs from replica to replica and means nothing. An unfinished batch at the end of the newest segment is
not yet in the stream; anywhere else it is an error. It refuses to know records: that is `pykraft.client.journal_check`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pykraft.protocol.records import scan


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Whole batches from the start of a log to its end. Offsets: the end is exclusive."""

    start_offset: int
    end_offset: int
    last_epoch: int
    data: bytes


def read_stream(partition: Path) -> Stream:
    """The log in this partition directory; empty when there is none yet.

    Errors: ProtocolError for a damaged batch; AssertionError for a hole or an unfinished segment.
    """
    segments = sorted(partition.glob("*.log"))
    start = end = int(segments[0].stem) if segments else 0
    epoch = 0
    parts: list[bytes] = []
    for segment in segments:
        data = segment.read_bytes()
        size_bytes = 0
        for position, header in scan(data):
            assert header.base_offset == end, f"{segment}: offset {header.base_offset} at byte {position} follows {end}"
            assert header.epoch >= epoch, f"{segment}: epoch {header.epoch} at byte {position} follows {epoch}"
            end, epoch, size_bytes = header.end_offset, header.epoch, position + header.size_bytes
        whole = size_bytes == len(data) or segment == segments[-1]
        assert whole, f"{segment}: {len(data) - size_bytes} bytes after the last whole batch, and segments follow"
        parts.append(data[:size_bytes])
    return Stream(start_offset=start, end_offset=end, last_epoch=epoch, data=b"".join(parts))


def assert_identical(streams: Mapping[str, Stream]) -> None:
    """The streams are the same bytes up to the smallest end.

    Errors: AssertionError that shows the first batch that differs.
    """
    shortest_name, shortest = min(streams.items(), key=lambda item: len(item[1].data))
    for name, stream in streams.items():
        if stream.data.startswith(shortest.data) and stream.start_offset == shortest.start_offset:
            continue
        pairs = zip(scan(shortest.data), scan(stream.data), strict=False)
        for (position, ours), (other_position, theirs) in pairs:
            mine = shortest.data[position : position + ours.size_bytes]
            other = stream.data[other_position : other_position + theirs.size_bytes]
            assert mine == other, f"{shortest_name} and {name} differ at byte {position}:\n{ours}\n{theirs}"
        raise AssertionError(f"{shortest_name} and {name} start at {shortest.start_offset} and {stream.start_offset}")
