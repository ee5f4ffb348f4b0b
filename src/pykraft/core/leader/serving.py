"""How a leader answers a Fetch: records, a diverging epoch, a snapshot id, or an empty answer after a wait.

These are pure look-ups in the log's epochs. A Fetch counts as a sign of life when it arrives (`on.fetch_request`), and
not again when a parked one is answered.

Source: KIP-595 §Fetch; KIP-630; KIP-1166; Kafka ``KafkaRaftClient.tryCompleteFetchRequest``.
"""

from __future__ import annotations

from typing import Final

from pykraft.core.effects import ReplyFetch
from pykraft.core.leader.parked import HIGH_WATERMARK_WAIT_MS
from pykraft.core.messages import NONE, FetchRequest, FetchResponse
from pykraft.core.outbox import Relies
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.types import NO_IO, Offset, ReplicaKey

ANSWER_SIZE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Upper bound of record or snapshot bytes in one answer, whatever the request allows; one whole batch always fits."""


def serve(replica: Replica, leader: Leader, request_id: int, listener: str, request: FetchRequest) -> None:
    """Answer now with whatever there is.

    Effects: ReplyFetch.
    """
    log, asked = replica.log, (request.fetch_offset, request.last_fetched_epoch)
    snapshot_id = log.snapshot_instead_of(*asked)
    diverging = log.diverging_from(*asked) if snapshot_id is None else None
    response = FetchResponse(
        error=NONE,
        epoch=leader.epoch,
        leader_id=leader.leader_id,
        high_watermark=leader.high_watermark,
        log_start_offset=log.start_offset,
        diverging=diverging,
        snapshot_id=snapshot_id,
        listeners=replica.reply_listeners(listener),
    )
    is_other = diverging is not None or snapshot_id is not None
    # A diverging epoch or a snapshot id comes without records.
    end_offset = request.fetch_offset if is_other else max(request.fetch_offset, served_end_offset(replica))
    size_bytes_max, is_watched = min(request.size_bytes_max, ANSWER_SIZE_BYTES_MAX), False
    if end_offset > request.fetch_offset:
        size_bytes_max, is_watched = watch_answer(replica, leader, request.replica, request_id, size_bytes_max)
    effect = ReplyFetch(
        after=NO_IO,
        request_id=request_id,
        message=response,
        fetch_offset=request.fetch_offset,
        end_offset=end_offset,
        size_bytes_max=size_bytes_max,
        is_watched=is_watched,
    )
    replica.outbox.send(effect, Relies.ELECTION)


def watch_answer(
    replica: Replica, leader: Leader, key: ReplicaKey | None, request_id: int, asked_bytes: int
) -> tuple[int, bool]:
    """Note an answer with bytes; returns how many it may bring, and whether the host should watch its progress."""
    known = leader.progress.known(key)
    if known is None:
        return asked_bytes, False
    size_bytes_max = known.answers(
        request_id,
        asked_bytes,
        replica.now_ms,
        timeout_ms=replica.config.fetch_timeout_ms,
        floor_bytes=replica.floor_bytes,
    )
    # Watch only answers to voters: their progress replaces the Fetches that check quorum counts.
    return size_bytes_max, leader.progress.voters.get(known.key.id) is known


def has_answer(replica: Replica, leader: Leader, request: FetchRequest) -> bool:
    """False when the Fetch may wait: the log is a prefix, and there are no new records and no new high watermark.

    While records follow often, a new high watermark is no answer by itself.
    """
    if request.wait_ms_max == 0 or request.fetch_offset < served_end_offset(replica):
        return True
    if not is_prefix(replica, request):
        return True
    return has_news(leader, request) and not expects_records(replica, leader)


def has_news(leader: Leader, request: FetchRequest) -> bool:
    """True when the sender does not know the high watermark yet."""
    known = -1 if leader.high_watermark is None else leader.high_watermark
    # A Fetch below version 18 cannot tell its high watermark, so a new one never completes it.
    return request.high_watermark is not None and request.high_watermark < known


def expects_records(replica: Replica, leader: Leader) -> bool:
    """True when records are likely to follow within the time that a high watermark may wait for them."""
    return leader.advances_every(HIGH_WATERMARK_WAIT_MS, replica.now_ms)


def is_prefix(replica: Replica, request: FetchRequest) -> bool:
    """True when the sender's log is a prefix of this one and this log can continue it."""
    log, asked = replica.log, (request.fetch_offset, request.last_fetched_epoch)
    return log.snapshot_instead_of(*asked) is None and log.diverging_from(*asked) is None


def served_end_offset(replica: Replica) -> Offset:
    """End of the records that may be sent: the log end, or the flushed end if so configured."""
    log = replica.log
    return log.flushed_end_offset if replica.config.leader_send_flushed_only else log.end_offset


def answer_parked(replica: Replica, leader: Leader) -> None:
    """Answer parked Fetches, voters first: there are new records, or the high watermark advanced."""
    for fetch in replica.parked.take_woken():
        serve(replica, leader, fetch.request_id, fetch.listener, fetch.request)
