"""A stranger's batch in a log is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.log.foreign_records import StrangersAddNothing
from tests.sim.invariants.fakes import appends, encoded, node, truncates, world


def test_what_only_a_stranger_wrote_is_found() -> None:
    where = world()
    made, batch = StrangersAddNothing(where), encoded(4, b"a")
    made.submitted(node(1), appends(batch))
    job = appends(batch)
    where.claims.batches.add((4, job.batches[0][0].crc))
    made.submitted(node(1), truncates(3))
    made.submitted(node(1), appends(encoded(4, b"b")))
    with pytest.raises(ViolationError, match="node 1 appends the batch of a stranger at 4"):
        made.submitted(node(1), job)
