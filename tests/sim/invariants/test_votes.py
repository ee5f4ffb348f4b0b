"""What the oracles of votes and epochs report, and what they accept."""

from typing import Any

import pytest

from pykraft.core.epoch_budget import EPOCHS_PER_DAY
from pykraft.sim.facts.platter import DurableElection
from pykraft.sim.invariants import ViolationError, votes
from pykraft.sim.invariants.invariant import DOWN, View
from pykraft.sim.machine.spoken import LogEnd, Spoken
from pykraft.types import VoterSet
from tests.sim.invariants.fakes import BEFORE, directory_of, entry, keyed, node, view, vote_asked, voters_of, world


# elected: A leader without the votes of its own voters is found.
def vote(epoch: int, candidate_id: int) -> Spoken:
    return Spoken(epoch=epoch, candidate_id=candidate_id)


@pytest.mark.parametrize("voter_id", [4, 9])
def test_others_and_other_disks_do_not(voter_id: int) -> None:
    made = votes.LeaderHasItsVotes(world())
    made.before_send(node(voter_id), vote(1, 1))
    made.before_send(node(2), vote(1, 3))
    made.before_send(node(2), vote(2, 1))
    made.before_send(node(2), Spoken(epoch=1))
    with pytest.raises(ViolationError, match=r"with the votes of \[1\], the voters are \[1, 2, 3\]"):
        made.changed(node(1), BEFORE, view("leader", voters=keyed(1, 2, 3)))


# vote: A vote that is not on disk is found, and one that is granted twice.
def vote_vote(epoch: int, candidate_id: int | None = None) -> Spoken:
    return Spoken(epoch=epoch, candidate_id=candidate_id)


@pytest.mark.parametrize("voted_id", [None, 3])
def test_a_vote_that_is_not_on_disk_is_found(voted_id: int | None) -> None:
    with pytest.raises(ViolationError, match=f"its disk knows a vote for {voted_id}"):
        votes.OneVote(world(epoch=1, voted_id=voted_id)).before_send(node(), vote_vote(1, 2))


def test_a_second_vote_in_an_epoch_is_found_even_if_the_disk_forgot_the_first() -> None:
    where = world(epoch=1, voted_id=2)
    made = votes.OneVote(where)
    made.before_send(node(), vote_vote(1, 2))
    where.election = DurableElection(epoch=1, voted_id=3)
    with pytest.raises(ViolationError, match="voted for 2 before"):
        made.before_send(node(), vote_vote(1, 3))


def test_a_node_with_an_empty_disk_may_vote_anew_and_only_that_one() -> None:
    where = world(epoch=1, voted_id=2)
    made = votes.OneVote(where)
    for node_id in (1, 3):
        made.before_send(node(node_id), vote_vote(1, 2))
    made.wiped(node())
    where.election = DurableElection(epoch=1, voted_id=4)
    made.before_send(node(), vote_vote(1, 4))
    with pytest.raises(ViolationError, match="voted for 2 before"):
        made.before_send(node(3), vote_vote(1, 4))


def test_a_vote_for_somebody_who_only_asked_is_found() -> None:
    made = votes.VotesAreForCandidates(world())
    made.changed(node(2), BEFORE, view("prospective", 3))
    made.changed(node(2), BEFORE, view("candidate", 4))
    with pytest.raises(ViolationError, match="keeps a vote for 2 in epoch 3, which was not a candidate then"):
        made.changed(node(1), BEFORE, view("unattached-voted", 3, voted_id=2))


# vote_key: A vote that was requested from another directory id is found.
def granted(directory_id: bytes | None, *, is_pre_vote: bool = False) -> Spoken:
    return Spoken(epoch=2, granted=vote_asked(3, is_pre_vote=is_pre_vote, voter_directory_id=directory_id))


def test_votes_are_of_the_disk_that_was_asked_or_of_any() -> None:
    made = votes.VotesAreOfTheDisk(world())
    for accepted in (granted(None), granted(directory_of(1)), Spoken(epoch=1)):
        made.before_send(node(1), accepted)
    with pytest.raises(ViolationError, match="node 1 gives 3 its vote in epoch 2"):
        made.before_send(node(1), granted(directory_of(2)))
    with pytest.raises(ViolationError, match="node 1 gives 3 its pre-vote"):
        made.before_send(node(1), granted(directory_of(2), is_pre_vote=True))


