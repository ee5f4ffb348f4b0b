"""Bugs of votes, campaigns and voters that never lead: an epoch gets two leaders, none, or one that keeps losing it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pykraft.core import departure, election, enter_state, never_leads, raft
from pykraft.core.connections import Connections
from pykraft.core.effects import Peer
from pykraft.core.election import NEVER_MS, Tally
from pykraft.core.events import Proposed, RequestReceived
from pykraft.core.messages import FetchRequest, Request, VoteRequest
from pykraft.core.on import fetch_request, following, propose, requests, send_requests, timer, vote
from pykraft.core.outbox import Outbox, Relies
from pykraft.core.quorum import majority_of
from pykraft.core.raft import initial_state
from pykraft.core.replica import Replica
from pykraft.core.state import Candidate, Follower, Leader, Prospective, Resigned, State, Unattached
from pykraft.core.transitions import HIGHER, MOVES
from pykraft.errors import ErrorCode, PykraftError
from pykraft.host.peers import Peers
from pykraft.log.fs import Fs
from pykraft.log.small_files import quorum_state
from pykraft.types import NO_IO, Epoch, Instant, NodeId, OffsetAndEpoch, ReplicaKey
from tests.sim.mutants.patch import Patch, bug


@bug("Raft paper §5.1; etcd raft/doc.go")
def vote_is_not_awaited(patch: Patch) -> None:
    """A node does not wait for its election state to be durable: it grants a vote before the vote is on disk."""
    after = Outbox._after
    patch.setattr(Outbox, "_after", lambda self, relies: after(self, relies) if relies is Relies.LOG else NO_IO)


@bug("ALICE (OSDI 2014): rename without fsync, in LevelDB and others")
def vote_is_not_synced(patch: Patch) -> None:
    """``quorum-state`` is renamed into place, but neither the file nor the directory is synced."""

    def write(fs: Fs, path: Path, content: bytes) -> None:
        temporary = path.with_name(f"{path.name}.tmp")
        file = fs.open(temporary, create=True)
        file.truncate(0)
        file.pwrite([content], 0)
        file.close()
        fs.rename(temporary, path)

    patch.setattr(quorum_state, "write_atomically", write)


@bug("ours, almost: epochs and votes are separate writes")
def grant_waits_for_the_epoch_only(patch: Patch) -> None:
    """A voter sends a granted vote when the epoch is on disk, perhaps before the vote is."""
    after = Outbox._after
    patch.setattr(
        Outbox, "_after", lambda self, relies: after(self, Relies.EPOCH if relies is Relies.ELECTION else relies)
    )


@bug("Raft paper §5.4.1")
def votes_ignore_the_log(patch: Patch) -> None:
    """A voter grants its vote to the first candidate, however short the candidate's log is."""
    patch.setattr(OffsetAndEpoch, "is_at_least", lambda self, other: True)


@bug("Raft paper §5.4.1; a common mistake in the labs of MIT 6.824")
def the_longer_log_wins(patch: Patch) -> None:
    """Voters compare logs by length only and ignore the last epoch."""
    patch.setattr(OffsetAndEpoch, "is_at_least", lambda self, other: self.offset >= other.offset)


@bug("Raft paper §5.2")
def votes_are_given_twice(patch: Patch) -> None:
    """A voter that has voted grants its vote to a second candidate of the same epoch."""

    def would_grant(replica: Replica, message: VoteRequest) -> bool:
        state = replica.state
        is_free = isinstance(state, Unattached | Prospective) and state.leader_id is None
        return is_free and message.last.is_at_least(replica.log.end)

    patch.setattr(vote, "would_grant_vote", would_grant)


@bug("KAFKA-14077 (a voter that lost its disk votes twice)", "elections")
def vote_is_forgotten_at_start(patch: Patch) -> None:
    """A restarted node reads its epoch from disk, but not the vote that it granted in it."""
    _patch_start(patch, lambda **given: initial_state(**{**given, "election": replace(given["election"], voted=None)}))


