"""A state is rebuilt from its records; other records are rejected.

The bytes of a snapshot are read as written; anything else is rejected.
"""

from __future__ import annotations

import pytest

from pykraft.errors import UsageError
from pykraft.sim.facts.application_state import ApplicationState, Plain, read_snapshot
from pykraft.sim.facts.history import READ, WRITE, value_of
from tests.sim.invariants.fakes import batch, encoded, entries_of, entry, snapshot_of


def test_a_state_is_read_back_as_it_was() -> None:
    state = ApplicationState(keeps_entries=True)
    written = value_of(5, WRITE, 3)
    for each in (batch(0), batch(1, written, epoch=2)):
        state.note(each)
    state.registers.apply(written)
    again = ApplicationState.of(map(Plain().deserialize, map(Plain().serialize, state.records())))
    assert again.records() == state.records()
    assert again.entries == entries_of(encoded(0), encoded(1, written, epoch=2))
    assert again.registers.apply(value_of(9, READ, 0)) == 5


def test_without_snapshots_no_batch_is_remembered() -> None:
    state = ApplicationState(keeps_entries=False)
    state.note(batch(0))
    assert state.records() == []


@pytest.mark.parametrize("record", [b"", b"E", b"R" + bytes(20), b"other"])
def test_what_is_no_record_is_refused(record: bytes) -> None:
    with pytest.raises(UsageError, match="no record"):
        ApplicationState.of([record])


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
