"""An answer to a Fetch with other bytes than were written is found."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.disks.served import ServedIsSound
from pykraft.sim.machine.ledger import Ledger
from pykraft.sim.machine.spoken import Spoken
from tests.sim.invariants.fakes import encoded, entries_of, node, world

BATCHES = (encoded(0, b"a", b"b"), encoded(2, b"c"))


@pytest.fixture
def made() -> Any:
    where = world()
    where.ledgers[1] = Ledger(entries_of(*BATCHES))
    return ServedIsSound(where)


def test_what_was_written_is_accepted_and_so_is_an_answer_without_records(made: ServedIsSound) -> None:
    made.before_send(node(), Spoken(epoch=1))
    made.before_send(node(), Spoken(epoch=1, served=b"".join(BATCHES)))
    made.before_send(node(), Spoken(epoch=1, served=BATCHES[1]))


def test_a_damaged_batch_is_found(made: ServedIsSound) -> None:
    damaged = bytearray(BATCHES[1])
    damaged[-1] ^= 1
    with pytest.raises(ViolationError, match=r"node 1 answers a Fetch with a damaged batch: .* CRC"):
        made.before_send(node(), Spoken(epoch=1, served=BATCHES[0] + bytes(damaged)))


@pytest.mark.parametrize("served", [encoded(0, b"other"), encoded(2, b"c", epoch=2), encoded(7, b"d")])
def test_a_batch_that_was_never_written_there_is_found(made: ServedIsSound, served: bytes) -> None:
    with pytest.raises(ViolationError, match=r"not (Entry|None)"):
        made.before_send(node(), Spoken(epoch=1, served=served))
