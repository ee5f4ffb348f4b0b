"""Fetch at the follower: append what is valid, cut back to where the logs agree, or fetch a snapshot instead.

Source: KIP-595 §Fetch and §Log reconciliation; KAFKA-18723 (invalid and inconsistent records).
"""

from __future__ import annotations

from dataclasses import replace

from pykraft.core.effects import AppendFetched, Fatal, NotifyHighWatermark, Report, TruncateTo
from pykraft.core.events import ResponseReceived
from pykraft.core.messages import FetchedBatch, FetchResponse
from pykraft.core.on.corruption import cut_damage, leave_if_whole, lose_from
from pykraft.core.on.download import begin_download
from pykraft.core.on.following import settle_answer
from pykraft.core.replica import Replica
from pykraft.core.state import Follower
from pykraft.errors import ProtocolError
from pykraft.types import Instant, Offset, OffsetAndEpoch


def on_fetch_response(replica: Replica, event: ResponseReceived, message: FetchResponse, now: Instant) -> None:
    """Do what the leader's answer says: append, truncate, or begin to fetch a snapshot.

    Effects: AppendFetched, TruncateTo or BeginDownload; NotifyHighWatermark; the next Fetch follows when the step ends.
    Errors: ProtocolError for batches below the log end, a diverging answer or a snapshot without sense, or a high
    watermark that went back; Fatal for a truncation below the high watermark: committed records would be lost.
    Source: KIP-595 §Fetch; KafkaRaftClient.handleFetchResponse.
    """
    if not settle_answer(replica, event.peer_id, message, now):
        return
    state = replica.state
    if not isinstance(state, Follower):
        return
    if message.snapshot_id is not None:
        begin_download(replica, message.snapshot_id)
    elif message.diverging is not None:
        _truncate(replica, message.diverging, message.batch_start)
    else:
        _check_high_watermark(state, message.high_watermark)
        leave_if_whole(replica, message)
        _append(replica, event, message, now)
        _raise_high_watermark(replica, message.high_watermark)
    state = replica.state
    assert isinstance(state, Follower)
    replica.state = state.heard(now, replica.config.fetch_timeout_ms)


def _check_high_watermark(state: Follower, told: Offset | None) -> None:
    """What is committed stays committed: no leader that is one knows less than was known before."""
    known = state.high_watermark
    if known is not None and told is not None and told < known:
        raise ProtocolError(f"the high watermark went back from {known} to {told}")


def _truncate(replica: Replica, diverging: OffsetAndEpoch, batch_start: Offset | None) -> None:
    """Cut where the logs part, or before the batch that holds this offset: a log is cut in whole batches.

    Logs that agree up to an offset have the same batches up to it, so a leader that is right never names one within a
    batch. One that does must not make memory and file differ: the next Fetch would acknowledge what the file lost.
    """
    log = replica.log
    point = log.truncation_point(diverging)
    if point == diverging.offset and batch_start is not None:  # other points are where an epoch of this log ends
        point = batch_start
    end_offset = max(point, log.start_offset)
    if diverging.offset < 0 or diverging.epoch < 0 or end_offset == log.end_offset:
        raise ProtocolError(f"the diverging answer {diverging} leaves nothing to cut from {log.end}")
    if replica.log.quarantine is not None:  # whatever it lost, it promises none of it: the leader's log counts
        lose_from(replica, end_offset)
        replica.log.quarantine = replace(replica.log.quarantine, is_cut=False)
        cut_damage(replica)
        return
    if end_offset < log.committed_end_offset:
        known = f"everything below {log.committed_end_offset} is committed"
        reason = f"the leader wants the log cut to {end_offset}, but {known}"
        replica.outbox.add(Fatal(reason=reason))
        return
    log.truncate_to(end_offset)
    replica.membership.truncate_to(end_offset)
    io = replica.outbox.next_log_io()
    log.submit(io)
    replica.outbox.add(TruncateTo(io=io, end_offset=end_offset))


def _append(replica: Replica, event: ResponseReceived, message: FetchResponse, now: Instant) -> None:
    log = replica.log
    batches = valid_prefix(message.batches, log.end, replica)
    if message.invalid is not None or len(batches) < len(message.batches):
        what = message.invalid or f"batches after {log.end_offset} that cannot follow in epoch {replica.epoch}"
        replica.outbox.add(Report(text=f"fetched records were not appended: {what}"))
        if not batches:
            replica.connections.back_off(event.peer_id, now.mono_ms)
    if not batches:
        return
    cut_damage(replica)
    for batch in batches:
        log.append(base_offset=batch.base_offset, end_offset=batch.end_offset, epoch=batch.epoch)
        for offset, record in batch.membership:
            replica.membership.record(offset, record)
    io = replica.outbox.next_log_io()
    log.submit(io)
    replica.outbox.add(AppendFetched(io=io, count=len(batches), end_offset=log.end_offset))


def valid_prefix(batches: tuple[FetchedBatch, ...], end: OffsetAndEpoch, replica: Replica) -> tuple[FetchedBatch, ...]:
    """The batches that continue this log without a hole and without an epoch above this replica's.

    A leader that truncates and appends while it reads can send bytes of two histories (KAFKA-18723); what
    does not fit is not appended and fetched again.

    Errors: ProtocolError when the first batch begins below the log end.
    """
    if batches and batches[0].base_offset < end.offset:
        raise ProtocolError(f"fetched batch at {batches[0].base_offset}, but the log ends at {end.offset}")
    next_offset, epoch = end.offset, end.epoch
    for count, batch in enumerate(batches):
        if batch.base_offset != next_offset or not epoch <= batch.epoch <= replica.epoch:
            return batches[:count]
        next_offset, epoch = batch.end_offset, batch.epoch
    return batches


def _raise_high_watermark(replica: Replica, told: Offset | None) -> None:
    """The leader's high watermark as far as this log reaches."""
    state = replica.state
    assert isinstance(state, Follower)
    if told is None:
        return
    high_watermark = min(told, replica.log.end_offset)
    if state.high_watermark is not None and high_watermark <= state.high_watermark:
        return
    replica.state = replace(state, high_watermark=high_watermark)
    replica.log.commit_to(high_watermark)
    replica.outbox.add(NotifyHighWatermark(high_watermark=high_watermark))
