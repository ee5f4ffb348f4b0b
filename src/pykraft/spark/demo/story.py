"""The story of one run of the demo: what a report draws and says, as values.

Owns no measurement: whoever runs the demo puts in what was seen. Invariant: times are wall ms of the one machine on
which all ran, so that they can be drawn on one axis; what is relative is made so by `seconds_since_begin`. It refuses
to know how it is drawn (`pykraft.spark.demo.report`).
"""

from __future__ import annotations

from dataclasses import dataclass

from pykraft.client.journal import Acknowledged
from pykraft.local.sampler import QuorumSample
from pykraft.spark.demo.live_tables import MicroBatch
from pykraft.spark.demo.options import DemoOptions
from pykraft.spark.demo.result import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A leader that was killed with -9, and what came of it; times in wall ms."""

    node_id: int
    killed_wall_ms: int
    leader_id: int
    """The node that took over, in ``epoch``."""
    epoch: int
    elected_wall_ms: int
    """When that node said that it leads: its LeaderChange was committed."""
    acknowledged_wall_ms: int
    """When it acknowledged its first records."""
    restarted_wall_ms: int | None
    """When the killed node was started again; None if it was not."""

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
    """The journal's, in the order in which it heard them."""
    samples: tuple[QuorumSample, ...]
    batches: tuple[MicroBatch, ...]
    kills: tuple[Kill, ...]
    result: Result

    def seconds_since_begin(self, wall_ms: float) -> float:
        """A time on the axis of the run."""
        return (wall_ms - self.begin_wall_ms) / 1_000
