"""Builds the bytes of snapshots, as the writer makes them, for tests of their readers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random

from pykraft.log.fs import make_directory
from pykraft.sim.facts.application_state import ENTRY, Plain
from pykraft.sim.machine.disk import VirtualDisk
from pykraft.sim.machine.ledger import Entry
from pykraft.snapshot.files import checkpoint_path
from pykraft.snapshot.writer import SnapshotWriter
from tests.sim.invariants.fakes import snapshot_id

DIRECTORY = Path("/disk")


def snapshot_of(entries: Iterable[Entry], *, epoch: int = 1) -> bytes:
    """The bytes of a snapshot whose records are these batches."""
    disk, wanted = VirtualDisk(Random(1)), snapshot_id(1, epoch=epoch)
    make_directory(disk, DIRECTORY)
    writer = SnapshotWriter(disk, DIRECTORY, wanted, Plain(), last_contained_log_timestamp=7)
    writer.append(ENTRY.pack(b"E", each.base_offset, each.end_offset, each.epoch, each.crc) for each in entries)
    writer.freeze()
    return disk.read(checkpoint_path(DIRECTORY, wanted))
