"""How a leader answers a Fetch: records, the place where logs part, a snapshot's id, or nothing for a while.

Pure look-ups in the log's epochs; what the fetch says of its sender is noted elsewhere, and only when it
arrives: a fetch that waits here and is answered later is no new sign of life.

Source: KIP-595 §Fetch; KIP-630; KIP-1166; Kafka ``KafkaRaftClient.tryCompleteFetchRequest``.
"""

from __future__ import annotations

from typing import Final

from pykraft.core.answer_pace import floor_bytes
from pykraft.core.effects import ReplyFetch
from pykraft.core.messages import NONE, FetchRequest, FetchResponse
from pykraft.core.outbox import Relies
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.types import NO_IO, Offset, ReplicaKey

ANSWER_SIZE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Most bytes of records or of a snapshot in one answer, whoever asks for more; one batch always comes."""


def serve(replica: Replica, leader: Leader, request_id: int, listener: str, request: FetchRequest) -> None:
    """Answer now, whatever there is to say.

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
    """Note an answer that brings bytes: how many it may bring to this replica, and whether the host should watch it.

    Only what a voter receives is watched: it stands in for the Fetches of that voter that check quorum wants.
    """
    known = leader.progress.known(key)
    if known is None:
        return asked_bytes, False
    config = replica.config
    size_bytes_max = known.answers(
        request_id,
        asked_bytes,
        replica.now_ms,
        timeout_ms=config.fetch_timeout_ms,
        floor_bytes=floor_bytes(config.fetch_size_bytes_max),
    )
    return size_bytes_max, leader.progress.is_voter(known.key)


def has_answer(replica: Replica, leader: Leader, request: FetchRequest) -> bool:
    """False when the request may wait: same log, no records, and no news of the high watermark.

    A request that cannot name its high watermark (below Fetch 18) is never answered because of it.
    """
    if request.wait_ms_max == 0 or request.fetch_offset < served_end_offset(replica):
        return True
    if not is_prefix(replica, request):
        return True
    known = -1 if leader.high_watermark is None else leader.high_watermark
    return request.high_watermark is not None and request.high_watermark < known


def is_prefix(replica: Replica, request: FetchRequest) -> bool:
    """True when the asker's log is a prefix of this one, and can be continued from it."""
    log, asked = replica.log, (request.fetch_offset, request.last_fetched_epoch)
    return log.snapshot_instead_of(*asked) is None and log.diverging_from(*asked) is None


def served_end_offset(replica: Replica) -> Offset:
    """Where the records end that may be sent: the log end, or on request the flushed end."""
    log = replica.log
    return log.flushed_end_offset if replica.config.leader_send_flushed_only else log.end_offset


def answer_parked(replica: Replica, leader: Leader) -> None:
    """Answer waiting fetches, those of voters first: there are records, or the high watermark moved."""
    for fetch in replica.parked.take_woken():
        serve(replica, leader, fetch.request_id, fetch.listener, fetch.request)
