"""How a leader answers a Fetch: records, a diverging epoch, a snapshot id, or an empty answer after a wait.

These are pure look-ups in the log's epochs. A Fetch counts as a sign of life when it arrives (`on.fetch_request`), and
not again when a parked one is answered.

Source: KIP-595 §Fetch; KIP-630; KIP-1166; Kafka ``KafkaRaftClient.tryCompleteFetchRequest``.
"""

from collections.abc import Sequence
from typing import Final

from pykraft.core.effects import ReplyFetch
from pykraft.core.leader.parked import HIGH_WATERMARK_WAIT_MS, ParkedFetch
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
    end_offset = (
        request.fetch_offset if is_other else max(request.fetch_offset, served_end_offset(replica, leader, request))
    )
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
    if request.wait_ms_max == 0 or request.fetch_offset < served_end_offset(replica, leader, request):
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


def served_end_offset(replica: Replica, leader: Leader, request: FetchRequest) -> Offset:
    """End of the records that this Fetch may get: the log end, or the flushed or the committed end."""
    log = replica.log
    end_offset = log.flushed_end_offset if replica.config.leader_send_flushed_only else log.end_offset
    return min(end_offset, leader.high_watermark or Offset(0)) if request.is_committed_only else end_offset


def answer_parked(replica: Replica, leader: Leader) -> None:
    """There are new records: answer the Fetches that wait for them, voters first."""
    _serve_all(replica, leader, replica.parked.take_woken(replica.now_ms))


def answer_committed(replica: Replica, leader: Leader) -> None:
    """The high watermark advanced: answer parked Fetches, voters first.

    While records follow often, only those that want nothing else: for the others it waits for the next records.
    """
    parked = replica.parked
    parked.wake_committed_only()
    if expects_records(replica, leader):
        # An answer by itself costs each follower another Fetch, and the next record often comes while that is under
        # way, and waits for it.
        parked.hasten(replica.now_ms + HIGH_WATERMARK_WAIT_MS)
        _serve_all(replica, leader, parked.take_due(replica.now_ms))
    else:
        _serve_all(replica, leader, parked.take_woken(replica.now_ms))


def _serve_all(replica: Replica, leader: Leader, fetches: Sequence[ParkedFetch]) -> None:
    for fetch in fetches:
        serve(replica, leader, fetch.request_id, fetch.listener, fetch.request)