@bug("ours: a denial waited for the epoch only", "elections")
def leader_is_named_before_it_is_durable(patch: Patch) -> None:
    """A new leader names itself in answers as soon as its epoch is durable, perhaps before its election is."""
    reply = requests.reply

    def too_early(replica: Replica, request_id: int, response: Any, relies: Relies) -> None:
        reply(replica, request_id, response, relies if response.vote_granted else Relies.EPOCH)

    patch.setattr(vote, "reply", too_early)


@bug("majorities of an even number of voters: KAFKA-12712")
def half_is_a_majority(patch: Patch) -> None:
    """Two of four voters elect a leader."""
    patch.setattr(Tally, "is_won", property(lambda self: 2 * len(self.granted) >= len(self.voters)))


@bug("KIP-595 (a leader resigns when it restarts)")
def former_leader_campaigns_in_its_old_epoch(patch: Patch) -> None:
    """A restarted leader asks for votes in the epoch that it led, so it may lead this epoch twice."""

    def begin(**given: Any) -> State:
        state = initial_state(**given)
        key = given["local"].key
        if not isinstance(state, Resigned) or key is None:
            return state
        tally = Tally.begin(given["voters"], key)
        return Candidate(epoch=state.epoch, voted=key, election_deadline_ms=state.election_deadline_ms, tally=tally)

    _patch_start(patch, begin)


@bug("Kafka's QuorumState.initialize (the vote before the leader); ADR 020", "rivals")
def candidate_restarts_behind_a_leader(patch: Patch) -> None:
    """A restarted node that had voted for itself campaigns again, even if it followed a leader of that epoch since."""

    def begin(**given: Any) -> State:
        key, election = given["local"].key, given["election"]
        is_own = key is not None and election.voted is not None and election.voted.matches(key)
        is_own = is_own and election.leader_id != key.id and given["voters"].is_voter(key)
        return initial_state(**{**given, "election": replace(election, leader_id=None)} if is_own else given)

    _patch_start(patch, begin)


@bug("MIT 6.824 students' guide to Raft: term confusion", "elections")
def answers_of_an_older_epoch_count(patch: Patch) -> None:
    """A node takes any answer for the answer to its newest request.

    Three rules prevent this (correlation id, connection, epoch), and each covers for the others. Without all three, a
    vote granted in the last election counts in this one.
    """
    patch.setattr(Connections, "received", _received)
    patch.setattr(Peers, "_is_spent", lambda self, link, effect, now: link.endpoint != effect.peer.endpoint)
    settle = following.settle_answer

    def settle_answer(replica: Replica, peer_id: int, answer: Any, now: Instant) -> bool:
        return settle(replica, peer_id, replace(answer, epoch=max(answer.epoch, replica.epoch)), now)

    patch.everywhere(settle, settle_answer)


def _received(self: Connections, peer_id: int, correlation_id: int) -> bool:
    self._in_flight.pop(peer_id, None)
    return True


def _patch_start(patch: Patch, begin: Callable[..., State]) -> None:
    patch.setattr(raft, "initial_state", begin)


@bug("KIP-996 (the problem that it solves)")
def pre_vote_raises_the_epoch(patch: Patch) -> None:
    """A node that asks for pre-votes first increases its epoch, also on disk, as candidates did before pre-votes."""

    def to_prospective(replica: Replica, now: Instant, *, is_early: bool = False) -> None:
        if len(replica.voters) > 1:
            enter_state.to_unattached(replica, Epoch(replica.epoch + 1), now)
        enter_state.to_prospective(replica, now, is_early=is_early)

    patch.setattr(timer, "to_prospective", to_prospective)


@bug("Kafka KafkaRaftClient.endEpochElectionBackoff; ours, until it was compared with Kafka")
def end_of_epoch_without_successors_waits_longest(patch: Patch) -> None:
    """A leader resigns without naming successors; its followers then wait as long as voters missing from the list."""

    def backoff_ms(local: ReplicaKey, successors: tuple[ReplicaKey, ...], backoff_ms_max: int) -> int:
        return election.successor_backoff_ms(local, successors, backoff_ms_max) if successors else backoff_ms_max

    patch.setattr(departure, "successor_backoff_ms", backoff_ms)


