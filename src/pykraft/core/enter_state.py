"""How a replica enters each state: what it carries over and what it does on arrival.

`transitions` says which transitions are legal. The functions here decide which vote, leader, high watermark and timer
the new state gets.

Source: KIP-595, KIP-996; Kafka ``KafkaRaftClient.transitionTo*`` and ``QuorumState``.
"""

from dataclasses import replace
from typing import assert_never

from pykraft import types
from pykraft.core.effects import PlannedBatch, RejectProposal
from pykraft.core.election import NEVER_MS, Tally, early_campaign_ms
from pykraft.core.leader.accumulation import Accumulation
from pykraft.core.leader.appending import append_planned
from pykraft.core.leader.progress import Progress
from pykraft.core.never_leads import appends_nothing
from pykraft.core.replica import Replica
from pykraft.core.state import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from pykraft.core.transitions import become
from pykraft.core.voter_history import BOOTSTRAP_OFFSET
from pykraft.errors import NotLeaderError


def to_unattached(
    replica: Replica, epoch: types.Epoch, now: types.Instant, *, leader_id: types.NodeId | None = None
) -> None:
    """Enter a higher epoch without a leader to follow; ``leader_id`` is set when its endpoints are unknown."""
    new = Unattached(
        epoch=epoch,
        leader_id=leader_id,
        high_watermark=replica.high_watermark,
        election_deadline_ms=_unattached_deadline_ms(replica, now),
    )
    _leave(replica, new)


def to_follower(
    replica: Replica,
    epoch: types.Epoch,
    leader_id: types.NodeId,
    listeners: types.Listeners,
    now: types.Instant,
    *,
    fetch_deadline_ms: int | None = None,
) -> None:
    """Follow the leader of this or a higher epoch; within the epoch the vote is kept.

    ``fetch_deadline_ms`` is set when the follower returns from an early campaign.
    """
    new = Follower(
        epoch=epoch,
        leader_id=leader_id,
        leader_listeners=listeners,
        voted=replica.voted if epoch == replica.epoch else None,
        high_watermark=replica.high_watermark,
        fetch_deadline_ms=now.mono_ms + replica.config.fetch_timeout_ms
        if fetch_deadline_ms is None
        else fetch_deadline_ms,
        update_deadline_ms=now.mono_ms + replica.config.fetch_timeout_ms,
    )
    _leave(replica, new)


def to_prospective(replica: Replica, now: types.Instant, *, is_early: bool = False) -> None:
    """Ask for pre-votes; the only voter has its majority at once.

    ``is_early``: the fetch timeout has not expired, but the leader refuses connections (ADR 063).
    """
    state = replica.state
    assert replica.local.key is not None
    fetch_deadline_ms = state.fetch_deadline_ms if is_early and isinstance(state, Follower) else None
    new = Prospective(
        epoch=replica.epoch,
        leader_id=replica.leader_id,
        leader_listeners=replica.leader_listeners,
        voted=replica.voted,
        high_watermark=replica.high_watermark,
        election_deadline_ms=now.mono_ms + early_campaign_ms(replica.config.retry_backoff_ms)
        if is_early
        else replica.draw_election_deadline_ms(now),
        tally=Tally.begin(replica.voters, replica.local.key),
        leader_has_left=is_early or (isinstance(state, Follower) and state.leader_has_left),
        fetch_deadline_ms=fetch_deadline_ms,
    )
    become(replica, new)
    if new.tally.is_won:
        to_candidate(replica, now)


def to_candidate(replica: Replica, now: types.Instant) -> None:
    """Start the next epoch with a vote for this replica; the only voter leads at once."""
    assert replica.local.key is not None
    new = Candidate(
        epoch=types.Epoch(replica.epoch + 1),
        voted=replica.local.key,
        high_watermark=replica.high_watermark,
        election_deadline_ms=replica.draw_election_deadline_ms(now),
        tally=Tally.begin(replica.voters, replica.local.key),
    )
    become(replica, new)
    if new.tally.is_won:
        to_leader(replica, now)


