"""Logs that tests write: batches of known values in segment files, as a replica has them."""

from collections.abc import Sequence
from pathlib import Path

from pykraft.local.journal import Acknowledged
from pykraft.log.paths import LOG, segment_file
from pykraft.protocol.records import encode_batch
from pykraft.types import Epoch, NodeId, Offset

START_MS = 1_700_000_000_000
RUN = bytes.fromhex("00112233445566aa")
EPOCH = 3


def batch(values: Sequence[bytes], *, base_offset: int, epoch: int = EPOCH, timestamp_ms: int = START_MS) -> bytes:
    """One batch as KRaft writes it."""
    return encode_batch(values, base_offset=Offset(base_offset), epoch=Epoch(epoch), timestamp_ms=timestamp_ms).data


def payload(sequence: int, *, epoch: int = EPOCH, rest: bytes = b"random") -> bytes:
    """A record of the workload."""
    return RUN + epoch.to_bytes(4, "big") + sequence.to_bytes(8, "big") + rest


def said(count: int, *, first_sequence: int = 0, epoch: int = EPOCH, base_offset: int = 0) -> Acknowledged:
    """Node 1 acknowledges so many records of the workload."""
    return Acknowledged(
        node=NodeId(1),
        run=RUN,
        epoch=Epoch(epoch),
        first_sequence=first_sequence,
        count=count,
        base_offset=Offset(base_offset),
        wall_ms=START_MS,
        latency_ms=1.0,
    )


def write_segment(partition: Path, data: bytes, *, base_offset: int = 0) -> Path:
    """A segment file with these bytes."""
    partition.mkdir(parents=True, exist_ok=True)
    path = partition / segment_file(Offset(base_offset), LOG)
    path.write_bytes(data)
    return path


def three_batches() -> list[bytes]:
    """Offsets 0 to 5, two a batch."""
    return [batch([b"a%d" % i, b"b%d" % i], base_offset=2 * i) for i in range(3)]
