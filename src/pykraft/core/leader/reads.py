"""Linearizable reads that wait until this leader is confirmed. Data only: see ``core.on.read``.

Source: Raft dissertation §6.4; ours (ADR 069).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pykraft.types import NodeId, Offset

READS_MAX: Final = 10_000
"""Reads that wait at one time; one more is refused."""


@dataclass(slots=True, kw_only=True)
class ReadRound:
    """One round of confirmations for all reads that waited when it began.

    The reads see everything below ``offset``. ``asked`` are the newest requests of this round by voter; an answer to an
    older request confirms nothing, because its voter may have sent it before the reads came.
    """

    handles: tuple[int, ...]
    offset: Offset
    asked: dict[NodeId, int] = field(default_factory=dict)
    confirmed: set[NodeId] = field(default_factory=set)


@dataclass(slots=True)
class Reads:
    """The reads of one leader."""

    waiting: list[int] = field(default_factory=list)
    """Handles of reads for the next round."""
    round: ReadRound | None = None

    @property
    def handles(self) -> list[int]:
        """All reads that have no answer."""
        return [*(() if self.round is None else self.round.handles), *self.waiting]
