"""What idempotent producers sent and were told, for the oracles.

Source: KIP-98 (producer id, epoch and sequence).
"""

from __future__ import annotations

from dataclasses import dataclass

from pykraft.errors import ErrorCode
from pykraft.sim.facts.history import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerAnswer:
    """The answer to one batch that its producer still waited for."""

    node_id: int
    """The node that answered."""
    operation: Operation
    producer_id: int
    producer_epoch: int
    base_sequence: int
    error: ErrorCode
    base_offset: int
    is_next: bool
    """True when every earlier batch of this producer id and epoch was acknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedId:
    """A producer id that a node gave away."""

    node_id: int
    producer_id: int
