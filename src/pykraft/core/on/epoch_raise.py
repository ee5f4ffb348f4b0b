"""Decides whether a peer's message may raise this replica's epoch.

A request may raise it within a budget (`pykraft.core.epoch_budget`). A response always may if it comes from a bootstrap
server, or from the endpoint where the configuration, the formatted checkpoint or the log places that voter, because
this node dialed it there. So a new node can join a quorum of any epoch. And a replica that refused a correct request
learns the epoch as soon as it sends something to that sender itself, which every leader and every candidate does.

Source: ours; Raft dissertation §6.2.
"""

from __future__ import annotations

from pykraft.core.effects import Report
from pykraft.core.epoch_budget import EPOCHS_PER_DAY, STRANGERS
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Leader
from pykraft.errors import ErrorCode
from pykraft.types import Epoch, Instant, NodeId

ALARM_PERIOD_MS = 3_600_000
"""An exhausted budget raises at most one alarm in this time."""


def may_request_raise(replica: Replica, epoch: Epoch, sender_id: NodeId, now: Instant, *, is_voter: bool) -> bool:
    """True when a request with this epoch may be handled; False when it must be refused.

    Effects: Report when it is refused, or when the sender's next raise will be.
    """
    if epoch <= replica.epoch:
        return True
    budget, now_ms = replica.epoch_budget, now.mono_ms
    sender = sender_id if is_voter else STRANGERS
    # A stranger in its waiting time is always refused; a voter only while this replica hears a live leader.
    if budget.must_wait(sender, now_ms) and (not is_voter or _hears_leader(replica)):
        replica.refused_epochs += 1
        return False
    if not _spend(replica, epoch, f"a request of node {sender_id}", now):
        return False
    wait_ms = budget.raised(sender, now_ms, max(1, 2 * replica.config.election_timeout_ms))
    budget.keep(replica.voters.ids)
    if wait_ms:
        who = f"voter {sender_id}" if is_voter else f"senders that are not voters, such as node {sender_id},"
        text = f"{who} raised the epoch again, to {epoch}, and did not win: ignored for {wait_ms} ms"
        replica.outbox.add(Report(text=text))
    return True


def raise_error(replica: Replica, epoch: Epoch, leader_id: NodeId, now: Instant) -> ErrorCode:
    """As `may_request_raise`, for a leader's request: BROKER_NOT_AVAILABLE to refuse it, else NONE."""
    is_voter = replica.voters.get(leader_id) is not None
    may_raise = may_request_raise(replica, epoch, leader_id, now, is_voter=is_voter)
    return ErrorCode.NONE if may_raise else ErrorCode.BROKER_NOT_AVAILABLE


def may_answer_raise(replica: Replica, epoch: Epoch, peer_id: int, now: Instant) -> bool:
    """True when a response with this epoch may be believed.

    Effects: Report when it may not.
    """
    # This node dialed the peer at an endpoint that it trusts, so no stranger answers there.
    if epoch <= replica.epoch or _is_where_it_should_be(replica, peer_id):
        return True
    return _spend(replica, epoch, f"an answer of peer {peer_id}", now)


def _spend(replica: Replica, epoch: Epoch, what: str, now: Instant) -> bool:
    if replica.epoch_budget.spend(epoch - replica.epoch, now.mono_ms):
        return True
    replica.refused_epochs += 1
    last_ms = replica.refusal_told_ms
    if last_ms is None or now.mono_ms - last_ms >= ALARM_PERIOD_MS:
        replica.refusal_told_ms = now.mono_ms
        text = f"{what} wants epoch {epoch} in the place of {replica.epoch}: refused, more than {EPOCHS_PER_DAY} a day"
        replica.outbox.add(Report(text=text, is_alarm=True))
    return False


def _hears_leader(replica: Replica) -> bool:
    state = replica.state
    return isinstance(state, Leader) or (isinstance(state, Follower) and state.has_fetched)


def _is_where_it_should_be(replica: Replica, peer_id: int) -> bool:
    """True for a bootstrap server, and for a voter dialed at its endpoint in the voter set."""
    if peer_id < 0:
        return True
    entry = replica.voter_peer(NodeId(peer_id))
    state = replica.state
    # The leader may have announced another endpoint than its entry has, and this node dials the announced one.
    if isinstance(state, Follower) and state.leader_id == peer_id:
        endpoint = state.leader_listeners.get(replica.local.default_listener)
        return entry is not None and endpoint == entry.endpoint
    return entry is not None
