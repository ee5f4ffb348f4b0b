"""Fetch at the leader: the fetch offset acknowledges all batches below it and asks for those that follow.

Source: KIP-595 §Fetch, KIP-853 (directory ids), KIP-1166 (high watermark in the request).
"""

from typing import Final

from pykraft.core.effects import Report
from pykraft.core.enter_state import check_quorum_deadline_ms
from pykraft.core.events import RequestReceived
from pykraft.core.leader.appending import advance_high_watermark
from pykraft.core.leader.change_answer import answer_change
from pykraft.core.leader.parked import HIGH_WATERMARK_WAIT_MS, ParkedFetch
from pykraft.core.leader.pending import Update
from pykraft.core.leader.progress import ReplicaProgress
from pykraft.core.leader.serving import ANSWER_SIZE_BYTES_MAX, has_answer, has_news, is_prefix, serve
from pykraft.core.messages import FetchRequest, FetchResponse
from pykraft.core.on.requests import leader_only_error, reply
from pykraft.core.on.transfer import note_target
from pykraft.core.quorum import majority_of
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import ErrorCode
from pykraft.types import Instant, Offset, ReplicaKey, ReportKind, uuid_text

WAIT_MS_MAX: Final = 30_000
"""No Fetch is parked longer, whatever it asks for: the leader notices a dead connection only when it answers."""
ALARMS_PER_EPOCH_MAX: Final = 100
"""Further voters and directories that look wrong in one epoch are not reported."""


def on_fetch_request(replica: Replica, event: RequestReceived, message: FetchRequest, now: Instant) -> None:
    """Note the replica's progress, then answer with records or park the Fetch until there are some.

    Effects: NotifyHighWatermark when a majority now holds more; ReplyFetch now or later, or Reply with an error.
    Units: ``fetch_offset`` exclusive end of what the replica holds durably; ``wait_ms_max`` >= 0.
    Errors: INVALID_REQUEST, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE,
    UNKNOWN_SERVER_ERROR for the leader's own id.
    Source: KIP-595 §Fetch, KIP-630; KafkaRaftClient.handleFetchRequest.
    """
    error = _field_error(message) or leader_only_error(replica, message.epoch)
    if not error and message.replica is not None:
        _watch_identity(replica, message.replica)
        if message.replica.id == replica.local.id:
            error = ErrorCode.UNKNOWN_SERVER_ERROR
    if error:
        _refuse(replica, event, error)
        return
    leader = replica.state
    assert isinstance(leader, Leader)
    asker = leader.progress.known(message.replica)
    if asker is not None:
        asker.asks_again(min(message.size_bytes_max, ANSWER_SIZE_BYTES_MAX), now.mono_ms)
    if asker is not None and leader.progress.voters.get(asker.key.id) is asker:
        _watch_voter(replica, leader, asker, message.fetch_offset)
    # Only a replica whose log is a prefix of ours acknowledges anything with its fetch offset.
    if message.replica is not None and is_prefix(replica, message):
        _note(replica, leader, message.replica, message.fetch_offset, now)
    is_voter = message.replica is not None and leader.progress.is_voter(message.replica)
    is_due = has_answer(replica, leader, message)
    is_answered = is_due and (is_voter or replica.parked.has_turn(message, now.mono_ms))
    if is_answered or not _has_room(replica, leader, is_voter=is_voter):
        serve(replica, leader, event.request_id, event.listener, message)
        return
    wait_ms_max = HIGH_WATERMARK_WAIT_MS if has_news(leader, message) else WAIT_MS_MAX
    replica.parked.park(
        ParkedFetch(
            request_id=event.request_id,
            listener=event.listener,
            request=message,
            deadline_ms=now.mono_ms + min(message.wait_ms_max, wait_ms_max),
            is_voter=is_voter,
        ),
        is_due=is_due,
    )


def note_sign_of_life(replica: Replica, leader: Leader, key: ReplicaKey, now: Instant) -> None:
    """Count this voter for check quorum; a majority extends the deadline.

    Source: KIP-595 §Leader progress timeout; Kafka ``LeaderState.updateCheckQuorumForFollowingVoter``.
    """
    if not leader.progress.is_voter(key):
        return
    leader.fetched_voters.add(key.id)
    # The leader counts itself, unless it is removing itself from the voter set.
    needed = majority_of(len(replica.voters)) - (1 if replica.is_voter else 0)
    if len(leader.fetched_voters) >= needed:
        leader.fetched_voters.clear()
        leader.check_quorum_deadline_ms = check_quorum_deadline_ms(replica, now)


