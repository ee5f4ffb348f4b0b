"""The faults of a world: one module per family; each kind has a weight and is counted when it happens."""

from pykraft.sim.faults.faults import Faults

__all__ = ["Faults"]
