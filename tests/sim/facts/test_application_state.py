"""A state is rebuilt from its records; other records are rejected."""

from __future__ import annotations

import pytest

from pykraft.errors import UsageError
from pykraft.sim.facts.application_state import ApplicationState, Plain
from pykraft.sim.facts.history import READ, WRITE, value_of
from tests.sim.invariants.fakes import batch, encoded, entries_of


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
