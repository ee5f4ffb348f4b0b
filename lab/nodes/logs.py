"""Reads the logs of replicas as streams of batches, while the nodes run or after, and compares them.

Invariant: a stream is contiguous and every batch in it has a valid CRC. Replicas may split it into segments at
different offsets. An incomplete batch at the end of the newest segment is not part of the stream yet; anywhere else it
is an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pykraft.errors import LocalQuorumError, ProtocolError
from pykraft.local.child import Child, wait_until
from pykraft.protocol.records import scan


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Whole batches from the start of a log to its end. Offsets: the end is exclusive."""

    start_offset: int
    end_offset: int
    last_epoch: int
    data: bytes

    def until(self, end_offset: int) -> bytes:
        """The batches that end at this offset or before."""
        ends = [position + header.size_bytes for position, header in scan(self.data) if header.end_offset <= end_offset]
        return self.data[: ends[-1]] if ends else b""


def read_stream(partition: Path) -> Stream:
    """The log in this partition directory; empty if there is none yet.

    Errors: ProtocolError for a damaged batch; LocalQuorumError for a gap or an incomplete segment.
    """
    segments = sorted(partition.glob("*.log"))
    start = end = int(segments[0].stem) if segments else 0
    epoch = 0
    parts: list[bytes] = []
    for segment in segments:
        data = segment.read_bytes()
        size_bytes = 0
        for position, header in scan(data):
            if header.base_offset != end:
                raise LocalQuorumError(f"{segment}: offset {header.base_offset} at byte {position} follows {end}")
            if header.epoch < epoch:
                raise LocalQuorumError(f"{segment}: epoch {header.epoch} at byte {position} follows {epoch}")
            end, epoch, size_bytes = header.end_offset, header.epoch, position + header.size_bytes
        whole = size_bytes == len(data) or segment == segments[-1]
        if not whole:
            raise LocalQuorumError(
                f"{segment}: {len(data) - size_bytes} bytes after the last whole batch, and segments follow"
            )
        parts.append(data[:size_bytes])
    return Stream(start_offset=start, end_offset=end, last_epoch=epoch, data=b"".join(parts))


def wait_for_end_offset(partition: Path, end_offset: int, process: Child) -> Stream:
    """Wait until the log of a running replica ends at this offset or later; returns the log."""

    def read() -> Stream | None:
        try:
            stream = read_stream(partition)
        except (ProtocolError, LocalQuorumError, FileNotFoundError):
            # A log that is being truncated, or replaced by a snapshot, may look damaged or lack files: read it again.
            return None
        return stream if stream.end_offset >= end_offset else None

    return wait_until(read, f"{process.name} to have all records below offset {end_offset}", alive=[process])


def require_identical(streams: Mapping[str, Stream], *, end_offset: int) -> None:
    """Check that the streams have the same batches up to this offset, which all of them must reach.

    Errors: LocalQuorumError that shows the first difference.
    """
    (first_name, first), *others = streams.items()
    for name, stream in streams.items():
        if stream.end_offset < end_offset:
            raise LocalQuorumError(f"{name} ends at {stream.end_offset}, before {end_offset}")
    for name, other in others:
        # Beyond the committed records a stopped replica may hold batches that the next leader never had.
        if first.until(end_offset) == other.until(end_offset):
            continue
        for (position, ours), (other_position, theirs) in zip(scan(first.data), scan(other.data), strict=False):
            mine = first.data[position : position + ours.size_bytes]
            its = other.data[other_position : other_position + theirs.size_bytes]
            if mine != its:
                at = f"at bytes {position} and {other_position}"
                raise LocalQuorumError(f"{first_name} and {name} differ {at}:\n{ours}\n{theirs}")
        raise LocalQuorumError(f"{first_name} and {name} hold the same batches, but not up to offset {end_offset}")
