"""What any message can teach about epoch and leader, whichever RPC carried it.

A peer that contradicts what this replica knows for certain (a second leader in one epoch, or this node as the leader of
an epoch that it does not lead) is faulty: `ProtocolError` closes its connection. Checks run first, so nothing has
changed by then. An answer that names this node wrongly counts all the same, without the name (ADR 046).

Source: KIP-595 §Leader discovery; Kafka ``KafkaRaftClient.maybeTransition`` and ``maybeHandleCommonResponse``.
"""

from dataclasses import replace
from typing import TypeAlias

from pykraft.core import messages
from pykraft.core.departure import note_denial_of_leader
from pykraft.core.effects import Report
from pykraft.core.enter_state import to_follower, to_unattached
from pykraft.core.on.epoch_raise import may_answer_raise
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Leader, Prospective, Resigned
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.types import EPOCH_MAX, NO_LISTENERS, Epoch, Instant, Listeners, NodeId

QuorumAnswer: TypeAlias = (
    messages.VoteResponse
    | messages.BeginQuorumEpochResponse
    | messages.EndQuorumEpochResponse
    | messages.FetchResponse
    | messages.FetchSnapshotResponse
    | messages.UpdateVoterResponse
)
"""Responses that carry error, epoch and leader."""

REFUSALS = {
    ErrorCode.INVALID_REQUEST: "it rejected the request as invalid",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "it does not authorize this node: CLUSTER_AUTHORIZATION_FAILED",
}
"""Errors that a correct replica of our quorum never sends; Kafka's client stops at them (ADR 002)."""