def to_leader(replica: Replica, now: types.Instant) -> None:
    """Lead: the first batch of the epoch names the leader, the voters and who granted (KIP-595 §Leader start)."""
    candidate = replica.state
    assert isinstance(candidate, Candidate)
    assert replica.local.id is not None
    replica.connections.pre_votes_asked.clear()
    start = replica.log.end_offset
    leader_change = types.LeaderChange(
        leader_id=replica.local.id, voters=replica.voters.ids, granting_voters=tuple(sorted(candidate.tally.granted))
    )
    control = (leader_change, *_opening_records(replica))
    opening = PlannedBatch(
        base_offset=start,
        end_offset=types.Offset(start + len(control)),
        epoch=candidate.epoch,
        timestamp_ms=now.wall_ms,
        control=control,
    )
    leader = Leader(
        epoch=candidate.epoch,
        leader_id=replica.local.id,
        epoch_start_offset=start,
        granting_voters=leader_change.granting_voters,
        begun_ms=now.mono_ms,
        progress=Progress(replica.voters),
        accumulation=Accumulation(
            epoch=candidate.epoch,
            # Proposals follow the opening batch.
            base_offset=opening.end_offset,
            linger_ms=replica.config.append_linger_ms,
            size_bytes_max=replica.config.batch_size_bytes_max,
            waiting_max=replica.config.accumulated_batches_max,
            fill_size_bytes=replica.config.fill_size_bytes_max,
        ),
        check_quorum_deadline_ms=check_quorum_deadline_ms(replica, now),
        # Announce this leader in this step.
        begin_quorum_deadline_ms=now.mono_ms,
        volatile_voters=_volatile_voters(replica),
    )
    become(replica, leader)
    # Later timeouts count anew.
    replica.leaderless_timeouts, replica.has_denied_shorter_log = None, False
    replica.log.begin_epoch(leader.epoch)
    append_planned(replica, leader, (opening,))


def _opening_records(replica: Replica) -> tuple[types.MembershipRecord, ...]:
    """The voter set, if the log does not have it or has an old entry for this leader.

    The leader then writes it right after LeaderChange, before a record of its epoch commits. That is safe, since it
    changes no majority.
    """
    if replica.kraft_version < 1 or appends_nothing(replica):
        return ()
    # The leader may have moved to another endpoint; a leader sends UpdateRaftVoter to nobody, so it updates its own
    # entry. A leader that is being removed has no entry.
    voters = replica.voters.with_updated(replica.local.voter) or replica.voters
    # At first, only the checkpoint of a formatted quorum has the voter set, so the leader copies it into the log.
    if voters == replica.voters and replica.voter_history.voters_offset != BOOTSTRAP_OFFSET:
        return ()
    return (types.KRaftVersion(replica.kraft_version), types.KRaftVoters(voters))


def _volatile_voters(replica: Replica) -> types.VoterSet:
    """At kraft.version 0: the static voters as this leader knows them, for an upgrade to write into the log.

    The configuration has neither directory ids nor supported levels. At first the leader knows only its own; the other
    voters tell it theirs with UpdateRaftVoter, and the next leader starts over.
    """
    if replica.kraft_version > 0:
        return types.VoterSet()
    return types.VoterSet.of((*replica.voters.voters, replica.local.voter))


def to_resigned(replica: Replica, now: types.Instant) -> None:
    """Stop leading for the rest of this epoch; EndQuorumEpoch will name the successors."""
    leader = replica.state
    assert isinstance(leader, Leader)
    # Most caught up first; of equally caught up voters, the target of a transfer.
    preferred = replica.transfer.target_id if replica.transfer else None
    new = Resigned(
        epoch=leader.epoch,
        leader_id=leader.leader_id,
        unacknowledged=frozenset(replica.voters.ids) - {leader.leader_id},
        successors=leader.progress.by_fetch_offset(without=leader.leader_id, preferred=preferred),
        election_deadline_ms=replica.draw_election_deadline_ms(now),
    )
    _leave(replica, new)


