"""Fetch at the follower: append valid batches, truncate to where the logs diverge, or start a snapshot download.

Source: KIP-595 §Fetch and §Log reconciliation; KAFKA-18723 (invalid and inconsistent records).
"""

from dataclasses import replace
from typing import Final

from pykraft.core.effects import AppendFetched, NotifyHighWatermark, Report, TruncateTo
from pykraft.core.events import CommitHeard, ResponseReceived
from pykraft.core.log_view import LogView
from pykraft.core.messages import FetchedBatch, FetchResponse
from pykraft.core.on.contradiction import contradiction_in, give_up_leader, is_once, note_response, note_told
from pykraft.core.on.corruption import cut_damage, leave_if_whole, lose_from
from pykraft.core.on.download import begin_download
from pykraft.core.on.following import settle_answer
from pykraft.core.on.proof import on_probe_answer, prove_if_caught_up
from pykraft.core.replica import Replica
from pykraft.core.state import Follower
from pykraft.errors import ProtocolError
from pykraft.types import Instant, Offset, OffsetAndEpoch, ReportKind

EMPTY_ANSWERS_MAX = 2
"""Empty responses accepted within one retry back-off; one more backs off from the leader."""
BATCHES_PER_ANSWER: Final = 8192
"""A Fetch asks for about as many: a node does nothing else while it handles an answer, some 8 us a batch (ADR 110)."""
ASKED_SIZE_BYTES_MIN: Final = 64 * 1024


def on_fetch_response(replica: Replica, event: ResponseReceived, message: FetchResponse, now: Instant) -> None:
    """Act on the leader's response: append, truncate, or start to download a snapshot.

    A leader that contradicts committed records or itself is given up (`contradiction`).

    Effects: AppendFetched, TruncateTo or BeginDownload; NotifyHighWatermark; the next Fetch follows when the step ends.
    Errors: ProtocolError for a response from a replica that is not the leader, for batches below the log end, and for
    an invalid diverging epoch or snapshot id.
    Source: KIP-595 §Fetch; KafkaRaftClient.handleFetchResponse.
    """
    if not settle_answer(replica, event.peer_id, message, now):
        return
    state = replica.state
    if not isinstance(state, Follower):
        return
    _check_sender(state, event.peer_id, message)
    # The leader that was given up may also be a bootstrap server and answer as one: ignore what it says in this epoch.
    if replica.has_given_up_leader:
        replica.connections.back_off(event.peer_id, now.mono_ms)
        return
    # The response to a probe brings no records; its diverging epoch only tells the leader's log end.
    if on_probe_answer(replica, event.correlation_id, message):
        note_response(replica, now, has_progress=False)
        return
    cut_to = None
    if message.snapshot_id is None and message.diverging is not None:
        cut_to = _truncation_point(replica, message.diverging, message.batch_start)
    elif replica.log.quarantine is not None:
        cut_to = _damaged_end(replica.log, message)
    contradiction = contradiction_in(replica, state, message, cut_to)
    if is_once(replica, state, is_contradiction=contradiction is not None):
        return
    if contradiction is not None:
        give_up_leader(replica, state, contradiction, now)
    else:
        _follow(replica, event, message, cut_to, now)


def on_commit_heard(replica: Replica, event: CommitHeard, _now: Instant) -> None:
    """Raise the high watermark before a Fetch response does: a caller on this node waits for what was committed.

    The log must be a prefix of the leader's, which a Fetch response of this epoch said. Then all that it has below a
    committed offset is committed, too.

    Effects: NotifyHighWatermark.
    Source: ours (ADR 101).
    """
    state = replica.state
    # In another epoch the log may have parted from the log in which the records were committed.
    if not isinstance(state, Follower) or state.epoch != event.epoch or not state.has_agreed:
        return
    # In quarantine a replica cannot judge what it has, and nobody believes a leader that was given up.
    if replica.log.quarantine is None and not replica.has_given_up_leader:
        _raise_high_watermark(replica, event.end_offset)


def _check_sender(state: Follower, peer_id: int, message: FetchResponse) -> None:
    """Accept log data from the leader only; a bootstrap server is identified by the leader id in its response.

    Errors: ProtocolError.
    """
    if message.leader_id != state.leader_id or (peer_id >= 0 and peer_id != state.leader_id):
        who = f"node {peer_id}" if peer_id >= 0 else f"a bootstrap server that names {message.leader_id}"
        raise ProtocolError(f"{who} answers as a leader, but {state.leader_id} leads epoch {state.epoch}")


def _follow(
    replica: Replica, event: ResponseReceived, message: FetchResponse, cut_to: Offset | None, now: Instant
) -> None:
    before = replica.log.end_offset
    if message.snapshot_id is not None:
        begin_download(replica, message.snapshot_id)
    elif cut_to is not None:
        _truncate(replica, cut_to)
    else:
        # Both judge the log as it is before this append, because the new records are not durable yet.
        leave_if_whole(replica, message)
        prove_if_caught_up(replica, message, now)
        _append(replica, event, message, now)
        is_news = _raise_high_watermark(replica, message.high_watermark)
        _note_agreement(replica, event.peer_id, now, is_empty=not message.batches and not is_news)
    note_response(replica, now, has_progress=replica.log.end_offset > before)
    note_told(replica, message)


