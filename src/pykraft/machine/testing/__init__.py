"""Tests of a program's own state machine, in simulated worlds with all faults. `simulate` is what a test calls."""

from pykraft.machine.testing.simulate import MachineReport, SimulationFailedError, simulate

__all__ = ["MachineReport", "SimulationFailedError", "simulate"]
