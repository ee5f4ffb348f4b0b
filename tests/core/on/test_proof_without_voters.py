"""An unproven replica that knows no voter set asks nobody.

Source: ours (ADR 022).
"""

from __future__ import annotations

from pykraft.core import messages
from pykraft.core.effects import Send
from pykraft.core.on.timer import poll
from pykraft.core.proof import Survey
from pykraft.core.voter_history import VoterHistory
from pykraft.types import NodeId, VoterSet
from tests.core.on.test_proof import OTHERS, surveyed, unproven
from tests.core.replicas import NOW, done, unattached, voter_set


def test_without_voters_it_cannot_know_whether_it_is_one() -> None:
    made = unproven(unattached(), survey=Survey(has_fresh_id=True))
    made.voter_history = VoterHistory(VoterSet())
    poll(made, NOW)
    assert made.survey == Survey(has_fresh_id=True)


def test_when_a_truncation_has_removed_the_voters_it_asks_nobody_until_it_knows_some() -> None:
    """Seed 3731: the leader's log had none yet, and the next round of the survey ended the node."""
    made = unproven(unattached(), is_empty=True, survey=surveyed(told=frozenset({NodeId(2)}), has_old_voter=True))
    made.voter_history = VoterHistory(VoterSet())
    poll(made, NOW)
    assert made.survey == Survey(has_fresh_id=False, has_old_voter=True)
    assert [
        each for each in done(made) if isinstance(each, Send) and isinstance(each.message, messages.VoteRequest)
    ] == []
    made.voter_history = VoterHistory(voter_set(1, 2, 3))
    poll(made, NOW)
    assert made.survey.others == OTHERS
    assert made.survey.asked == OTHERS