def give_up_campaign(replica: Replica, now: types.Instant) -> None:
    """The pre-vote failed or timed out: return to the known leader, or else become Unattached."""
    prospective = replica.state
    assert isinstance(prospective, Prospective)
    if prospective.leader_id is not None and replica.has_reachable_leader:
        to_follower(
            replica,
            replica.epoch,
            prospective.leader_id,
            prospective.leader_listeners,
            now,
            # An early campaign does not delay the regular one.
            fetch_deadline_ms=prospective.fetch_deadline_ms,
        )
        return
    new = Unattached(
        epoch=prospective.epoch,
        leader_id=prospective.leader_id,
        voted=prospective.voted,
        high_watermark=prospective.high_watermark,
        election_deadline_ms=_unattached_deadline_ms(replica, now),
    )
    become(replica, new)


def cast_vote(replica: Replica, candidate: types.ReplicaKey, now: types.Instant) -> None:
    """Grant the standard vote of this epoch and restart the election timer."""
    state = replica.state
    deadline_ms = replica.draw_election_deadline_ms(now)
    assert candidate.id != replica.local.id
    if isinstance(state, Prospective):
        assert replica.local.key is not None
        # As in Kafka, the pre-vote starts over with the new timer: the others may answer differently by then.
        tally = Tally.begin(replica.voters, replica.local.key)
        become(replica, replace(state, voted=candidate, election_deadline_ms=deadline_ms, tally=tally))
    else:
        assert isinstance(state, Unattached)
        become(replica, replace(state, voted=candidate, election_deadline_ms=deadline_ms))


def adopt_voter_set(replica: Replica, leader: Leader, now: types.Instant) -> None:
    """Another voter set is in force: the leader counts with it from now on.

    Source: KIP-853; Kafka ``LeaderState.updateVoterAndObserverStates``.
    """
    leader.progress.change_voters(replica.voters)
    leader.fetched_voters &= set(replica.voters.ids)
    leader.check_quorum_deadline_ms = check_quorum_deadline_ms(replica, now)
    leader.begin_quorum_deadline_ms = now.mono_ms


def check_quorum_deadline_ms(replica: Replica, now: types.Instant) -> int:
    """When a leader that no majority fetches from resigns (mono ms); never for the only voter."""
    if replica.is_only_voter:
        return NEVER_MS
    # Half a fetch timeout longer than a follower waits, so that the leader acts last.
    return now.mono_ms + replica.config.fetch_timeout_ms * 3 // 2


def _unattached_deadline_ms(replica: Replica, now: types.Instant) -> int:
    """Keep an election timer that is already running, otherwise draw a new one; observers never campaign."""
    state = replica.state
    if not replica.may_lead:
        return NEVER_MS
    match state:
        # Otherwise a peer that keeps raising the epoch could restart the timer before it ever expires.
        case Candidate() | Unattached() | Resigned():
            deadline_ms = state.election_deadline_ms
        # After a lost pre-vote, the timer starts anew.
        case Prospective() if not state.tally.is_lost:
            deadline_ms = state.election_deadline_ms
        case Prospective() | Follower() | Leader():
            deadline_ms = NEVER_MS
        case _:
            assert_never(state)
    return replica.draw_election_deadline_ms(now) if deadline_ms == NEVER_MS else deadline_ms


def _leave(replica: Replica, new: Unattached | Follower | Resigned) -> None:
    old = replica.state
    become(replica, new)
    if isinstance(old, Leader):
        for handle in old.accumulation.close():
            error = NotLeaderError(replica.leader_id if replica.has_remote_leader else None, replica.epoch)
            replica.outbox.add(RejectProposal(handle=handle, error=error))
