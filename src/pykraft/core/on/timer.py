"""What a replica does without being asked: timeouts, campaigns, and the requests that its state sends.

`poll` runs at the end of every step. First, expired deadlines change the state. Then the state sends its requests to
the peers that are ready for one.

Source: KIP-595, KIP-996; Kafka ``KafkaRaftClient.poll*``.
"""

from typing import assert_never

from pykraft.core.effects import CompleteShutdown, Report
from pykraft.core.election import NEVER_MS
from pykraft.core.enter_state import give_up_campaign, to_prospective, to_resigned, to_unattached
from pykraft.core.leader.appending import drain_if_due, may_drain
from pykraft.core.leader.pending import Update
from pykraft.core.leader.serving import serve
from pykraft.core.never_leads import abstains, let_timeout_pass, successor
from pykraft.core.on import send_requests
from pykraft.core.on.proof import ask_others, settle_proof, survey_deadline_ms
from pykraft.core.on.read import serve_reads
from pykraft.core.on.transfer import is_due, settle_transfer, transfer_deadline_ms
from pykraft.core.on.voters.auto_join import speak_of_membership
from pykraft.core.on.voters.update_voter import ask_if_silent
from pykraft.core.on.voters.voter_changes import end_change, is_removed
from pykraft.core.replica import Replica
from pykraft.core.state import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from pykraft.types import EPOCH_MAX, Epoch, Instant, ReportKind

TURNS_MAX = 8
"""Upper bound of transitions in one step; exceeding it is our bug."""


def poll(replica: Replica, now: Instant, turns_max: int = TURNS_MAX) -> None:
    """Apply expired deadlines, at most so many, then send requests.

    Effects: whatever the state calls for; CompleteShutdown at the end of a graceful shutdown.
    """
    replica.connections.expire(now.mono_ms)
    # Most steps have none of what `poll` looks after: a call of each to find that out takes as long as the rest.
    if replica.survey is not None:
        settle_proof(replica, now)
    if isinstance(replica.state, Leader) and replica.state.change is not None:
        # First answer a change that has committed: resigning would report its outcome as unknown.
        end_change(replica, replica.state, now)
    # The next deadline may have expired, too: a resigned leader that becomes Unattached keeps its election deadline.
    for _ in range(turns_max):
        before = replica.state
        _pass_deadlines(replica, now)
        if replica.state is before:
            break
    else:
        assert turns_max < TURNS_MAX, f"{replica.state} never comes to rest"
    if replica.transfer is not None:
        settle_transfer(replica, replica.transfer, now)
    _answer_expired(replica, now)
    if replica.shutdown_deadline_ms is not None and _has_left(replica, replica.shutdown_deadline_ms, now):
        return
    if replica.survey is not None:
        ask_others(replica, now)
    _speak(replica, now)


def _pass_deadlines(replica: Replica, now: Instant) -> None:
    state = replica.state
    match state:
        case Unattached():
            if state.election_deadline_ms <= now.mono_ms and replica.may_campaign:
                _campaign(replica, now)
        case Prospective():
            # It may also have been removed from the voter set while it asked.
            if not replica.may_lead or (state.election_deadline_ms <= now.mono_ms and replica.may_campaign):
                give_up_campaign(replica, now)
        case Candidate():
            if state.election_deadline_ms <= now.mono_ms and replica.may_campaign:
                to_prospective(replica, now)
        case Follower():
            if state.deadline_ms <= now.mono_ms and replica.may_campaign:
                _campaign(replica, now)
            elif (state.early_deadline_ms or NEVER_MS) <= now.mono_ms and replica.may_campaign:
                _campaign(replica, now, is_early=True)
        case Leader():
            report = _resignation(replica, state, now)
            if report is not None:
                replica.outbox.add(report)
                to_resigned(replica, now)
        case Resigned():
            if _may_open_epoch(replica) and state.election_deadline_ms <= now.mono_ms:
                # It can neither vote nor lead in the epoch it resigned from, so it opens the next one.
                to_unattached(replica, Epoch(state.epoch + 1), now)
        case _:
            assert_never(state)


def _campaign(replica: Replica, now: Instant, *, is_early: bool = False) -> None:
    if abstains(replica):
        let_timeout_pass(replica, now)
    else:
        to_prospective(replica, now, is_early=is_early)


def _may_open_epoch(replica: Replica) -> bool:
    """True when a resigned leader moves on to the next epoch; this includes a leader that was removed."""
    return not replica.is_shutting_down and replica.epoch < EPOCH_MAX


