"""Leader: the only replica that appends in this epoch.

This is the only state that is not frozen: it collects what fetches tell (`Progress`) and what is to be appended
(`Accumulation`). The high watermark is unknown until a majority holds a record of its own epoch, because only that
commits records of older epochs (Raft paper §5.4.2, figure 8).

Source: KIP-595 §Leader; Kafka ``LeaderState``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from pykraft.core.leader.accumulation import Accumulation
from pykraft.core.leader.progress import Progress
from pykraft.core.leader.reads import Reads
from pykraft.core.leader.voter_change import VoterChange
from pykraft.types import Epoch, NodeId, Offset, VoterSet

OFTEN_COUNT: Final = 8
"""Advances of the high watermark in a short time that make records likely to follow soon."""


@dataclass(slots=True, kw_only=True)
class Leader:
    """Resigns at ``check_quorum_deadline_ms`` (mono) unless a majority fetched since it was last set."""

    epoch: Epoch
    leader_id: NodeId
    epoch_start_offset: Offset
    granting_voters: tuple[NodeId, ...]
    begun_ms: int = 0
    """When this leadership began (mono ms)."""
    progress: Progress
    accumulation: Accumulation
    check_quorum_deadline_ms: int
    begin_quorum_deadline_ms: int
    high_watermark: Offset | None = None
    fetched_voters: set[NodeId] = field(default_factory=set)
    """Voters that fetched since ``check_quorum_deadline_ms`` was last set."""
    resign_requested: bool = False
    """True once the application asked this leader to resign; it does so at the end of the step."""
    change: VoterChange | None = None
    """The voter change in progress (KIP-853)."""
    reads: Reads = field(default_factory=Reads)
    """Linearizable reads that wait until this leader is confirmed."""
    volatile_voters: VoterSet = field(default_factory=VoterSet)
    """At level 0: the static voters with what UpdateRaftVoter told of them; an upgrade writes it into the log."""
    advanced_ms: deque[int] = field(default_factory=lambda: deque(maxlen=OFTEN_COUNT))
    """When the high watermark advanced the last few times (mono ms), oldest first."""

    def advances_every(self, period_ms: int, now_ms: int) -> bool:
        """True when the high watermark has lately advanced at least once in such a period, on average."""
        return len(self.advanced_ms) == OFTEN_COUNT and now_ms - self.advanced_ms[0] <= OFTEN_COUNT * period_ms
