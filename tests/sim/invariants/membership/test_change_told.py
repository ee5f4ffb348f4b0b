"""An answer that a change is done is found if no such change was committed since the request."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.core.messages import AddVoterRequest, RemoveVoterRequest
from pykraft.errors import ErrorCode
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.membership.change_told import ChangeIsCommittedWhenTold
from pykraft.types import NO_LISTENERS
from tests.sim.invariants.fakes import entry, keyed, voter_record, world

KEY = keyed(3).voters[0].key
ADD = AddVoterRequest(voter=KEY, listeners=NO_LISTENERS, timeout_ms=1)
REMOVE = RemoveVoterRequest(voter=KEY)


def answered(message: AddVoterRequest | RemoveVoterRequest, answer: ErrorCode, since: int = 5) -> None:
    """Voter 3 was removed at 4 and added at 6, which is committed, and is to be removed at 8, which is not."""
    where = world()
    where.committed.entries += [entry(4), entry(6)]
    where.members.electorate.records = [
        voter_record(4, keyed(1, 2)),
        voter_record(6, keyed(1, 2, 3)),
        voter_record(8, keyed(1, 2)),
    ]
    made: Any = SimpleNamespace(message=message, answer=answer, since=since)
    ChangeIsCommittedWhenTold(where).answered(made)


def test_what_was_committed_since_may_be_told() -> None:
    answered(ADD, ErrorCode.NONE)
    answered(REMOVE, ErrorCode.NONE, since=3)
    answered(REMOVE, ErrorCode.REQUEST_TIMED_OUT)


@pytest.mark.parametrize(("message", "since", "what"), [(REMOVE, 5, "removed"), (ADD, 7, "added")])
def test_what_is_in_doubt_or_was_before_may_not(message: RemoveVoterRequest, since: int, what: str) -> None:
    with pytest.raises(ViolationError, match=f"voter 3 was {what}, and no committed voter set says so"):
        answered(message, ErrorCode.NONE, since)