def _resignation(replica: Replica, leader: Leader, now: Instant) -> Report | None:
    """The report of a leader that should resign; None when it should stay leader."""
    transfer, stalled_ms = replica.transfer, _stalled_deadline_ms(replica)
    kind = ReportKind.EVENT
    values: tuple[int, ...] = ()
    if replica.shutdown_deadline_ms is not None:
        reason = "the node shuts down"
    elif leader.resign_requested:
        reason = "the application asked for it"
    elif transfer is not None and is_due(replica, leader):
        reason = f"node {transfer.target_id} is to lead, and has the whole log"
        kind, values = ReportKind.RESIGNED_FOR_TARGET, (leader.epoch, transfer.target_id)
    elif (successor_id := successor(replica, leader)) is not None:
        reason = f"it never leads for long, and node {successor_id} has the whole log"
        kind, values = ReportKind.HANDED_OVER, (leader.epoch, successor_id)
    elif is_removed(replica, leader):
        reason = "it is no longer a voter"
    elif leader.check_quorum_deadline_ms <= now.mono_ms:
        reason = f"no majority has fetched for {replica.config.fetch_timeout_ms * 3 // 2} ms"
    elif stalled_ms is not None and stalled_ms <= now.mono_ms:
        waited_ms = now.mono_ms - stalled_ms + replica.config.fetch_timeout_ms
        reason = f"storage has not finished a write for {waited_ms} ms"
    else:
        return None
    return Report(text=f"resigning from epoch {leader.epoch}: {reason}", kind=kind, values=values)


def _stalled_deadline_ms(replica: Replica) -> int | None:
    """When the oldest unfinished write has taken too long for a leader (mono ms)."""
    oldest_ms = replica.outbox.oldest_unfinished_ms()
    # A leader whose disk hangs commits nothing, so another voter should lead. The only voter has no other voter to hand
    # over to.
    return None if oldest_ms is None or replica.is_only_voter else oldest_ms + replica.config.fetch_timeout_ms


def _answer_expired(replica: Replica, now: Instant) -> None:
    if not isinstance(replica.state, Leader):
        return
    for fetch in replica.parked.take_expired(now.mono_ms):
        serve(replica, replica.state, fetch.request_id, fetch.listener, fetch.request)


def _has_left(replica: Replica, deadline_ms: int, now: Instant) -> bool:
    """Complete the shutdown when another replica leads, when no other voter is left, or when the timeout is over."""
    # Graceful when another replica leads or nobody is left to hand over to; otherwise only the timeout ends the wait.
    is_graceful = not replica.is_voter or replica.is_only_voter or replica.has_remote_leader
    if not is_graceful and replica.is_last_to_leave:
        # Kafka waits until the timeout. But no process listens where the other voters should be, so nobody can take
        # over, and nobody can need this replica's vote (ADR 045).
        replica.outbox.add(Report(text="no other voter is running, so nobody takes over"))
        is_graceful = True
    if not is_graceful and deadline_ms > now.mono_ms:
        return False
    replica.is_stopped = True
    replica.outbox.add(CompleteShutdown(graceful=is_graceful))
    return True


def _speak(replica: Replica, now: Instant) -> None:
    """Send the requests of this state to the peers that are ready for one."""
    state = replica.state
    match state:
        case Unattached():
            if not replica.is_shutting_down:
                send_requests.send_fetch_to_bootstrap(replica, now)
        case Prospective() | Candidate():
            # A lost campaign only waits for its timeout.
            if not state.tally.is_lost:
                send_requests.ask_for_votes(replica, state, now)
        case Follower():
            if not speak_of_membership(replica, state, now):
                send_requests.send_fetch_to_leader(replica, state, now)
        case Leader():
            drain_if_due(replica, state, now)
            if state.change is not None:
                ask_if_silent(replica, state, now)
            serve_reads(replica, state, now)
            send_requests.say_begin_quorum_epoch(replica, state, now)
        case Resigned():
            send_requests.say_end_quorum_epoch(replica, state, now)
        case _:
            assert_never(state)


def next_deadline_ms(replica: Replica) -> int | None:
    """When `poll` must run next if no event comes before (mono ms); None for never."""
    if replica.is_stopped:
        return None
    earliest_ms = NEVER_MS
    for deadline_ms in (
        replica.connections.next_deadline_ms(),
        replica.parked.next_deadline_ms(),
        replica.shutdown_deadline_ms,
        None if replica.transfer is None else transfer_deadline_ms(replica, replica.transfer),
        None if replica.survey is None else survey_deadline_ms(replica),
        *_state_deadlines_ms(replica),
    ):
        if deadline_ms is not None and deadline_ms < earliest_ms:  # after each step: a generator takes twice as long
            earliest_ms = deadline_ms
    return None if earliest_ms == NEVER_MS else earliest_ms


def _ask_ms(replica: Replica, leader: Leader) -> int | None:
    """When a voter that moved is to be asked; None while a request to it is under way, whose end is an event."""
    change = leader.change
    return change.ask_ms if isinstance(change, Update) and replica.connections.is_ready(change.voter.key.id) else None


def _state_deadlines_ms(replica: Replica) -> list[int | None]:
    state = replica.state
    match state:
        case Leader():
            drain_ms = state.accumulation.due_ms()
            # While storage is behind, its completion drains the next batch, not a timer.
            if drain_ms is not None and not may_drain(replica):
                drain_ms = None
            return [
                state.check_quorum_deadline_ms,
                state.begin_quorum_deadline_ms,
                _stalled_deadline_ms(replica),
                drain_ms,
                state.change.deadline_ms if state.change is not None else None,
                _ask_ms(replica, state),
            ]
        case Unattached() | Prospective() | Candidate():
            return [state.election_deadline_ms] if replica.may_campaign else []
        case Follower():
            return [state.deadline_ms, state.early_deadline_ms] if replica.may_campaign else []
        case Resigned():
            return [state.election_deadline_ms] if _may_open_epoch(replica) else []
        case _:
            assert_never(state)