def _note_agreement(replica: Replica, peer_id: int, now: Instant, *, is_empty: bool) -> None:
    """This log is a prefix of the leader's. Back off from a leader that keeps answering at once without news."""
    state = replica.state
    assert isinstance(state, Follower)
    last_ms = state.empty_answer_ms
    is_soon = last_ms is not None and now.mono_ms - last_ms < max(1, replica.config.retry_backoff_ms)
    count = (state.empty_answers + 1 if is_soon else 1) if is_empty else 0
    # One empty response is normal: a leader that starts a transfer answers all parked Fetches at once, perhaps just
    # after it answered one of them because its wait time was over.
    if count > EMPTY_ANSWERS_MAX:
        replica.connections.back_off(peer_id, now.mono_ms)
    if is_empty or count != state.empty_answers or not state.has_agreed or last_ms is not None:
        replica.state = replace(
            state, has_agreed=True, empty_answers=count, empty_answer_ms=now.mono_ms if is_empty else None
        )


def _truncation_point(replica: Replica, diverging: OffsetAndEpoch, batch_start: Offset | None) -> Offset:
    """The offset where the logs diverge, or the start of the batch that contains it.

    Errors: ProtocolError when nothing is left to truncate.
    """
    log = replica.log
    point = log.truncation_point(diverging)
    # A log is truncated in whole batches. Logs that agree up to an offset have the same batches below it, so a correct
    # leader never names an offset inside a batch. If one does, memory and file must still not differ: the next Fetch
    # would acknowledge records that the file has lost. Any other point is the end of an epoch in this log, so it is a
    # batch boundary.
    if point == diverging.offset and batch_start is not None:
        point = batch_start
    if diverging.offset < 0 or diverging.epoch < 0 or log.end_offset in (point, log.start_offset):
        raise ProtocolError(f"the diverging answer {diverging} leaves nothing to truncate from {log.end}")
    return point


def _damaged_end(log: LogView, message: FetchResponse) -> Offset | None:
    """Where the last epoch of a log in quarantine begins, if the leader has an older one after it; else None.

    No CRC covers a batch's epoch, so a flipped bit may have raised the last one to an epoch that the leader has only
    later: it does not notice, and nothing that it sends can follow.

    Source: ours (ADR 120).
    """
    is_older = bool(message.batches) and message.batches[0].epoch < log.last_epoch
    return log.epochs[-1].start_offset if is_older and log.epochs else None


def _truncate(replica: Replica, point: Offset) -> None:
    """Truncate the log at ``point``, or at the log start offset if that is higher (possible only in quarantine)."""
    log = replica.log
    end_offset = max(point, log.start_offset)
    # In quarantine this replica promises nothing about its log, so the leader's log wins.
    if replica.log.quarantine is not None:
        lose_from(replica, end_offset)
        replica.log.quarantine = replace(replica.log.quarantine, is_cut=False)
        cut_damage(replica)
        return
    former = f"truncating the log from {log.end_offset} to {end_offset}"
    text = f"{former}: node {replica.leader_id}, the leader of epoch {replica.epoch}, has other records from there on"
    replica.outbox.add(Report(text=text, kind=ReportKind.TRUNCATION, values=(log.end_offset, end_offset)))
    log.truncate_to(end_offset)
    replica.voter_history.truncate_to(end_offset)
    io = replica.outbox.next_log_io()
    log.submit(io)
    replica.outbox.add(TruncateTo(io=io, end_offset=end_offset))


def _append(replica: Replica, event: ResponseReceived, message: FetchResponse, now: Instant) -> None:
    log = replica.log
    # Append the valid batches of a response even if a later one is invalid.
    batches = valid_prefix(message.batches, log.end, replica)
    if message.invalid is not None or len(batches) < len(message.batches):
        what = message.invalid or f"batches after {log.end_offset} that cannot follow in epoch {replica.epoch}"
        replica.outbox.add(Report(text=f"fetched records were not appended: {what}"))
        if not batches:
            replica.connections.back_off(event.peer_id, now.mono_ms)
    if not batches:
        return
    mean_size_bytes = sum(batch.size_bytes for batch in batches) // len(batches)
    replica.asked_size_bytes = max(ASKED_SIZE_BYTES_MIN, BATCHES_PER_ANSWER * mean_size_bytes)
    # A leader sends what follows, so the damaged files are no longer needed.
    cut_damage(replica)
    for batch in batches:
        log.append(base_offset=batch.base_offset, end_offset=batch.end_offset, epoch=batch.epoch)
        for offset, record in batch.membership:
            replica.voter_history.record(offset, record)
    io = replica.outbox.next_log_io()
    log.submit(io)
    replica.outbox.add(AppendFetched(io=io, count=len(batches), end_offset=log.end_offset))


def valid_prefix(batches: tuple[FetchedBatch, ...], end: OffsetAndEpoch, replica: Replica) -> tuple[FetchedBatch, ...]:
    """The batches that continue this log without a gap and with epochs that do not exceed this replica's.

    Errors: ProtocolError when the first batch begins below the log end.
    """
    if batches and batches[0].base_offset < end.offset:
        raise ProtocolError(f"fetched batch at {batches[0].base_offset}, but the log ends at {end.offset}")
    next_offset, epoch = end.offset, end.epoch
    for count, batch in enumerate(batches):
        if batch.base_offset != next_offset or not epoch <= batch.epoch <= replica.epoch:
            # A leader that truncates and appends while it reads can send bytes of two histories (KAFKA-18723). Drop the
            # batches that do not fit; the next Fetch gets them again.
            return batches[:count]
        next_offset, epoch = batch.end_offset, batch.epoch
    return batches


def _raise_high_watermark(replica: Replica, told: Offset | None) -> bool:
    """Adopt the leader's high watermark as far as this log reaches; False when it does not advance."""
    state = replica.state
    assert isinstance(state, Follower)
    if told is None:
        return False
    high_watermark = min(told, replica.log.end_offset)
    if state.high_watermark is not None and high_watermark <= state.high_watermark:
        return False
    replica.state = state.knows(high_watermark)
    replica.log.commit_to(high_watermark)
    replica.outbox.add(NotifyHighWatermark(high_watermark=high_watermark))
    return True
