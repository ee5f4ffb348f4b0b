"""A batch of several proposals that is larger than a Fetch asks for is found."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.log.batch_size import BatchesFitAnswers
from tests.sim.invariants.fakes import appends, encoded, node, operation, truncates, world

LARGE = b"x" * 600_000


def looked(role: str, *bases: int | None, gone: int | None = None) -> None:
    where = world()
    for number, base in enumerate(bases):
        where.history.operations.append(operation(number, b"v", base_offset=base))
    if gone is not None:
        where.history.operations[gone].is_alive = lambda: False
    where.history.operations.append(operation(9, b"v", base_offset=5, epoch=2))
    at: Any = node(1, role=role)
    made = BatchesFitAnswers(where)
    made.submitted(at, appends(encoded(3, b"small"), encoded(4, LARGE, LARGE), encoded(6)))
    made.submitted(at, truncates(3))


def test_one_large_proposal_is_right_and_so_is_a_followers_append() -> None:
    looked("leader", 4, 6, None)
    looked("follower", 4, 5)


def test_what_a_process_accepted_that_is_gone_does_not_count() -> None:
    looked("leader", 4, 5, gone=0)


def test_several_are_one_too_many() -> None:
    with pytest.raises(ViolationError, match="for 2 proposals, and batches are filled up to 1048576"):
        looked("leader", 4, 5)
