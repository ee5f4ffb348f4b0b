"""A snapshot of texts, and what a reader of it gives."""

from pykraft.client.reader import StateReader
from pykraft.client.serde import text_serde
from pykraft.snapshot.files import checkpoint_path
from pykraft.snapshot.head import SnapshotReader
from tests.disks import ScriptedDisk
from tests.snapshot.snapshots import DIRECTORY, ID, write


def opened_snapshot(
    *values: bytes, damage_at: int | None = None, disk: ScriptedDisk | None = None
) -> SnapshotReader[str]:
    """It has a record for each value; other bytes at this position once it is open."""
    fs = disk or ScriptedDisk()
    fs.prepare(DIRECTORY)
    write(fs, values)
    reader = SnapshotReader.of(fs, DIRECTORY, ID, text_serde)
    if damage_at is not None:
        fs.open(checkpoint_path(DIRECTORY, ID), write=True).pwrite([b"damage"], damage_at)
    return reader


async def records(reader: StateReader[str]) -> list[str]:
    """All of them."""
    return [record async for batch in reader for record in batch.records]
