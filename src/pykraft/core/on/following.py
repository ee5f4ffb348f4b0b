"""What any message may teach about epoch and leader, whichever RPC carried it.

A peer that contradicts what is known for certain (a second leader in an epoch, this node as a leader that
it is not) is wrong or lying: `ProtocolError`, and its connection is closed. Nothing was changed by then.

Source: KIP-595 §Leader discovery; Kafka ``KafkaRaftClient.maybeTransition`` and ``maybeHandleCommonResponse``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from pykraft.core.messages import (
    NONE,
    BeginQuorumEpochResponse,
    EndQuorumEpochResponse,
    FetchResponse,
    FetchSnapshotResponse,
    UpdateVoterResponse,
    VoteResponse,
)
from pykraft.core.moves import to_follower, to_unattached
from pykraft.core.on.epoch_raise import may_answer_raise
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Leader, Prospective, Resigned
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.types import EPOCH_MAX, Epoch, Instant, Listeners, NodeId

QuorumAnswer: TypeAlias = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | UpdateVoterResponse
)
"""Responses that tell error, epoch and leader."""

REFUSALS = {
    ErrorCode.INVALID_REQUEST: "it calls our request invalid",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "it does not let this node take part: CLUSTER_AUTHORIZATION_FAILED",
}
"""Errors that no answer of a replica that works with us carries; Kafka's client stops at them (ADR 002)."""


def learn_leader(replica: Replica, epoch: Epoch, leader_id: NodeId | None, told: Listeners, now: Instant) -> None:
    """Follow the leader of this or a higher epoch, if it is news and it can be reached.

    A leader of a higher epoch without known endpoints is remembered, Unattached, so that nobody else gets a
    vote in its epoch.

    Errors: ProtocolError when it cannot be true.
    """
    check_consistent(replica, epoch, leader_id)
    if epoch < replica.epoch or (epoch == replica.epoch and leader_id is None):
        return
    if leader_id is None or leader_id == replica.local.id:
        if epoch > replica.epoch:
            to_unattached(replica, epoch, now)
        return
    listeners = replica.listeners_of(leader_id, told)
    if epoch > replica.epoch:
        if len(listeners):
            to_follower(replica, epoch, leader_id, listeners, now)
        else:
            to_unattached(replica, epoch, now, leader_id=leader_id)
    elif len(listeners) > len(replica.leader_listeners):
        to_follower(replica, epoch, leader_id, listeners, now)


def correct_listeners(replica: Replica, epoch: Epoch, leader_id: NodeId | None, told: Listeners) -> None:
    """Look for the leader of this epoch where it is said to be, as long as it was not found where it was thought to be.

    A leader is in one place for an epoch. But who names it may have that from a voter set that is older than its last
    move, and as many endpoints as are known are no news (Kafka's rule; ADR 021). No timer begins anew.
    """
    state = replica.state
    if epoch != replica.epoch or leader_id != replica.leader_id or not len(told):
        return
    if isinstance(state, Follower) and state.has_fetched:
        return
    if isinstance(state, Follower | Prospective) and told != state.leader_listeners:
        replica.state = replace(state, leader_listeners=told)


def check_consistent(replica: Replica, epoch: Epoch, leader_id: NodeId | None) -> None:
    """Refuse what contradicts this replica's own knowledge of an epoch.

    Errors: ProtocolError.
    """
    if epoch > EPOCH_MAX:
        raise ProtocolError(f"epoch {epoch} is beyond what a quorum can reach")
    if leader_id is None:
        return
    if leader_id == replica.local.id:
        is_leader = epoch == replica.epoch and isinstance(replica.state, Leader | Resigned)
        if epoch >= replica.epoch and not is_leader and not _may_have_forgotten(replica, epoch, leader_id):
            raise ProtocolError(f"it names this node as leader of epoch {epoch}, which it is not")
    elif epoch == replica.epoch and replica.leader_id not in (None, leader_id):
        raise ProtocolError(f"epoch {epoch} has leader {replica.leader_id}, it names {leader_id} as well")


def _may_have_forgotten(replica: Replica, epoch: Epoch, leader_id: NodeId) -> bool:
    """True when this replica, which has that id, may have led the epoch, and cannot know that any more.

    Others name such a leader until they have elected another one. They are right, and what else they say has to be
    heard: a voter that closed their connections for it could win no election, and would not learn who does.
    """
    if epoch == replica.epoch and replica.leader_id is not None:
        return False
    if replica.survey is not None or epoch <= replica.votes_above:  # its directory was emptied
        return True
    if not replica.is_voter and (not len(replica.voters) or replica.voters.get(leader_id) is not None):
        return True  # its disk was replaced: a voter with its id and another directory may have led
    # Who has a record of an epoch has known its leader, so this quorum-state is older than the log.
    return epoch == replica.epoch == replica.log.last_epoch


def check_not_refused(error: int) -> None:
    """Complain of an error that asking again would only bring again.

    Errors: ProtocolError.
    """
    if error in REFUSALS:
        raise ProtocolError(REFUSALS[ErrorCode(error)])


def settle_answer(replica: Replica, peer_id: int, answer: QuorumAnswer, now: Instant) -> bool:
    """What every response has in common; True when the RPC's own part is still to be done.

    Anything that brought no progress starts the retry back-off, so that the same question is not asked
    again at once.

    Errors: ProtocolError when the answer cannot be true or is one of `REFUSALS`.
    """
    error, epoch, leader_id, told = answer.error, answer.epoch, answer.leader_id, answer.listeners
    before = replica.state
    if epoch is None or epoch < replica.epoch or error == ErrorCode.UNKNOWN_LEADER_EPOCH:
        replica.connections.back_off(peer_id, now.mono_ms)
        return False
    check_consistent(replica, epoch, leader_id)
    if not may_answer_raise(replica, epoch, peer_id, now):
        replica.connections.back_off(peer_id, now.mono_ms)
        return False
    if epoch > replica.epoch or error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER):
        learn_leader(replica, epoch, leader_id, told, now)
        if replica.state is before:
            replica.connections.back_off(peer_id, now.mono_ms)
            correct_listeners(replica, epoch, leader_id, told)
        return False
    if leader_id is not None and not replica.has_reachable_leader:
        learn_leader(replica, epoch, leader_id, told, now)
        if replica.state is not before:
            return False  # also with records in it: they are fetched again, from a leader that is followed (ADR 031)
    check_not_refused(error)
    if error != NONE:
        replica.connections.back_off(peer_id, now.mono_ms)
    return error == NONE
