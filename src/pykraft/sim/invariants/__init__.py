"""What must hold after every event of a world: one invariant, one file, one source.

Each is told of what happens (`Invariant`) and raises `ViolationError`; none changes anything in the world.
"""

from __future__ import annotations

from pykraft.sim.invariants.committed import CommittedOnce
from pykraft.sim.invariants.durable import PersistedIsDurable
from pykraft.sim.invariants.high_watermark import MajorityHoldsHighWatermark, MonotonicHighWatermark
from pykraft.sim.invariants.invariant import Invariant, ViolationError
from pykraft.sim.invariants.log_start import LogStartIsSnapshot
from pykraft.sim.invariants.monotonic_epoch import MonotonicEpoch
from pykraft.sim.invariants.single_leader import SingleLeader
from pykraft.sim.invariants.vote import OneVote

ALL: tuple[type[Invariant], ...] = (
    MonotonicHighWatermark,
    MonotonicEpoch,
    MajorityHoldsHighWatermark,
    SingleLeader,
    OneVote,
    PersistedIsDurable,
    LogStartIsSnapshot,
    CommittedOnce,
)

__all__ = ["ALL", "Invariant", "ViolationError"]
