"""A leader that resigns for a voter that lacks records, or with uncommitted records, is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.transfer import TransferLeavesNothing
from pykraft.sim.machine.spoken import LogEnd, Spoken
from pykraft.types import ReportKind
from tests.sim.invariants.fakes import entry, node, report, world

RESIGNED = report(ReportKind.RESIGNED_FOR_TARGET, 2, 3)


def resigned(fetched: LogEnd, committed: int) -> None:
    where = world()
    where.ledger(node()).entries += [entry(0), entry(1, epoch=2)]
    made = TransferLeavesNothing(where)
    made.before_send(node(3), Spoken(epoch=fetched.epoch, fetched=fetched))
    made.before_send(node(3), Spoken(epoch=2))
    leader = node(committed_end_offset=committed)
    made.reported(leader, report())
    made.reported(leader, RESIGNED)


def test_the_target_has_everything_and_all_is_committed() -> None:
    resigned(LogEnd(epoch=2, offset=2), 2)


@pytest.mark.parametrize(
    ("fetched", "committed"),
    [(LogEnd(epoch=2, offset=1), 2), (LogEnd(epoch=1, offset=2), 2), (LogEnd(epoch=2, offset=2), 1)],
)
def test_what_is_missing_or_in_doubt_is_found(fetched: LogEnd, committed: int) -> None:
    with pytest.raises(ViolationError, match="leader 1 of epoch 2 resigns for 3 at 2"):
        resigned(fetched, committed)