@bug("KIP-996; Kafka denies until its fetch timeout")
def who_believes_a_goodbye_denies_pre_votes(patch: Patch) -> None:
    """A follower whose leader has left still counts it as alive for pre-votes, as in Kafka."""
    believe = departure._believe

    def _believe(replica: Replica, successors: tuple[ReplicaKey, ...], now: Instant) -> None:
        believe(replica, successors, now)
        if isinstance(replica.state, Follower):
            replica.state = replace(replica.state, has_fetched=True)

    patch.setattr(departure, "_believe", _believe)


@bug("KIP-595 (FENCED_LEADER_EPOCH)", "elections")
def requests_of_the_epoch_before_are_served(patch: Patch) -> None:
    """A node answers a request of the epoch before its own instead of fencing it."""
    check = requests.voter_only_error

    def forgiving(replica: Replica, sender_id: NodeId, epoch: Epoch) -> ErrorCode:
        return check(replica, sender_id, Epoch(epoch + 1) if epoch == replica.epoch - 1 else epoch)

    patch.everywhere(check, forgiving)


@bug("KIP-996 (nothing of a pre-vote is persisted)")
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


@bug("KIP-996; the star partition of RaftEventSimulationTest", "stars")
def pre_vote_from_a_follower(patch: Patch) -> None:
    """A follower grants pre-votes although it has just heard from its leader."""
    _grants(patch, Follower)


@bug("KIP-996 (a leader denies)", "returns")
def pre_vote_from_a_leader(patch: Patch) -> None:
    """A leader grants pre-votes against itself."""
    _grants(patch, Leader)


@bug("Kafka before 4.0")
def candidate_without_pre_votes(patch: Patch) -> None:
    """A voter without a leader becomes a candidate at once, without asking for pre-votes."""

    def to_prospective(replica: Replica, now: Instant, *, is_early: bool = False) -> None:
        if isinstance(replica.state, Unattached):
            enter_state.to_candidate(replica, now)
        else:
            enter_state.to_prospective(replica, now, is_early=is_early)

    patch.setitem(MOVES, (Unattached, Candidate), HIGHER)
    patch.setattr(timer, "to_prospective", to_prospective)


@bug("KAFKA-15489 (two leaders for a long time)", "silence")
def check_quorum_never_fires(patch: Patch) -> None:
    """A leader from which nobody fetches stays leader for ever."""
    patch.everywhere(enter_state.check_quorum_deadline_ms, lambda replica, now: NEVER_MS)


@bug("Kafka LeaderState: observers' fetches do not help", "silence")
def check_quorum_counts_observers(patch: Patch) -> None:
    """A leader counts the fetches of observers towards the majority that keeps it leader."""

    def note(replica: Replica, leader: Leader, key: ReplicaKey, now: Instant) -> None:
        leader.fetched_voters.add(key.id)
        needed = majority_of(len(replica.voters)) - (1 if replica.is_voter else 0)
        if len(leader.fetched_voters) >= needed:
            leader.fetched_voters.clear()
            leader.check_quorum_deadline_ms = enter_state.check_quorum_deadline_ms(replica, now)

    patch.everywhere(fetch_request.note_sign_of_life, note)


@bug("NotStuckInProspective of the specification of KIP-996", "elections")
def pre_vote_is_never_given_up(patch: Patch) -> None:
    """A node whose campaign for pre-votes failed never starts a new one, and stays prospective for ever."""

    def give_up(replica: Replica, now: Instant) -> None:
        state = replica.state
        assert isinstance(state, Prospective)
        replica.state = replace(state, election_deadline_ms=NEVER_MS)

    patch.everywhere(enter_state.give_up_campaign, give_up)
    patch.setattr(vote, "_ask_again", lambda replica, voter_id: None)


