"""Bugs of replication: logs are compared or truncated at the wrong offset, and wrong records are appended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pykraft.core.connections import Connections
from pykraft.core.effects import ReplyFetch
from pykraft.core.events import RequestReceived
from pykraft.core.leader.serving import serve
from pykraft.core.log_view import LogView
from pykraft.core.messages import FetchedBatch, FetchRequest
from pykraft.core.on import fetch_request, fetch_response
from pykraft.core.on.requests import leader_only_error
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import ErrorCode
from pykraft.log.small_files import recovery_point
from pykraft.types import Epoch, Instant, Offset, OffsetAndEpoch
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch


def divergence_is_off_by_one(patch: Patch) -> None:
    """A leader takes a follower's log with one extra record of an old epoch for a prefix of its own."""

    def diverging_from(self: LogView, offset: Offset, last_epoch: Any) -> OffsetAndEpoch | None:
        end = self.end_of_epoch(last_epoch)
        return None if not offset or (end.epoch == last_epoch and end.offset + 1 >= offset) else end

    patch.setattr(LogView, "diverging_from", diverging_from)


def committed_records_are_cut(patch: Patch) -> None:
    """A leader sends a diverging epoch that is too low, and a follower truncates its log below its high watermark."""
    truncate = fetch_response._truncate

    def unguarded(replica: Replica, end_offset: Offset) -> None:
        replica.log.committed_end_offset = replica.log.start_offset
        truncate(replica, end_offset)

    followers_are_sent_too_far_back(patch)
    patch.setattr(fetch_response, "contradiction_in", lambda replica, state, answer, cut_to: None)
    patch.setattr(fetch_response, "_truncate", unguarded)


def what_was_committed_is_not_read_back(patch: Patch) -> None:
    """A replica writes down what it knows to be committed, and never reads that: it would cut it after a restart."""
    point_of = recovery_point._point_of
    patch.setattr(recovery_point, "_point_of", lambda *at: replace(point_of(*at), committed_end_offset=Offset(0)))


def fetch_counts_before_it_is_compared(patch: Patch) -> None:
    """The leader counts the offset of every Fetch, even if the follower's log diverges from its own."""
    on_fetch_request = fetch_request.on_fetch_request

    def on_request(replica: Replica, event: RequestReceived, message: FetchRequest, now: Instant) -> None:
        leader, key = replica.state, message.replica
        is_other = replica.log.diverging_from(message.fetch_offset, message.last_fetched_epoch) is not None
        if isinstance(leader, Leader) and message.epoch == leader.epoch and key is not None and is_other:
            fetch_request._note(replica, leader, key, min(message.fetch_offset, replica.log.end_offset), now)
        on_fetch_request(replica, event, message, now)

    patch.everywhere(on_fetch_request, on_request)


def followers_are_sent_too_far_back(patch: Patch) -> None:
    """A leader answers a diverging log with an offset before the last common record."""
    diverging_from = LogView.diverging_from

    def too_far(self: LogView, offset: Offset, last_epoch: Any) -> OffsetAndEpoch | None:
        end = diverging_from(self, offset, last_epoch)
        return None if end is None else OffsetAndEpoch(Offset(max(0, end.offset - 10)), end.epoch)

    patch.setattr(LogView, "diverging_from", too_far)


def batches_of_a_higher_epoch_are_appended(patch: Patch) -> None:
    """A leader answers a Fetch of an older epoch, and the follower appends records of a later epoch than its own.

    Two rules cover for each other: the leader fences the request, and the follower checks the epochs of the batches.
    """

    def valid_prefix(batches: tuple[FetchedBatch, ...], end: OffsetAndEpoch, replica: Replica) -> tuple[Any, ...]:
        del replica
        return batches if batches and batches[0].base_offset == end.offset else ()

    def unfenced(replica: Replica, epoch: Epoch) -> ErrorCode:
        is_older = isinstance(replica.state, Leader) and epoch < replica.epoch
        return leader_only_error(replica, replica.epoch if is_older else epoch)

    def in_its_epoch(replica: Replica, leader: Leader, request_id: int, listener: str, request: FetchRequest) -> None:
        outbox = replica.outbox
        serve(replica, leader, request_id, listener, request)
        answer = outbox._effects[-1]
        assert isinstance(answer, ReplyFetch)
        outbox._effects[-1] = replace(answer, message=replace(answer.message, epoch=request.epoch))

    patch.setattr(fetch_response, "valid_prefix", valid_prefix)
    patch.setattr(fetch_request, "leader_only_error", unfenced)
    patch.everywhere(serve, in_its_epoch)


def two_fetches_in_flight(patch: Patch) -> None:
    """A follower sends another Fetch at each event, although its last one is unanswered."""
    patch.setattr(Connections, "has_in_flight", property(lambda self: False))
    patch.setattr(Connections, "is_asked", lambda self, peer_id: False)
    patch.setattr(Connections, "is_ready", lambda self, peer_id: peer_id not in self._backing_off)


MUTANTS = (
    Mutant(
        plant=divergence_is_off_by_one, source="Raft paper §5.3 (prevLogIndex); an exclusive end taken for inclusive"
    ),
    Mutant(plant=committed_records_are_cut, source="KafkaRaftLog.truncateToEndOffset; KAFKA-18723"),
    Mutant(
        plant=followers_are_sent_too_far_back,
        source="KIP-595 §Log reconciliation; Kafka never truncates below the high watermark",
    ),
    Mutant(plant=what_was_committed_is_not_read_back, source="ours until ADR 128: 2,000 records, no line"),
    Mutant(plant=fetch_counts_before_it_is_compared, source="KIP-595 §Fetch (divergence is looked for first)"),
    Mutant(plant=batches_of_a_higher_epoch_are_appended, source="KAFKA-18723"),
    Mutant(
        plant=two_fetches_in_flight, source="ours, almost: a Fetch is also the acknowledgment, so there may only be one"
    ),
)
