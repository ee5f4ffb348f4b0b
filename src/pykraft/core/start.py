"""The state in which a replica starts, derived from quorum-state and the log.

The epoch is the log's if that is higher than quorum-state's.

Source: KIP-595 §State machine; Kafka ``QuorumState.initialize``.
"""

from __future__ import annotations

from random import Random

from pykraft.config import RaftConfig
from pykraft.core.election import Tally, draw_election_timeout_ms
from pykraft.core.enter_state import to_leader, to_prospective
from pykraft.core.log_view import LogView
from pykraft.core.on.proof import settle_proof
from pykraft.core.replica import LocalReplica, Replica
from pykraft.core.state import Candidate, Follower, Resigned, State, Unattached
from pykraft.core.transitions import announce, write_election
from pykraft.errors import UsageError
from pykraft.types import Election, Instant, VoterSet


def initial_state(
    *,
    config: RaftConfig,
    local: LocalReplica,
    voters: VoterSet,
    election: Election,
    log: LogView,
    rng: Random,
    now: Instant,
) -> State:
    """The first state, from quorum-state and the log.

    Errors: UsageError when quorum-state holds a vote but this replica has no id.
    """
    if election.voted is not None and local.id is None:
        raise UsageError("quorum-state holds a vote, but node.id is not set: start it with its former node.id")
    deadline_ms = now.mono_ms + draw_election_timeout_ms(rng, config.election_timeout_ms)
    # An older quorum-state was restored. Its leader and vote belong to an epoch that is over (ADR 025).
    if election.epoch < log.last_epoch:
        return Unattached(epoch=log.last_epoch, election_deadline_ms=deadline_ms)
    leader_id, voted = election.leader_id, election.voted
    # A replica that led its last epoch never leads it again. Its unflushed records may be lost, and the same (epoch,
    # offset) must not name two different records.
    if leader_id is not None and leader_id == local.id:
        return Resigned(
            epoch=election.epoch,
            leader_id=leader_id,
            unacknowledged=frozenset(voters.ids) - {leader_id},
            successors=(),
            election_deadline_ms=deadline_ms,
        )
    is_own = voted is not None and local.key is not None and voted.matches(local.key)
    # A replica that voted for itself asks for votes in the same epoch again, unless it knows who was elected (ADR 020).
    # In quarantine or without proof it keeps that vote, but asks nobody to confirm it.
    may_ask = is_own and leader_id is None and log.quarantine is None and local.proof.is_complete
    if may_ask and local.key is not None and voters.is_voter(local.key):
        return Candidate(
            epoch=election.epoch,
            voted=local.key,
            election_deadline_ms=deadline_ms,
            tally=Tally.begin(voters, local.key),
        )
    if leader_id is not None and len(voters.listeners(leader_id)):
        return Follower(
            epoch=election.epoch,
            leader_id=leader_id,
            leader_listeners=voters.listeners(leader_id),
            voted=voted,
            fetch_deadline_ms=now.mono_ms + config.fetch_timeout_ms,
            update_deadline_ms=now.mono_ms + config.fetch_timeout_ms,
        )
    return Unattached(epoch=election.epoch, leader_id=leader_id, voted=voted, election_deadline_ms=deadline_ms)


def begin(replica: Replica, now: Instant) -> None:
    """Take the first step: write the election even if it is unchanged; the only voter leads at once.

    Effects: WriteElectionState, NotifyRole, and what follows.
    """
    write_election(replica)
    announce(replica)
    settle_proof(replica, now, is_log_own=replica.local.proof.was_complete)
    if isinstance(replica.state, Candidate):
        if replica.state.tally.is_won:
            to_leader(replica, now)
    elif replica.is_only_voter and replica.may_campaign:
        to_prospective(replica, now)
