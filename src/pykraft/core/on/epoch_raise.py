"""Decides whether a peer's message may raise this replica's epoch.

Anyone can write a voter's name into a request; only the network between two machines stands behind an answer. So:

1. A replica that leads, or hears its leader, does not yield to a request of a higher epoch (dissertation §4.2.3). No
   replica yields to a sender that raised the epoch too often, or by too much (`core.epoch_budget`).
2. If such a request names a voter, the replica asks that voter, where it knows it to be, and learns the epoch from the
   answer. So a voter that really is ahead gets through a round trip later, and a forged name only costs the question.
   A voter that cannot be asked, perhaps since it moved, is believed now and then: it could not come back otherwise.
3. An answer may raise the epoch within the budget if it comes from a bootstrap server, or from the endpoint where the
   configuration, the formatted checkpoint or the log places that voter, because this node dialed it there.
4. An answer that would raise the epoch by more than `EPOCHS_AT_ONCE` is believed only if another endpoint has named as
   much, or a little more: one flipped bit, or one forged endpoint in the log, would otherwise use up all epochs. A
   replica that is new joins a quorum of any epoch in this way. One that knows a single endpoint asks there twice.

Source: ours (ADR 129); Raft dissertation §4.2.3 and §6.2.
"""

from pykraft.core.effects import Report
from pykraft.core.epoch_budget import EPOCHS_AT_ONCE, EPOCHS_BY_REQUESTS, EPOCHS_PER_DAY, STRANGERS
from pykraft.core.messages import FetchRequest, Request
from pykraft.core.on.send_requests import begin_quorum_epoch, send_to_voter
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Leader
from pykraft.errors import ErrorCode
from pykraft.types import EPOCH_MAX, Endpoint, Epoch, Instant, NodeId

ALARM_PERIOD_MS = 3_600_000
"""Refused epochs raise at most one alarm in this time."""
QUESTIONS_PER_ELECTION_TIMEOUT = 4
"""How often one voter is asked whether its epoch is really higher."""


def may_request_raise(replica: Replica, epoch: Epoch, sender_id: NodeId, now: Instant, *, is_voter: bool) -> bool:
    """True when a request with this epoch may be handled; False when it must be refused.

    Effects: Send to the voter that the request names, Report, when it is refused; Report when the sender's next raise
    will be.
    """
    if epoch <= replica.epoch:
        return True
    budget, now_ms = replica.epoch_budget, now.mono_ms
    is_far = epoch - replica.log.last_epoch > EPOCHS_BY_REQUESTS
    # 1. Nobody signs a request.
    is_doubted = _hears_leader(replica) or budget.must_wait(sender_id if is_voter else STRANGERS, now_ms)
    if is_far or (is_doubted and not (is_voter and _is_silent(replica, sender_id, now))):
        replica.refused_epochs += 1
        if is_far:
            _alarm(replica, f"a request of node {sender_id} wants epoch {epoch} in the place of {replica.epoch}", now)
        if is_voter:
            _ask(replica, sender_id, now)
        return False
    if not budget.spend(epoch - replica.epoch, now_ms):
        replica.refused_epochs += 1
        _alarm(replica, f"a request of node {sender_id} wants epoch {epoch}, and {EPOCHS_PER_DAY} came in a day", now)
        return False
    wait_ms = budget.raised(sender_id if is_voter else STRANGERS, now_ms, _pause_ms(replica))
    budget.keep(replica.voters.ids)
    if wait_ms:
        who = f"voter {sender_id}" if is_voter else f"senders that are not voters, such as node {sender_id},"
        text = f"{who} raised the epoch again, to {epoch}: for {wait_ms} ms its requests raise it no more"
        replica.outbox.add(Report(text=text))
    return True


def raise_error(replica: Replica, epoch: Epoch, leader_id: NodeId, now: Instant) -> ErrorCode:
    """As `may_request_raise`, for a leader's request: BROKER_NOT_AVAILABLE to refuse it, else NONE."""
    is_voter = replica.voters.get(leader_id) is not None
    may_raise = may_request_raise(replica, epoch, leader_id, now, is_voter=is_voter)
    return ErrorCode.NONE if may_raise else ErrorCode.BROKER_NOT_AVAILABLE


