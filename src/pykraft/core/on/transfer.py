"""Leadership transfer: the leader hands over to a voter that an operator or the application chose.

1. The request passes the checks. From now on the leader rejects proposals, and appends all that it has accepted.
2. The target fetches and reaches the log end, and the whole log is committed.
3. The leader resigns and names the target first in EndQuorumEpoch. The target campaigns at once; no log is longer than
   its own.
4. A later epoch has a leader: the requester learns whether it is the target.

If step 2 takes longer than the timeout (a fetch timeout at most), the leader continues as before, and nothing is lost.
It then starts no other transfer for nine times as long as this one took, so it accepts proposals at least nine tenths
of the time. After step 3 there is no way back: a resigned leader never leads the same epoch again. The transfer uses
only Kafka's own messages, so any voter can be the target.

Source: Raft dissertation §3.10; KIP-595 §EndQuorumEpoch.
"""

from dataclasses import replace

from pykraft.config import TRANSFER_TIMEOUT_MS_MAX
from pykraft.core.effects import CompletePendingRequest, Report
from pykraft.core.events import RequestReceived, TransferRequested
from pykraft.core.leader.pending import Transfer
from pykraft.core.leader.serving import answer_parked
from pykraft.core.messages import MAY_BE_MADE_YET, TransferLeadershipRequest, TransferLeadershipResponse
from pykraft.core.on.requests import leader_only_error, reply
from pykraft.core.on.voters.voter_changes import ACCEPTED, ChangeRefusal
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import ErrorCode, NotLeaderError, OutcomeUnknownError, PykraftError, RefusedError, UsageError
from pykraft.types import Instant, NodeId, ReplicaKey, ReportKind

REST_FACTOR = 9
"""After a failed transfer, the pause before the next one is this many times as long as the transfer took."""


def on_transfer_leadership_request(
    replica: Replica, event: RequestReceived, message: TransferLeadershipRequest, now: Instant
) -> None:
    """Start a transfer that an operator requests; the answer comes when its outcome is known.

    Effects: AppendBatches; Reply, at once with an error.
    Units: ``timeout_ms`` is how long the leader waits for the target's log, a fetch timeout at most.
    Errors: NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE, INVALID_REQUEST, VOTER_NOT_FOUND, ELECTION_NOT_NEEDED when the
    target leads, REQUEST_TIMED_OUT while another change is under way, soon after a failed transfer, or when the target
    does not catch up in time, PREFERRED_LEADER_NOT_AVAILABLE when the target is silent or another voter wins,
    LEADER_NOT_AVAILABLE when this node has resigned and does not learn in time who leads.
    """
    error = leader_only_error(replica, replica.epoch)
    refusal = (error, _who_leads(replica)) if error else _refusal(replica, message.target_id, message.timeout_ms, now)
    transfer = _transfer(replica, message.target_id, message.timeout_ms, now, request_id=event.request_id)
    _begin(replica, transfer, refusal)


def on_transfer_requested(replica: Replica, event: TransferRequested, now: Instant) -> None:
    """Start a transfer that the application requests.

    Effects: AppendBatches; CompletePendingRequest when the outcome is known.
    Errors (in CompletePendingRequest): NotLeaderError; UsageError for an epoch that has not begun; RefusedError with
    the errors of `on_transfer_leadership_request`.
    """
    leader = replica.state
    error: PykraftError | None = None
    if not isinstance(leader, Leader) or event.epoch < leader.epoch or replica.is_shutting_down:
        error = NotLeaderError(replica.leader_id if replica.has_remote_leader else None, replica.epoch)
    elif event.epoch > leader.epoch:
        error = UsageError(f"epoch {event.epoch} has not begun: this node leads epoch {leader.epoch}")
    if error is not None:
        replica.outbox.add(CompletePendingRequest(handle=event.handle, error=error))
        return
    transfer = _transfer(replica, event.target_id, event.timeout_ms, now, handle=event.handle)
    _begin(replica, transfer, _refusal(replica, event.target_id, event.timeout_ms, now))


def note_target(replica: Replica, key: ReplicaKey) -> None:
    """A replica has fetched: note it if it is the target of the transfer."""
    transfer = replica.transfer
    # Only a Fetch after the request counts: the sender of an earlier one may be down by now.
    if transfer is None or transfer.target_id != key.id:
        return
    target = replica.voters.get(key.id)
    if target is not None and target.key.matches(key):
        replica.transfer = replace(transfer, is_heard=True)


