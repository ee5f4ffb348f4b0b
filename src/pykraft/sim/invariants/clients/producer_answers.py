"""A producer is told that a batch is in the log when it is committed, where it is, and no error without a reason.

A batch that follows the last acknowledged one is never out of order, and the newest epoch of a producer is never an old
one. A producer may be unknown where nodes remember few, or where a snapshot has replaced the batches by which they
would know it. `AcknowledgedIsCommitted` compares the offsets.

Source: KIP-98, KIP-360; Kafka's ``ProducerStateManager``; ours (ADR 076).
"""

from __future__ import annotations

from typing import Final

from pykraft.errors import ErrorCode
from pykraft.sim.invariants.invariant import Invariant, IssuedId, ProducerAnswer

NEVER: Final = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_RECORD,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.INVALID_REQUIRED_ACKS,
)
"""No answer to a correct batch, which its producer still waits for."""


class ProducersAreToldTheTruth(Invariant):
    """Producers get ids of their own, acknowledgments of committed batches, and errors only for a reason."""

    def _begin(self) -> None:
        self._ids: set[int] = set()

    def id_issued(self, issued: IssuedId) -> None:
        """Compare with all ids that were issued before."""
        if issued.producer_id in self._ids:
            raise self.violated(f"node {issued.node_id} issues producer id {issued.producer_id} once more")
        self._ids.add(issued.producer_id)

    def produced(self, answer: ProducerAnswer) -> None:
        """Judge one answer."""
        batch = f"sequence {answer.base_sequence} of epoch {answer.producer_epoch} of producer {answer.producer_id}"
        seen = f"node {answer.node_id} answers {answer.error.name} to {batch}"
        committed_end = self.facts.committed.end_offset
        if answer.error == ErrorCode.NONE:
            end_offset = answer.base_offset + len(answer.operation.values)
            if end_offset > committed_end:
                raise self.violated(f"{seen}, at offset {answer.base_offset}; all below {committed_end} is committed")
        elif answer.error in NEVER:
            raise self.violated(seen)
        elif answer.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and answer.is_next:
            raise self.violated(f"{seen}, the next one after what was acknowledged")
        elif answer.error == ErrorCode.UNKNOWN_PRODUCER_ID and not self._may_be_unknown:
            raise self.violated(f"{seen}, and no node has forgotten any")

    @property
    def _may_be_unknown(self) -> bool:
        remembered_max = min(node.config.client_producers_max for node in self.facts.nodes.values())
        return bool(self.facts.records_between) or len(self._ids) > remembered_max