def may_answer_raise(replica: Replica, epoch: Epoch, peer_id: int, now: Instant) -> bool:
    """True when a response with this epoch may be believed: steps 3 and 4.

    Effects: Report when it may not.
    """
    if epoch <= replica.epoch:
        return True
    is_far = epoch - replica.epoch > EPOCHS_AT_ONCE
    if not is_far and replica.epoch_budget.spend(epoch - replica.epoch, now.mono_ms):
        return True
    endpoint = _known_endpoint(replica, peer_id)
    if endpoint is not None and _is_confirmed(replica, epoch, endpoint):
        replica.epoch_budget.told = {}
        return True
    replica.refused_epochs += 1
    # A replica that is new has no epoch of its own to defend; it asks on without a word.
    if replica.epoch > 0:
        where = f"peer {peer_id}" if endpoint is None else f"node {peer_id} at {endpoint}"
        _alarm(replica, f"an answer of {where} tells epoch {epoch}, and this node is in {replica.epoch}", now)
    return False


def _is_confirmed(replica: Replica, epoch: Epoch, endpoint: Endpoint) -> bool:
    """4. True when another endpoint named this epoch or a little higher one; note that this one names it.

    Two flipped bits, perhaps months apart, name epochs that are far from each other.
    """
    known = _known_endpoints(replica)
    told = {each: said for each, said in replica.epoch_budget.told.items() if each in known}
    replica.epoch_budget.told = {**told, endpoint: epoch}
    # A quorum of two voters elects nobody without this one, so the only other voter cannot be far ahead of it.
    may_repeat = len(known) == 1 and not (replica.is_voter and replica.log.end_offset > 0)
    is_near = {each: 0 <= said - epoch <= EPOCHS_AT_ONCE for each, said in told.items()}
    return any(is_near[each] and (each != endpoint or may_repeat) for each in told)


def _is_silent(replica: Replica, voter_id: NodeId, now: Instant) -> bool:
    """2. True when the voter was asked in vain, and may be believed for this once."""
    silence_ms = replica.config.request_timeout_ms
    return replica.epoch_budget.believe_silent(
        voter_id, now.mono_ms, silence_ms=silence_ms, pause_ms=_pause_ms(replica)
    )


def _ask(replica: Replica, voter_id: NodeId, now: Instant) -> None:
    """2. Ask the voter itself which epoch it is in; in any state it answers a higher one with an error.

    Effects: Send.
    """
    state, pause_ms = replica.state, max(1, replica.config.election_timeout_ms // QUESTIONS_PER_ELECTION_TIMEOUT)
    # A follower's next Fetch asks its leader anyway.
    is_asked = isinstance(state, Follower) and state.leader_id == voter_id
    if is_asked or not replica.epoch_budget.may_ask(voter_id, now.mono_ms, pause_ms):
        return
    message: Request
    if isinstance(state, Leader):
        message = begin_quorum_epoch(replica, state, voter_id)
    else:
        # Without an id it acknowledges nothing, and all versions of Kafka answer it.
        message = FetchRequest(
            replica=None,
            epoch=replica.epoch,
            fetch_offset=replica.log.end_offset,
            last_fetched_epoch=replica.log.last_epoch,
            wait_ms_max=0,
            size_bytes_max=0,
            high_watermark=-1,
        )
    if send_to_voter(replica, voter_id, message, now, is_aside=True):
        replica.epoch_budget.asked(voter_id, now.mono_ms)


def _alarm(replica: Replica, what: str, now: Instant) -> None:
    last_ms = replica.epoch_budget.alarmed_ms
    if last_ms is None or now.mono_ms - last_ms >= ALARM_PERIOD_MS:
        replica.epoch_budget.alarmed_ms = now.mono_ms
        why = f"refused, since no second voter has told as much; epochs end at {EPOCH_MAX} (docs: An exhausted epoch)"
        replica.outbox.add(Report(text=f"{what}: {why}", is_alarm=True))


def _pause_ms(replica: Replica) -> int:
    return max(1, 2 * replica.config.election_timeout_ms)


def _hears_leader(replica: Replica) -> bool:
    state = replica.state
    return isinstance(state, Leader) or (isinstance(state, Follower) and state.has_fetched)


def _known_endpoints(replica: Replica) -> set[Endpoint]:
    """Where this node may ask: the bootstrap servers, and the other voters where the voter set places them."""
    voters = (replica.voter_peer(node_id) for node_id in replica.voters.ids if node_id != replica.local.id)
    return {*replica.bootstrap, *(peer.endpoint for peer in voters if peer is not None)}


def _known_endpoint(replica: Replica, peer_id: int) -> Endpoint | None:
    """Where this node asked the peer, if that is one of `_known_endpoints` (3.).

    The leader may have announced another one, and a voter is asked for its vote at former ones, too.
    """
    endpoint = replica.connections.asked_at.get(peer_id)
    return endpoint if endpoint in _known_endpoints(replica) else None