def _watch_identity(replica: Replica, key: ReplicaKey) -> None:
    """Raise an alarm when two processes have one node id: another than this leader, or than a static voter.

    Effects: Report, once an epoch for each directory.
    """
    leader = replica.state
    assert isinstance(leader, Leader)
    twin = leader.progress.twin_of(key)
    if key.id == replica.local.id:
        known = replica.local.directory_id
    elif twin is not None and twin.directory_id is not None:
        known = twin.directory_id
    else:
        return
    other = "an unknown directory" if key.directory_id is None else f"the directory {uuid_text(key.directory_id)}"
    text = (
        f"TWO PROCESSES HAVE THE NODE ID {key.id}: the directory {uuid_text(known)} counts as that voter in epoch "
        f"{replica.epoch}, and {other} fetches in its name: that acknowledges nothing; stop the process that does not "
        f"belong there (if the disk of node {key.id} was replaced, its new directory counts from the next epoch on)"
    )
    _alarm_once(replica, leader, key, ReportKind.TWIN, text)


def _watch_voter(replica: Replica, leader: Leader, voter: ReplicaProgress, fetch_offset: Offset) -> None:
    """Raise an alarm when a voter asks for records that it has acknowledged in this epoch; end an update in its name.

    Effects: Report, once an epoch for each voter; Reply to UpdateRaftVoter.
    """
    change = leader.change
    is_update = isinstance(change, Update) and change.offset is None and change.voter.key.id == voter.key.id
    if isinstance(change, Update) and is_update and replica.would_move(change.voter):
        # Not by this voter: it would wait for the answer (`voters.update_voter`).
        text = f"voter {voter.key.id} fetches as before, so another node has sent this in its name"
        answer_change(replica, leader, ErrorCode.INVALID_REQUEST, text)
    known = voter.acknowledged_end_offset
    if fetch_offset >= known:
        return
    # A newer Fetch of this voter waits here, so this one was on its way for long: it says nothing new.
    if replica.parked.has_from(voter.key.id):
        return
    text = (
        f"voter {voter.key.id} fetches from offset {fetch_offset}, but has acknowledged everything below {known} in "
        f"epoch {leader.epoch}: its log was damaged, or its directory replaced by an older copy; what it forgot may be "
        "committed because of it"
    )
    _alarm_once(replica, leader, voter.key, ReportKind.ACKNOWLEDGED_AGAIN, text)


def _alarm_once(replica: Replica, leader: Leader, key: ReplicaKey, kind: ReportKind, text: str) -> None:
    # Bounded, since anyone can make up directory ids.
    reported = leader.progress.reported
    if key not in reported and len(reported) < ALARMS_PER_EPOCH_MAX:
        reported.add(key)
        replica.outbox.add(Report(text=text, is_alarm=True, kind=kind, values=(key.id,)))


def _note(replica: Replica, leader: Leader, key: ReplicaKey, fetch_offset: Offset, now: Instant) -> None:
    leader.progress.of(key).fetched(replica.log.whole_batches_below(fetch_offset), replica.log.end_offset, now)
    note_sign_of_life(replica, leader, key, now)
    note_target(replica, key)
    advance_high_watermark(replica, leader)


def _has_room(replica: Replica, leader: Leader, *, is_voter: bool) -> bool:
    """True when one more Fetch may be parked; a voter's Fetch displaces the oldest one of an observer."""
    if not replica.parked.is_full:
        return True
    # A voter whose Fetch is answered at once would ask again at once, so make room for it.
    other = replica.parked.take_oldest_other() if is_voter else None
    if other is None:
        return False
    serve(replica, leader, other.request_id, other.listener, other.request)
    return True


def _field_error(message: FetchRequest) -> ErrorCode:
    is_valid = (
        message.wait_ms_max >= 0 and message.fetch_offset >= 0 and 0 <= message.last_fetched_epoch <= message.epoch
    )
    return ErrorCode.NONE if is_valid else ErrorCode.INVALID_REQUEST


def _refuse(replica: Replica, event: RequestReceived, error: ErrorCode) -> None:
    response = FetchResponse(
        error=error,
        epoch=replica.epoch,
        leader_id=replica.leader_id,
        high_watermark=None,
        log_start_offset=replica.log.start_offset,
        listeners=replica.reply_listeners(event.listener),
    )
    reply(replica, event.request_id, response)
