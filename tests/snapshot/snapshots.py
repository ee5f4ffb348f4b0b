"""Snapshots for tests, and their content, read in the simplest way."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

from pykraft import types
from pykraft.client.serde import bytes_serde
from pykraft.log.fs import Fs, make_directory
from pykraft.protocol.records import decode_control, decode_values, encode_batch, encode_control_batch, scan
from pykraft.sim.machine.disk import VirtualDisk
from pykraft.snapshot.files import checkpoint_path
from pykraft.snapshot.writer import SnapshotWriter

DIRECTORY = Path("/disk/partition-0")
ID = types.OffsetAndEpoch(types.Offset(157), types.Epoch(3))
TIMESTAMP_MS = 1_700_000_000_123
VOTERS = types.VoterSet.of(
    types.Voter(
        key=types.ReplicaKey(types.NodeId(number), types.Uuid(bytes([number]) * 16)),
        listeners=types.Listeners((("CONTROLLER", types.Endpoint("localhost", 9000 + number)),)),
        kraft_version=types.VersionRange(0, 1),
    )
    for number in (1, 2, 3)
)


def disk(seed: int = 1) -> VirtualDisk:
    """A disk with the directory on it."""
    made = VirtualDisk(Random(seed))
    make_directory(made, DIRECTORY)
    return made


def id_of(offset: int, epoch: int) -> types.OffsetAndEpoch:
    """A snapshot id."""
    return types.OffsetAndEpoch(types.Offset(offset), types.Epoch(epoch))


def begin(fs: Fs, directory: Path = DIRECTORY, snapshot_id: types.OffsetAndEpoch = ID) -> SnapshotWriter[bytes]:
    """A writer of bytes, of kraft.version 0."""
    return SnapshotWriter(fs, directory, snapshot_id, bytes_serde, last_contained_log_timestamp=TIMESTAMP_MS)


def write(
    fs: Fs, values: Sequence[bytes], directory: Path = DIRECTORY, snapshot_id: types.OffsetAndEpoch = ID
) -> bytes:
    """A frozen snapshot with these records; returns the bytes of its file."""
    writer = begin(fs, directory, snapshot_id)
    writer.append(values)
    size_bytes = writer.freeze()
    return fs.open(checkpoint_path(directory, snapshot_id)).pread(size_bytes + 1, 0)


def small_batches(*, salt: int = 0) -> bytes:
    """The bytes of a snapshot of many small batches, as a leader serves them; with ``salt`` others of the same size."""
    batches = [
        encode_control_batch(
            [types.SnapshotHeader(5)], base_offset=types.Offset(0), epoch=ID.epoch, timestamp_ms=5
        ).data
    ]
    for n in range(1, 41):
        values = [bytes([n + salt]) * (n * 37 % 900 + 1)]
        batches.append(encode_batch(values, base_offset=types.Offset(n), epoch=ID.epoch, timestamp_ms=5).data)
    batches.append(
        encode_control_batch(
            [types.SnapshotFooter()], base_offset=types.Offset(41), epoch=ID.epoch, timestamp_ms=5
        ).data
    )
    return b"".join(batches)


def content(data: bytes) -> list[list[bytes] | list[types.ControlRecord]]:
    """Batch for batch: values, or control records."""
    return [
        (decode_control if header.is_control else decode_values)(data[position : position + header.size_bytes])
        for position, header in scan(data)
    ]