def learn_leader(replica: Replica, epoch: Epoch, leader_id: NodeId | None, told: Listeners, now: Instant) -> None:
    """Follow the leader of this or a higher epoch, if it is news and its endpoints are known.

    Errors: ProtocolError when the claim contradicts what is known.
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
            # Without endpoints we cannot fetch. Remember the leader all the same, so that no other candidate gets a
            # vote in its epoch.
            to_unattached(replica, epoch, now, leader_id=leader_id)
    # In the same epoch only endpoints can be news, and as in Kafka only a longer list of them (ADR 021).
    elif len(listeners) > len(replica.leader_listeners):
        _learn_more_listeners(replica, epoch, leader_id, listeners, now)


def _learn_more_listeners(
    replica: Replica, epoch: Epoch, leader_id: NodeId, listeners: Listeners, now: Instant
) -> None:
    state, name = replica.state, replica.local.default_listener
    if not isinstance(state, Follower) or not state.has_fetched:
        to_follower(replica, epoch, leader_id, listeners, now)
    # The leader is where this replica fetches from it, whatever a request in its name says.
    elif listeners.get(name) == state.leader_listeners.get(name):
        replica.state = replace(state, leader_listeners=listeners)


def correct_listeners(replica: Replica, epoch: Epoch, leader_id: NodeId | None, told: Listeners) -> None:
    """Replace the leader's endpoints by the ones just told, as long as no Fetch from the leader has succeeded.

    No timer is restarted.
    """
    state = replica.state
    if epoch != replica.epoch or leader_id != replica.leader_id or not len(told):
        return
    # A leader keeps its endpoints for an epoch. But the sender may have them from a voter set that is older than the
    # leader's last move, and Kafka ignores a list that is no longer than the known one (ADR 021). So replace endpoints
    # only while they have not worked.
    if isinstance(state, Follower) and state.has_fetched and _can_dial_leader(replica):
        return
    if isinstance(state, Follower | Prospective) and told != state.leader_listeners:
        replica.state = replace(state, leader_listeners=told)


def _can_dial_leader(replica: Replica) -> bool:
    return replica.leader_listeners.get(replica.local.default_listener) is not None


def _correct_leader(
    replica: Replica, peer_id: int, epoch: Epoch, leader_id: NodeId | None, told: Listeners, now: Instant
) -> bool:
    """Follow another leader of this epoch than the one that this replica was told of, but never fetched from.

    One flipped bit in the leader's id would otherwise keep this replica behind for the whole epoch. Those that know
    better are the one that it fetches from, and the leader itself. A follower is corrected once, and a campaign ends
    for the leader's own word only: others that were misled would name each other for ever.

    Effects: Report.
    Source: ours (ADR 148).
    """
    known, state = replica.leader_id, replica.state
    if epoch != replica.epoch or leader_id in (None, known, replica.local.id) or known in (None, replica.local.id):
        return False
    if isinstance(state, Follower) and (state.has_fetched or state.has_agreed or state.is_corrected):
        return False
    if isinstance(state, Prospective) and peer_id != leader_id:
        return False
    listeners = replica.listeners_of(leader_id, told)
    if not len(listeners) or (peer_id not in (known, leader_id) and replica.has_reachable_leader):
        return False
    text = f"node {known} never answered as the leader of epoch {epoch}, and peer {peer_id} says that {leader_id} leads"
    replica.outbox.add(Report(text=text))
    # The time in which somebody has to answer as the leader goes on.
    deadline_ms = state.fetch_deadline_ms if isinstance(state, Follower) else None
    to_follower(replica, epoch, leader_id, listeners, now, fetch_deadline_ms=deadline_ms)
    assert isinstance(replica.state, Follower)
    replica.state = replace(replica.state, is_corrected=True)
    return True


def check_consistent(replica: Replica, epoch: Epoch, leader_id: NodeId | None) -> None:
    """Reject a claim that contradicts what this replica knows of an epoch.

    Errors: ProtocolError.
    """
    if epoch > EPOCH_MAX:
        raise ProtocolError(f"epoch {epoch} is higher than a quorum can reach")
    if leader_id is None:
        return
    if leader_id == replica.local.id:
        if epoch >= replica.epoch and not _leads(replica, epoch):
            raise ProtocolError(f"it names this node as leader of epoch {epoch}, but this node does not lead it")
    elif epoch == replica.epoch and replica.leader_id not in (None, leader_id):
        raise ProtocolError(f"epoch {epoch} has leader {replica.leader_id}, it names {leader_id} as well")


def _is_named_wrongly(replica: Replica, epoch: Epoch, leader_id: NodeId | None) -> bool:
    """True when a peer takes this node for the leader of an epoch that it does not lead.

    The peer may be right: this node may have led, and have lost its quorum-state since.
    """
    return leader_id is not None and leader_id == replica.local.id and not _leads(replica, epoch)


def _leads(replica: Replica, epoch: Epoch) -> bool:
    return epoch == replica.epoch and isinstance(replica.state, Leader | Resigned)


def check_not_refused(error: int) -> None:
    """Raise for an error that a retry cannot change.

    Errors: ProtocolError.
    """
    if error in REFUSALS:
        raise ProtocolError(REFUSALS[ErrorCode(error)])


def note_whole(replica: Replica, peer_id: int) -> None:
    """A response is whole: its parts held off this follower's campaign, now it counts for what it says (ADR 036).

    Otherwise a node that leads no more would hold its follower with errors that arrive in two parts.
    """
    state = replica.state
    if isinstance(state, Follower) and state.part_deadline_ms is not None and peer_id == state.leader_id:
        replica.state = replace(state, part_deadline_ms=None)


def settle_answer(replica: Replica, peer_id: int, answer: QuorumAnswer, now: Instant) -> bool:
    """Handle what all responses share; True when the caller should handle the rest of this one.

    A response without progress starts the retry back-off, so that the same request is not sent again at once.

    Errors: ProtocolError when the response contradicts what is known or carries one of `REFUSALS`.
    """
    error, epoch, leader_id, told = answer.error, answer.epoch, answer.leader_id, answer.listeners
    before, own_epoch = replica.state, replica.epoch
    # An older epoch is no news. With UNKNOWN_LEADER_EPOCH, the peer has not learned our epoch yet: ask again later.
    if epoch is None or epoch < own_epoch or error == ErrorCode.UNKNOWN_LEADER_EPOCH:
        replica.connections.back_off(peer_id, now.mono_ms)
        return False
    is_named = _is_named_wrongly(replica, epoch, leader_id)
    if is_named:
        # Rejecting the answer would lock out a peer that was misled: it fetches from us in an epoch of which we would
        # never learn, or it is the voter without which we cannot be elected (ADR 046). So hear all but the name.
        leader_id, told = None, NO_LISTENERS
    if _correct_leader(replica, peer_id, epoch, leader_id, told, now):
        return False
    if isinstance(before, Prospective) and epoch == own_epoch and replica.leader_id not in (None, leader_id):
        # Nobody has answered this replica as the leader, so what its peers heard is not better than what it heard: only
        # their votes count. Three voters that were told of three leaders would otherwise never elect one.
        leader_id, told = None, NO_LISTENERS
    check_consistent(replica, epoch, leader_id)
    if not may_answer_raise(replica, epoch, peer_id, now):
        replica.connections.back_off(peer_id, now.mono_ms)
        return False
    if is_named and epoch > own_epoch:
        text = (
            f"peer {peer_id} takes this node for the leader of epoch {epoch}, but this node does not lead it: another "
            f"process has the node id {replica.local.id}, or the quorum-state of this one was lost, or a stranger lies"
        )
        # An unproven replica has said already that its directory may have been another one before (ADR 130).
        replica.outbox.add(Report(text=text, is_alarm=replica.survey is None))
    if epoch > own_epoch or error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER):
        learn_leader(replica, epoch, leader_id, told, now)
        if replica.state is before:
            replica.connections.back_off(peer_id, now.mono_ms)
            correct_listeners(replica, epoch, leader_id, told)
            if error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                note_denial_of_leader(replica, peer_id, now)
        return False
    # A follower always knows where its leader is.
    if leader_id is not None and not isinstance(before, Follower) and not replica.has_reachable_leader:
        learn_leader(replica, epoch, leader_id, told, now)
        if replica.state is not before:
            # Even a response with records is dropped here: we fetch them again once we follow that leader (ADR 031).
            return False
    # Its own answer names its endpoint on our listener, also if its BeginQuorumEpoch did not.
    if not _can_dial_leader(replica):
        correct_listeners(replica, epoch, leader_id, told)
    check_not_refused(error)
    if error != messages.NONE:
        replica.connections.back_off(peer_id, now.mono_ms)
    return error == messages.NONE
