"""The bytes of a snapshot are read as written; anything else is rejected."""

from __future__ import annotations

import pytest

from pykraft.sim.facts.snapshot_bytes import read_snapshot
from tests.sim.invariants.fakes import encoded, entry
from tests.sim.snapshots import snapshot_of

WHOLE = snapshot_of([entry(0), entry(1)], epoch=3)
CONTROL_SIZE_BYTES = WHOLE.index(b"E") - 5


def test_what_the_writer_made_is_read() -> None:
    found = read_snapshot(WHOLE)
    assert found is not None
    assert (found.epoch, found.is_whole, found.state.entries) == (3, True, [entry(0), entry(1)])


def test_whole_batches_without_an_end_are_not_whole() -> None:
    sizes = [size for size in range(len(WHOLE)) if read_snapshot(WHOLE[:size]) is not None]
    assert len(sizes) == 2, "after the header, and after the records"
    assert not any(found.is_whole for found in (read_snapshot(WHOLE[:size]) for size in sizes) if found)


@pytest.mark.parametrize("content", [b"", b"bytes", WHOLE[:-1], WHOLE + WHOLE, encoded(0, b"no record of ours")])
def test_anything_else_is_none(content: bytes) -> None:
    assert read_snapshot(content) is None


@pytest.mark.parametrize("position", [70, 120, 200])
def test_a_changed_byte_is_seen(position: int) -> None:
    changed = bytearray(WHOLE)
    changed[position] ^= 1
    assert read_snapshot(bytes(changed)) is None