# up_to_date: A vote or a pre-vote for a shorter log is found.
def granted_to(candidate: tuple[int, int], voter: tuple[int, int] | None, *, is_pre_vote: bool = False) -> Spoken:
    log = None if voter is None else LogEnd(epoch=voter[0], offset=voter[1])
    asked = vote_asked(2, epoch=5, is_pre_vote=is_pre_vote, candidate_log=candidate, voter_log=log)
    return Spoken(epoch=5, granted=asked)


@pytest.mark.parametrize(("candidate", "voter"), [((1, 4), (1, 5)), ((1, 9), (2, 1))])
@pytest.mark.parametrize("is_pre_vote", [True, False])
def test_a_shorter_log_is_found(candidate: tuple[int, int], voter: tuple[int, int], is_pre_vote: bool) -> None:
    with pytest.raises(ViolationError, match=f"log ends at offset {candidate[1]} of epoch {candidate[0]}"):
        votes.CandidateIsUpToDate(world()).before_send(node(), granted_to(candidate, voter, is_pre_vote=is_pre_vote))


def test_a_vote_may_be_repeated_when_the_log_has_grown_meanwhile() -> None:
    """The voter had followed another one of that epoch, and lost it, when its candidate asked again."""
    grown = granted_to((4, 7), (5, 8))
    made = votes.CandidateIsUpToDate(world())
    with pytest.raises(ViolationError):
        made.before_send(node(), grown)
    made.changed(node(), BEFORE, view(epoch=5, voted_id=2))
    made.before_send(node(), grown)
    with pytest.raises(ViolationError):
        made.before_send(node(), granted_to((3, 7), (4, 8)))
    made.wiped(node())
    with pytest.raises(ViolationError):
        made.before_send(node(), grown)


def test_a_vote_for_a_shorter_log_is_none_that_may_be_repeated() -> None:
    seen = world()
    seen.held[1] = [entry(0, epoch=5)]
    made = votes.CandidateIsUpToDate(seen)
    made.changed(node(), BEFORE, view(epoch=5, voted_id=2))
    with pytest.raises(ViolationError):
        made.before_send(node(), granted_to((4, 7), (5, 8)))


# pre_vote: A pre-vote that is denied without a reason is found.
def denied(*, offset: int = 5, **fields: Any) -> Spoken:
    """Node 3, whose log ends at 5, is denied a pre-vote by a voter whose log ends at this offset."""
    asked = vote_asked(3, is_pre_vote=True, voter_log=LogEnd(epoch=1, offset=offset), **fields)
    return Spoken(epoch=2, denied=asked)


@pytest.mark.parametrize("offset", [4, 5])
def test_a_denial_without_a_leader_is_found(offset: int) -> None:
    where: Any = world()
    where.nodes = {3: node(3)}
    made = votes.PreVotesAreGranted(where)
    made.before_send(node(), denied(offset=offset, candidate_directory_id=bytes(16)))
    with pytest.raises(ViolationError, match="node 1 denies 3 its pre-vote in epoch 2"):
        made.before_send(node(), denied(offset=offset))


# epoch_growth: An epoch beyond every budget is found.
def test_each_process_has_a_budget_and_no_more() -> None:
    made = votes.EpochsGrowWithinBudget(world())
    made.started(node(1))
    made.changed(node(1), BEFORE, view(epoch=EPOCHS_PER_DAY))
    with pytest.raises(ViolationError, match="node 2 is in epoch 2097152"):
        made.changed(node(2), BEFORE, view(epoch=2 * EPOCHS_PER_DAY))
    made.started(node(2))
    made.changed(node(2), BEFORE, view(epoch=2 * EPOCHS_PER_DAY))


