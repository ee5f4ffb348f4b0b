"""An operator who is told that a voter was added, or removed, can rely on it: the change is committed.

Only a request that asks for an answer before the commit (KIP-1186) gets one earlier, and no operator here sends such a
request.

Source: KIP-853 §AddRaftVoter, §RemoveRaftVoter; Kafka ``AddVoterHandler.highWatermarkUpdated``.
"""

from __future__ import annotations

from pykraft.core.messages import AddVoterRequest
from pykraft.errors import ErrorCode
from pykraft.sim.invariants.invariant import Invariant, VoterRequest


class ChangeIsCommittedWhenTold(Invariant):
    """A change that an operator was told is done is in a voter set that was committed since the request."""

    def answered(self, asked: VoterRequest) -> None:
        """Look for a voter set with the requested change."""
        if asked.answer != ErrorCode.NONE:
            return
        key, is_addition = asked.message.voter, isinstance(asked.message, AddVoterRequest)
        for record in self.facts.members.electorate.records:
            is_done = any(voter.key == key for voter in record.voters.voters) is is_addition
            if is_done and record.offset >= asked.since and self.facts.members.is_committed(record.entry):
                return
        what = "added" if is_addition else "removed"
        raise self.violated(f"the operator is told that voter {key.id} was {what}, and no committed voter set says so")
