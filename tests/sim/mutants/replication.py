"""Bugs of replication: logs that are compared or cut in the wrong place, and records that should not be there."""

from __future__ import annotations

from typing import Any

from pykraft.core.connections import Connections
from pykraft.core.events import RequestReceived
from pykraft.core.log_view import LogView
from pykraft.core.messages import FetchedBatch, FetchRequest
from pykraft.core.on import fetch_request, fetch_response
from pykraft.core.outbox import Relies
from pykraft.core.replica import Replica
from pykraft.core.serving import serve
from pykraft.core.state import Leader
from pykraft.host.connections import DialedConnection
from pykraft.host.fetch_read import FetchReads
from pykraft.host.peers import Peers
from pykraft.types import Instant, Offset, OffsetAndEpoch
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch


def divergence_is_off_by_one(patch: Patch) -> None:
    """A follower with one record too many of an old epoch passes for a prefix."""

    def diverging_from(self: LogView, offset: Offset, last_epoch: Any) -> OffsetAndEpoch | None:
        end = self.end_of_epoch(last_epoch)
        return None if not offset or (end.epoch == last_epoch and end.offset + 1 >= offset) else end

    patch.setattr(LogView, "diverging_from", diverging_from)


def committed_records_are_cut(patch: Patch) -> None:
    """A leader sends followers too far back, and a follower cuts its log below its high watermark."""
    diverging_from, truncate = LogView.diverging_from, fetch_response._truncate

    def too_far(self: LogView, offset: Offset, last_epoch: Any) -> OffsetAndEpoch | None:
        end = diverging_from(self, offset, last_epoch)
        return None if end is None else OffsetAndEpoch(Offset(max(0, end.offset - 10)), end.epoch)

    def unguarded(replica: Replica, diverging: OffsetAndEpoch) -> None:
        replica.log.committed_end_offset = replica.log.start_offset
        truncate(replica, diverging)

    patch.setattr(LogView, "diverging_from", too_far)
    patch.setattr(fetch_response, "_truncate", unguarded)


def fetch_counts_before_it_is_compared(patch: Patch) -> None:
    """The leader counts the offset of every Fetch, also of a log that has other records there."""
    on_fetch_request = fetch_request.on_fetch_request

    def on_request(replica: Replica, event: RequestReceived, message: FetchRequest, now: Instant) -> None:
        leader, key = replica.state, message.replica
        is_other = replica.log.diverging_from(message.fetch_offset, message.last_fetched_epoch) is not None
        if isinstance(leader, Leader) and message.epoch == leader.epoch and key is not None and is_other:
            fetch_request._note(replica, leader, key, min(message.fetch_offset, replica.log.end_offset), now)
        on_fetch_request(replica, event, message, now)

    patch.everywhere(on_fetch_request, on_request)


def batches_of_a_higher_epoch_are_appended(patch: Patch) -> None:
    """A leader that lost its place sends what its new log holds, and the follower appends records of a later epoch.

    Two rules cover for each other: a read that a truncation overtakes is not sent, and a follower looks at the epochs.
    """

    def valid_prefix(batches: tuple[FetchedBatch, ...], end: OffsetAndEpoch, replica: Replica) -> tuple[Any, ...]:
        del replica
        next_offset = end.offset
        for count, batch in enumerate(batches):
            if batch.base_offset != next_offset or batch.epoch < end.epoch:
                return batches[:count]
            next_offset = batch.end_offset
        return batches

    patch.setattr(fetch_response, "valid_prefix", valid_prefix)
    patch.setattr(FetchReads, "truncated", lambda self: None)
    patch.setattr(LogView, "append", _append_anything)


def two_fetches_in_flight(patch: Patch) -> None:
    """A follower fetches again whenever something happens, though its last Fetch waits for an answer."""
    patch.setattr(Connections, "has_in_flight", property(lambda self: False))
    patch.setattr(Connections, "is_ready", lambda self, peer_id: peer_id not in self._backing_off)


def leader_serves_before_it_is_durable(patch: Patch) -> None:
    """A new leader sends its first records before its disk knows that it leads, and may lead the epoch anew."""

    def early(replica: Replica, *given: Any) -> None:
        send = replica.outbox.send
        replica.outbox.send = lambda effect, relies: send(effect, Relies.EPOCH)  # type: ignore[method-assign]
        serve(replica, *given)
        replica.outbox.send = send  # type: ignore[method-assign]

    patch.everywhere(serve, early)


def late_answers_are_applied(patch: Patch) -> None:
    """The correlation id is ignored: the late answer to a question that was given up is taken for that of the next."""
    patch.setattr(Peers, "_is_spent", lambda self, link, effect, now: link.endpoint != effect.peer.endpoint)
    patch.setattr(Connections, "received", lambda self, peer_id, correlation_id: self._in_flight.pop(peer_id, True))
    patch.setattr(DialedConnection, "is_ready", property(lambda self: self.is_negotiated and self._awaited is None))


def _append_anything(self: LogView, *, base_offset: Offset, end_offset: Offset, epoch: Any) -> None:
    self._epochs.assign(epoch, base_offset)
    self.end_offset = end_offset


MUTANTS = (
    Mutant(
        plant=divergence_is_off_by_one, source="Raft paper §5.3 (prevLogIndex); an exclusive end taken for inclusive"
    ),
    Mutant(plant=committed_records_are_cut, source="KafkaRaftLog.truncateToEndOffset; KAFKA-18723"),
    Mutant(plant=fetch_counts_before_it_is_compared, source="KIP-595 §Fetch (divergence is looked for first)"),
    Mutant(plant=batches_of_a_higher_epoch_are_appended, source="KAFKA-18723"),
    Mutant(plant=two_fetches_in_flight, source="ours, nearly: one Fetch at a time is the acknowledgment"),
    Mutant(plant=leader_serves_before_it_is_durable, source="ours: etcd raft/doc.go leaves it to the caller"),
    Mutant(plant=late_answers_are_applied, source="KAFKA-14238; Kafka RequestManager (correlation ids)"),
)
