"""An unproven replica that knows no other voter asks none.

Source: ours (ADR 022).
"""

from dataclasses import replace

import pytest

from pykraft.core import messages
from pykraft.core.effects import Send
from pykraft.core.on.proof import settle_proof
from pykraft.core.on.send_requests import PROBE_OFFSET
from pykraft.core.on.timer import poll
from pykraft.core.proof import Proof, Survey
from pykraft.core.raft import begin
from pykraft.core.state import Unattached
from pykraft.core.voter_history import VoterHistory
from pykraft.types import KRaftVoters, NodeId, Offset, VoterSet
from tests.core.on.test_proof import OTHERS, in_epoch_5, receive, surveyed, unproven
from tests.core.replicas import NOW, answer, done, unattached, voter_set
from tests.core.said import batch, fetched


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


def test_a_quorum_of_one_has_nobody_to_ask() -> None:
    made = unproven(unattached(), voters=voter_set(1))
    settle_proof(made, NOW)
    assert made.survey is None


@pytest.mark.parametrize("offset", [-1, 3])
def test_the_only_voter_in_a_log_waits_until_it_has_what_its_leader_had(offset: int) -> None:
    """Campaign seed 10686: the log that it fetched began when it was the only voter, and it took itself for that."""
    made = in_epoch_5(unproven(voters=VoterSet()))
    made.voter_history.record(Offset(offset), KRaftVoters(voters=voter_set(1)))
    poll(made, NOW)
    (probe,) = [one for one in done(made) if isinstance(one, Send)]
    assert isinstance(probe.message, messages.FetchRequest)
    assert (probe.message.replica, probe.message.fetch_offset) == (None, PROBE_OFFSET)
    receive(made, probe, fetched(epoch=5, leader_id=2, diverging=(12, 5)))
    assert made.survey is not None
    assert (made.survey.others, made.survey.until_offset) == (frozenset(), 12)
    made.voter_history.record(Offset(11), KRaftVoters(voters=voter_set(1, 2)))
    poll(made, NOW)
    assert made.survey.others == frozenset({NodeId(2)})
    assert made.survey.until_offset is None


@pytest.mark.parametrize("has_voters", [True, False])
def test_the_only_voter_in_its_own_log_needs_no_leader(has_voters: bool) -> None:
    """Its quorum-state was removed, and its log was not. What it learns of voters later is not its own."""
    made = unproven(unattached(), voters=VoterSet())
    if not has_voters:
        settle_proof(made, NOW, is_log_own=True)
    made.voter_history.record(Offset(3), KRaftVoters(voters=voter_set(1)))
    settle_proof(made, NOW, is_log_own=has_voters)
    assert (made.survey is None) is has_voters


@pytest.mark.parametrize("was_complete", [True, False])
def test_a_start_takes_the_log_of_a_directory_that_was_proven_for_its_own(was_complete: bool) -> None:
    made = unproven(unattached(), voters=VoterSet())
    made.voter_history.record(Offset(3), KRaftVoters(voters=voter_set(1)))
    made.local = replace(made.local, proof=Proof(is_complete=False, was_complete=was_complete))
    begin(made, NOW)
    assert isinstance(made.state, Unattached) is not was_complete
    assert (made.survey is None) is was_complete


def test_the_only_voter_in_a_log_is_proven_by_its_leader() -> None:
    made = in_epoch_5(unproven(survey=surveyed(others=frozenset(), until_offset=Offset(10)), voters=VoterSet()))
    made.voter_history.record(Offset(3), KRaftVoters(voters=voter_set(1)))
    answer(made, fetched(batch(10, 12, epoch=5), epoch=5, leader_id=2))
    assert (made.survey, made.votes_above) == (None, 5)


def test_the_only_voter_of_a_checkpoint_without_a_log_leads() -> None:
    made = unproven(unattached(), is_empty=True, voters=VoterSet())
    made.voter_history.record(Offset(-1), KRaftVoters(voters=voter_set(1)))
    settle_proof(made, NOW)
    assert made.survey is None
