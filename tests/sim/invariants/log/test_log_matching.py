"""Two batches with one offset and epoch are found, and one batch after two different logs."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.log.log_matching import LogMatching
from pykraft.sim.machine.ledger import Ledger
from tests.sim.invariants.fakes import appends, encoded, node, snapshot_id, submit, truncates, world


def test_the_same_logs_are_accepted_however_they_are_cut_into_jobs() -> None:
    where = world()
    made = LogMatching(where)
    submit(made, where, node(1), appends(encoded(0, b"a"), encoded(1, b"b"), encoded(2, b"c", epoch=2)))
    submit(made, where, node(2), appends(encoded(0, b"a")), truncates(9))
    submit(made, where, node(2), appends(encoded(1, b"b"), encoded(2, b"c", epoch=2)))


def test_what_only_its_author_had_may_come_anew() -> None:
    where = world()
    made = LogMatching(where)
    submit(made, where, node(1), appends(encoded(0, b"a")), truncates(0), appends(encoded(0, b"b")))
    submit(made, where, node(2), appends(encoded(0, b"b")))


@pytest.mark.parametrize("node_id", [1, 3])
def test_another_batch_of_the_same_offset_and_epoch_is_found(node_id: int) -> None:
    where = world()
    made = LogMatching(where)
    for at in (1, 2):
        submit(made, where, node(at), appends(encoded(0, b"a")))
    submit(made, where, node(1), truncates(0))
    with pytest.raises(ViolationError, match=f"node {node_id} appends another batch .* at offset 0 of epoch 1"):
        made.submitted(node(node_id), appends(encoded(0, b"x")))


def test_the_same_batch_after_another_log_is_found() -> None:
    where = world()
    made = LogMatching(where)
    submit(made, where, node(1), appends(encoded(0, b"a"), encoded(1, b"b", epoch=2)))
    submit(made, where, node(2), appends(encoded(0, b"a", epoch=2)))
    with pytest.raises(ViolationError, match="to another log than was seen before"):
        made.submitted(node(2), appends(encoded(1, b"b", epoch=2)))


def test_a_log_that_begins_at_a_snapshot_goes_on_where_that_ends() -> None:
    where = world()
    made = LogMatching(where)
    submit(made, where, node(1), appends(encoded(0, b"a"), encoded(1, b"b", epoch=2)))
    where.committed = Ledger(where.ledger(node(1)).entries)
    where.ledgers[2] = Ledger(begin=snapshot_id(1))
    made.submitted(node(2), appends(encoded(1, b"b", epoch=2)))
