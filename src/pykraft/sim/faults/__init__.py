"""What goes wrong in a world: one family of faults, one file; each kind with a weight, and counted when it happens."""

from pykraft.sim.faults.faults import Faults

__all__ = ["Faults"]