def test_an_epoch_that_falls_on_disk_is_found_even_when_the_node_is_down() -> None:
    made = votes.MonotonicEpoch(world())
    made.changed(node(), BEFORE, view(epoch=2))
    made.changed(node(2), BEFORE, view(epoch=1))
    with pytest.raises(ViolationError, match="fell from epoch 2 to 1"):
        made.changed(node(), BEFORE, view(DOWN, 0, disk_epoch=1))


@pytest.mark.parametrize(("memory", "disk", "is_settled"), [(1, 2, False), (2, 1, True)])
def test_memory_and_disk_that_do_not_agree_are_found(memory: int, disk: int, is_settled: bool) -> None:
    with pytest.raises(ViolationError, match=f"is in epoch {memory}, its disk in {disk}"):
        votes.MonotonicEpoch(world()).changed(
            node(), BEFORE, view(epoch=memory, disk_epoch=disk, is_settled=is_settled)
        )


def test_a_node_with_an_empty_disk_begins_anew_and_only_that_one() -> None:
    made = votes.MonotonicEpoch(world())
    for node_id in (1, 2):
        made.changed(node(node_id), BEFORE, view(epoch=2))
    made.wiped(node())
    made.changed(node(), BEFORE, view(DOWN, 0, disk_epoch=0))
    with pytest.raises(ViolationError, match="node 2 fell"):
        made.changed(node(2), BEFORE, view(DOWN, 0, disk_epoch=0))


@pytest.mark.parametrize("role", ["prospective", "unattached", "follower"])
def test_whoever_else_begins_one_is_found(role: str) -> None:
    with pytest.raises(ViolationError, match=f"opened epoch 1 as {role}, it was unattached before"):
        votes.EpochBeginsWithCandidate(world()).changed(node(), view("unattached", 0), view(role, 1))


def test_an_older_epoch_is_not() -> None:
    with pytest.raises(ViolationError, match="node 1, in epoch 3, serves a request of epoch 2"):
        votes.OldEpochsAreFenced(world()).before_send(node(), Spoken(epoch=3, served_epoch=2))


def test_an_epoch_that_is_spoken_before_it_is_durable_is_found() -> None:
    with pytest.raises(ViolationError, match="speaks of epoch 2, its disk knows 1"):
        votes.EpochIsDurableFirst(world(epoch=1)).before_send(node(), Spoken(epoch=2))


# legal_moves: Illegal transitions are found, and states that a node may never be in.
LEADER = view("leader", 2, leader_id=1)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (BEFORE, LEADER),
        (view("unattached", 1), view("candidate", 2)),
        (view("prospective", 1), view("candidate", 3)),
        (view("prospective", 2), LEADER),
        (view("candidate", 1), LEADER),
        (view("follower", 2, leader_id=2), view("resigned", 2, leader_id=1)),
        (view("follower", 2), view("follower", 1)),
        (view("follower", 2), view("follower", 2, leader_id=1)),
        (view("candidate", 2), view("leader", 2, leader_id=2)),
    ],
)
def test_other_moves_are_found(was: View, now: View) -> None:
    with pytest.raises(ViolationError, match=f"which was {was.role}"):
        votes.LegalMoves(world()).changed(node(1), was, now)


def test_an_observer_only_observes() -> None:
    made = votes.LegalMoves(world())
    made.changed(node(4), BEFORE, view("observer", 2, leader_id=1))
    with pytest.raises(ViolationError, match="and it is no voter"):
        made.changed(node(4), BEFORE, view("prospective", 2))


def test_who_was_a_voter_before_the_newest_set_leads_on_and_may_be_needed_once_more() -> None:
    made, others = votes.LegalMoves(world()), VoterSet(voters_of(3).voters[1:])
    made.changed(node(1), LEADER, LEADER._replace(voters=others))
    made.changed(node(1), LEADER, view("resigned", LEADER.epoch, leader_id=1, voters=others))
    made.changed(node(1), view("candidate", LEADER.epoch), LEADER._replace(voters=others))
    with pytest.raises(ViolationError, match="and it is no voter"):
        made.changed(node(4), view("candidate", LEADER.epoch), LEADER._replace(leader_id=4, voters=others))
