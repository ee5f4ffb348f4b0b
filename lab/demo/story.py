"""The data of one run of the demo that a report shows.

Invariant: times are wall ms of the one machine on which everything ran, so they share one axis; `seconds_since_begin`
makes them relative. `lab.demo.report` draws them.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.demo.live_tables import MicroBatch
from lab.demo.options import DemoOptions
from lab.demo.result import Result
from pykraft.client.journal import Acknowledged
from pykraft.local.sampler import QuorumSample


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A leader that was killed with kill -9, and the fail-over; times in wall ms."""

    node_id: int
    killed_wall_ms: int
    leader_id: int
    """The node that took over, in ``epoch``."""
    epoch: int
    elected_wall_ms: int
    """When that node reported its leadership: its LeaderChange was committed."""
    acknowledged_wall_ms: int
    """When it acknowledged its first records."""
    restarted_wall_ms: int | None
    """When the killed node was restarted; None if it was not."""

    @property
    def failover_ms(self) -> int:
        """From the kill to the first acknowledgement by another node."""
        return self.acknowledged_wall_ms - self.killed_wall_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One run. ``begin_wall_ms`` and ``end_wall_ms`` are those of the load."""

    options: DemoOptions
    begin_wall_ms: int
    end_wall_ms: int
    acknowledged: tuple[Acknowledged, ...]
    """The acknowledgements in the order of the journal."""
    samples: tuple[QuorumSample, ...]
    batches: tuple[MicroBatch, ...]
    kills: tuple[Kill, ...]
    result: Result

    def seconds_since_begin(self, wall_ms: float) -> float:
        """A time on the axis of the run."""
        return (wall_ms - self.begin_wall_ms) / 1_000
