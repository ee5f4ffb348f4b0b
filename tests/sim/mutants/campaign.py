"""Bugs around elections: pre-votes that disturb a healthy leader, and leaders that stay although nobody fetches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pykraft.core import departure, election, enter_state
from pykraft.core.election import NEVER_MS, Tally
from pykraft.core.events import RequestReceived
from pykraft.core.messages import VoteRequest
from pykraft.core.on import fetch_request, requests, timer, vote
from pykraft.core.quorum import majority_of
from pykraft.core.replica import Replica
from pykraft.core.state import Candidate, Follower, Leader, Prospective, Unattached
from pykraft.core.transitions import HIGHER, MOVES
from pykraft.errors import ErrorCode
from pykraft.types import Epoch, Instant, NodeId, ReplicaKey
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch


def pre_vote_raises_the_epoch(patch: Patch) -> None:
    """A node that asks for pre-votes first increases its epoch, also on disk, as candidates did before pre-votes."""

    def to_prospective(replica: Replica, now: Instant, *, is_early: bool = False) -> None:
        if len(replica.voters) > 1:
            enter_state.to_unattached(replica, Epoch(replica.epoch + 1), now)
        enter_state.to_prospective(replica, now, is_early=is_early)

    patch.setattr(timer, "to_prospective", to_prospective)


def end_of_epoch_without_successors_waits_longest(patch: Patch) -> None:
    """A leader resigns without naming successors; its followers then wait as long as voters missing from the list."""

    def backoff_ms(local: ReplicaKey, successors: tuple[ReplicaKey, ...], backoff_ms_max: int) -> int:
        return election.successor_backoff_ms(local, successors, backoff_ms_max) if successors else backoff_ms_max

    patch.setattr(departure, "successor_backoff_ms", backoff_ms)


def who_believes_a_goodbye_denies_pre_votes(patch: Patch) -> None:
    """A follower whose leader has left still counts it as alive for pre-votes, as in Kafka."""
    believe = departure._believe

    def _believe(replica: Replica, successors: tuple[ReplicaKey, ...], now: Instant) -> None:
        believe(replica, successors, now)
        if isinstance(replica.state, Follower):
            replica.state = replace(replica.state, has_fetched=True)

    patch.setattr(departure, "_believe", _believe)


def requests_of_the_epoch_before_are_served(patch: Patch) -> None:
    """A node answers a request of the epoch before its own instead of fencing it."""
    check = requests.voter_only_error

    def forgiving(replica: Replica, sender_id: NodeId, epoch: Epoch) -> ErrorCode:
        return check(replica, sender_id, Epoch(epoch + 1) if epoch == replica.epoch - 1 else epoch)

    patch.everywhere(check, forgiving)


def pre_vote_is_kept_as_a_vote(patch: Patch) -> None:
    """A voter that grants a pre-vote persists it like a vote."""
    on_vote_request = vote.on_vote_request

    def on_request(replica: Replica, event: RequestReceived, message: VoteRequest, now: Instant) -> None:
        on_vote_request(replica, event, message, now)
        state = replica.state
        is_free = isinstance(state, Unattached | Prospective) and state.voted is None
        if message.pre_vote and is_free and message.epoch == replica.epoch and vote.would_grant_vote(replica, message):
            enter_state.cast_vote(replica, message.candidate, now)

    patch.everywhere(on_vote_request, on_request)


def pre_vote_from_a_follower(patch: Patch) -> None:
    """A follower grants pre-votes although it has just heard from its leader."""
    _grants(patch, Follower)


def pre_vote_from_a_leader(patch: Patch) -> None:
    """A leader grants pre-votes against itself."""
    _grants(patch, Leader)


def candidate_without_pre_votes(patch: Patch) -> None:
    """A voter without a leader becomes a candidate at once, without asking for pre-votes."""

    def to_prospective(replica: Replica, now: Instant, *, is_early: bool = False) -> None:
        if isinstance(replica.state, Unattached):
            enter_state.to_candidate(replica, now)
        else:
            enter_state.to_prospective(replica, now, is_early=is_early)

    patch.setitem(MOVES, (Unattached, Candidate), HIGHER)
    patch.setattr(timer, "to_prospective", to_prospective)


def check_quorum_never_fires(patch: Patch) -> None:
    """A leader from which nobody fetches stays leader for ever."""
    patch.everywhere(enter_state.check_quorum_deadline_ms, lambda replica, now: NEVER_MS)


def check_quorum_counts_observers(patch: Patch) -> None:
    """A leader counts the fetches of observers towards the majority that keeps it leader."""

    def note(replica: Replica, leader: Leader, key: ReplicaKey, now: Instant) -> None:
        leader.fetched_voters.add(key.id)
        needed = majority_of(len(replica.voters)) - (1 if replica.is_voter else 0)
        if len(leader.fetched_voters) >= needed:
            leader.fetched_voters.clear()
            leader.check_quorum_deadline_ms = enter_state.check_quorum_deadline_ms(replica, now)

    patch.everywhere(fetch_request.note_sign_of_life, note)


def pre_vote_is_never_given_up(patch: Patch) -> None:
    """A node whose campaign for pre-votes failed never starts a new one, and stays prospective for ever."""

    def give_up(replica: Replica, now: Instant) -> None:
        state = replica.state
        assert isinstance(state, Prospective)
        replica.state = replace(state, election_deadline_ms=NEVER_MS)

    patch.everywhere(enter_state.give_up_campaign, give_up)
    patch.setattr(vote, "_ask_again", lambda replica, voter_id: None)


def observers_campaign(patch: Patch) -> None:
    """A node that is not in the voter set campaigns when its leader is silent."""
    patch.setattr(Replica, "is_voter", property(lambda self: self.local.key is not None))
    begin = Tally.begin

    def with_local(cls: Any, voters: Any, local: Any) -> Any:
        tally = begin(voters, local)
        itself = frozenset({local.id})
        return replace(tally, voters=tally.voters | itself, granted=itself, rejected=frozenset())

    patch.setattr(Tally, "begin", classmethod(with_local))


def transfer_does_not_wait_for_the_log(patch: Patch) -> None:
    """A leader resigns in favor of the target of a transfer at its next Fetch, however far behind the target is."""
    patch.setattr(timer, "is_due", lambda replica, leader: replica.transfer is not None and replica.transfer.is_heard)


def _grants(patch: Patch, kind: type[Any]) -> None:
    """In this state a node grants pre-votes to any log that is at least as long as its own."""
    rule = vote.would_grant_pre_vote

    def would_grant(replica: Replica, message: VoteRequest) -> bool:
        if isinstance(replica.state, kind):
            return message.last.is_at_least(replica.log.end)
        return rule(replica, message)

    patch.setattr(vote, "would_grant_pre_vote", would_grant)


MUTANTS = (
    Mutant(plant=pre_vote_raises_the_epoch, source="KIP-996 (the problem that it solves)"),
    Mutant(plant=pre_vote_is_kept_as_a_vote, source="KIP-996 (nothing of a pre-vote is persisted)"),
    Mutant(
        plant=pre_vote_from_a_follower,
        source="KIP-996; the star partition of RaftEventSimulationTest",
        scenario="stars",
    ),
    Mutant(plant=pre_vote_from_a_leader, source="KIP-996 (a leader denies)", scenario="returns"),
    Mutant(
        plant=end_of_epoch_without_successors_waits_longest,
        source="Kafka KafkaRaftClient.endEpochElectionBackoff; ours, until it was compared with Kafka",
    ),
    Mutant(plant=who_believes_a_goodbye_denies_pre_votes, source="KIP-996; Kafka denies until its fetch timeout"),
    Mutant(plant=requests_of_the_epoch_before_are_served, source="KIP-595 (FENCED_LEADER_EPOCH)", scenario="elections"),
    Mutant(plant=candidate_without_pre_votes, source="Kafka before 4.0"),
    Mutant(plant=check_quorum_never_fires, source="KAFKA-15489 (two leaders for a long time)", scenario="silence"),
    Mutant(
        plant=check_quorum_counts_observers,
        source="Kafka LeaderState: observers' fetches do not help",
        scenario="silence",
    ),
    Mutant(
        plant=pre_vote_is_never_given_up,
        source="NotStuckInProspective of the specification of KIP-996",
        scenario="elections",
    ),
    Mutant(plant=observers_campaign, source="Kafka QuorumState (an observer never becomes a candidate)"),
    Mutant(
        plant=transfer_does_not_wait_for_the_log,
        source="Raft dissertation §3.10 (the target is brought up to date first)",
        scenario="processes",
    ),
)