def is_due(replica: Replica, leader: Leader) -> bool:
    """Step 3 may follow: the target has the whole log, and all of it is committed, so no outcome is in doubt."""
    # Accepted proposals that still wait for storage belong to the log that the target must have.
    if replica.transfer is None or not replica.transfer.is_heard or not leader.accumulation.is_empty:
        return False
    target = leader.progress.voters.get(replica.transfer.target_id)
    end_offset = replica.log.end_offset
    return target is not None and target.end_offset == end_offset and leader.high_watermark == end_offset


def settle_transfer(replica: Replica, transfer: Transfer, now: Instant) -> None:
    """Step 4: answer the requester once the outcome is known or time is up; a leader then accepts proposals again.

    Effects: Reply or CompletePendingRequest, Report.
    """
    deadline_ms = transfer_deadline_ms(replica, transfer)
    if replica.epoch > transfer.epoch and replica.leader_id is not None:
        _end(replica, transfer, _outcome(replica, transfer), now)
    elif deadline_ms <= now.mono_ms:
        _end(replica, transfer, _why_late(replica, transfer), now)


def transfer_deadline_ms(replica: Replica, transfer: Transfer) -> int:
    """When the current transfer times out (mono ms)."""
    return transfer.deadline_ms if isinstance(replica.state, Leader) else transfer.outcome_deadline_ms


def _transfer(
    replica: Replica,
    target_id: NodeId,
    timeout_ms: int,
    now: Instant,
    *,
    handle: int | None = None,
    request_id: int | None = None,
) -> Transfer:
    # The leader accepts no proposals until then, so it waits for a fetch timeout at most, whatever the request asks
    # for.
    deadline_ms = now.mono_ms + min(timeout_ms, replica.config.fetch_timeout_ms)
    return Transfer(
        epoch=replica.epoch,
        target_id=target_id,
        begun_ms=now.mono_ms,
        deadline_ms=deadline_ms,
        # If the target fails to win, another voter needs an election timeout, at most twice the configured one.
        outcome_deadline_ms=deadline_ms + 2 * replica.config.election_timeout_ms,
        handle=handle,
        request_id=request_id,
    )


def _refusal(replica: Replica, target_id: NodeId, timeout_ms: int, now: Instant) -> ChangeRefusal:
    leader = replica.state
    assert isinstance(leader, Leader)
    if not 0 <= timeout_ms <= TRANSFER_TIMEOUT_MS_MAX:
        return ErrorCode.INVALID_REQUEST, f"a leader waits 0 to {TRANSFER_TIMEOUT_MS_MAX} ms, not {timeout_ms}"
    if target_id == replica.local.id:
        return ErrorCode.ELECTION_NOT_NEEDED, f"node {target_id} already leads"
    if replica.voters.get(target_id) is None:
        voters = ", ".join(map(str, replica.voters.ids))
        observes = any(seen.key.id == target_id for seen in leader.progress.observers(now))
        what = "only observes" if observes else "is not known"
        return ErrorCode.VOTER_NOT_FOUND, f"node {target_id} {what}; the voters are {voters}"
    if replica.transfer is not None:
        text = f"the leadership is already being transferred to node {replica.transfer.target_id}: try again"
        return ErrorCode.REQUEST_TIMED_OUT, text
    if leader.change is not None:
        return ErrorCode.REQUEST_TIMED_OUT, "a change of the voters is under way: try again"
    return _refusal_of_pause(replica, leader, target_id, now)


def _refusal_of_pause(replica: Replica, leader: Leader, target_id: NodeId, now: Instant) -> ChangeRefusal:
    """Reject a transfer to a silent voter, and one too soon after a failed one."""
    # The leader accepts no proposals during a transfer, so failed transfers must not follow each other closely.
    rest_ms = (replica.transfer_rest_ms or now.mono_ms) - now.mono_ms
    if rest_ms > 0:
        return ErrorCode.REQUEST_TIMED_OUT, f"a transfer has just failed: try again in {rest_ms} ms"
    timeout_ms = replica.config.fetch_timeout_ms
    is_new = now.mono_ms - leader.begun_ms < timeout_ms
    # A voter that has been silent for a fetch timeout is probably down. A new leader has not heard from all voters yet.
    if leader.progress.voters[target_id].is_silent_for(timeout_ms, now) and not is_new:
        text = f"node {target_id} has not fetched for {timeout_ms} ms: is it running?"
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, text
    return ACCEPTED