@bug("Kafka QuorumState (an observer never becomes a candidate)")
def observers_campaign(patch: Patch) -> None:
    """A node that is not in the voter set campaigns when its leader is silent."""
    patch.setattr(Replica, "is_voter", property(lambda self: self.local.key is not None))
    begin = Tally.begin

    def with_local(cls: Any, voters: Any, local: Any) -> Any:
        tally = begin(voters, local)
        itself = frozenset({local.id})
        return replace(tally, voters=tally.voters | itself, granted=itself, rejected=frozenset())

    patch.setattr(Tally, "begin", classmethod(with_local))


@bug("Raft dissertation §3.10 (the target is brought up to date first)", "processes")
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


@bug("ADR 077", "neverleads,few")
def never_leading_voter_never_campaigns(patch: Patch) -> None:
    """A voter that never leads does not campaign, even if only it and a dead voter have the newest records."""
    abstains = never_leads.abstains
    patch.everywhere(abstains, lambda replica: replica.config.never_leads)


@bug("ADR 077", "neverleads")
def never_leading_voter_always_campaigns(patch: Patch) -> None:
    """A voter that never leads campaigns at each timeout, like any other."""
    patch.everywhere(never_leads.abstains, lambda replica: False)


@bug("ADR 077", "neverleads")
def never_leading_voter_stays(patch: Patch) -> None:
    """A voter that never leads stays leader although another voter has its whole log."""
    patch.everywhere(never_leads.successor, lambda replica, leader: None)


@bug("ADR 077", "neverleads,few")
def never_leading_voter_hands_over_too_early(patch: Patch) -> None:
    """A voter that never leads resigns before any other voter has its whole log."""

    def anybody(replica: Replica, leader: Leader) -> NodeId | None:
        others = [node_id for node_id in leader.progress.voters if node_id != leader.leader_id]
        return others[0] if replica.config.never_leads else None

    patch.everywhere(never_leads.successor, anybody)


@bug("ADR 077", "neverleads")
def never_leading_voter_names_the_last_first(patch: Patch) -> None:
    """A voter that never leads hands over to the voter that has the least of its log."""
    to_resigned = enter_state.to_resigned

    def reversed_order(replica: Replica, now: Instant) -> None:
        to_resigned(replica, now)
        state = replica.state
        if replica.config.never_leads and isinstance(state, Resigned):
            replica.state = replace(state, successors=state.successors[::-1])

    patch.everywhere(to_resigned, reversed_order)


@bug("ADR 077", "neverleads,few")
def never_leading_voter_does_not_vote(patch: Patch) -> None:
    """A voter that never leads denies every vote."""
    would_grant_vote = vote.would_grant_vote

    def never(replica: Replica, message: VoteRequest) -> bool:
        return not replica.config.never_leads and would_grant_vote(replica, message)

    patch.everywhere(would_grant_vote, never)


@bug("ADR 077", "neverleads")
def never_leading_voter_acknowledges_what_it_wrote(patch: Patch) -> None:
    """A voter that never leads fetches above what it has flushed."""
    send = send_requests.send

    def early(replica: Replica, peer: Peer, message: Request, now: Instant, relies: Relies, **rest: bool) -> int:
        is_early = replica.config.never_leads and isinstance(message, FetchRequest)
        return send(replica, peer, message, now, Relies.ELECTION if is_early else relies, **rest)

    patch.everywhere(send, early)


@bug("ADR 077", "neverleads")
def never_leading_voter_accepts_proposals(patch: Patch) -> None:
    """A voter that never leads appends what its clients propose while it leads."""
    refusal = propose._refusal

    def lenient(replica: Replica, event: Proposed) -> PykraftError | None:
        config = replica.config
        replica.config = replace(config, never_leads=False)
        try:
            return refusal(replica, event)
        finally:
            replica.config = config

    patch.everywhere(refusal, lenient)