def _begin(replica: Replica, transfer: Transfer, refusal: ChangeRefusal) -> None:
    error, text = refusal
    if error:
        _answer(replica, transfer, error, text)
        return
    leader = replica.state
    assert isinstance(leader, Leader)
    # Step 1: from here on `on_proposed` rejects proposals.
    replica.transfer = transfer
    text = f"transferring the leadership of epoch {transfer.epoch} to {transfer.target_id}"
    replica.outbox.add(Report(text=text, kind=ReportKind.TRANSFER_BEGUN, values=(transfer.target_id,)))
    if leader.accumulation.is_empty:
        # Step 2: answer parked Fetches now, so that the target's next Fetch takes no longer than a round trip.
        answer_parked(replica, leader)
    # The end of this step appends the first batch and answers parked Fetches; the next steps append the others.
    leader.accumulation.flush()


def _outcome(replica: Replica, transfer: Transfer) -> ChangeRefusal:
    if replica.leader_id == transfer.target_id:
        return ACCEPTED
    return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, _who_leads(replica)


def _who_leads(replica: Replica) -> str:
    if replica.leader_id is None:
        return f"no leader of epoch {replica.epoch} is known"
    return f"node {replica.leader_id} leads epoch {replica.epoch}"


def _why_late(replica: Replica, transfer: Transfer) -> ChangeRefusal:
    leader = replica.state
    if not isinstance(leader, Leader):
        # Step 3 was made, and nobody knows yet whether the target or another voter will win.
        text = f"this node has resigned and knows no new leader: the transfer {MAY_BE_MADE_YET}"
        return ErrorCode.LEADER_NOT_AVAILABLE, text
    return ErrorCode.REQUEST_TIMED_OUT, _missing(replica, leader, transfer)


def _missing(replica: Replica, leader: Leader, transfer: Transfer) -> str:
    end_offset = replica.log.end_offset
    target = leader.progress.voters.get(transfer.target_id)
    stays = f"node {leader.leader_id} stays the leader"
    if not transfer.is_heard or target is None or target.end_offset is None:
        return f"node {transfer.target_id} has not fetched since: is it running? {stays}"
    if target.end_offset < end_offset:
        return f"node {transfer.target_id} holds the log up to {target.end_offset} of {end_offset}; {stays}"
    return f"not all of the log, which ends at {end_offset}, is committed; {stays}"


def _end(replica: Replica, transfer: Transfer, outcome: ChangeRefusal, now: Instant) -> None:
    replica.transfer = None
    error, text = outcome
    if error:
        # After this rest the leader has accepted proposals for nine tenths of the time.
        replica.transfer_rest_ms = now.mono_ms + REST_FACTOR * (now.mono_ms - transfer.begun_ms)
    what = f"the leadership of epoch {transfer.epoch} was"
    if error:
        kind, values = ReportKind.TRANSFER_FAILED, (transfer.target_id,)
        replica.outbox.add(Report(text=f"{what} not transferred: {text}", kind=kind, values=values))
    else:
        replica.outbox.add(Report(text=f"{what} transferred to {transfer.target_id}"))
    _answer(replica, transfer, error, text)


def _answer(replica: Replica, transfer: Transfer, error: ErrorCode, text: str | None) -> None:
    if transfer.request_id is not None:
        message = TransferLeadershipResponse(
            error=error, error_message=text, leader_id=replica.leader_id, epoch=replica.epoch
        )
        reply(replica, transfer.request_id, message)
        return
    assert transfer.handle is not None
    what = f"transferring the leadership to node {transfer.target_id}"
    outcome: PykraftError | None = RefusedError(what, error, text) if error else None
    if error == ErrorCode.LEADER_NOT_AVAILABLE:
        outcome = OutcomeUnknownError(f"{what}: {text}")
    replica.outbox.add(CompletePendingRequest(handle=transfer.handle, error=outcome))
