"""The answers that clients got are linearizable.

Clients write registers, and read them through the log: a read is a record of its own, answered from the state of the
listener at the node that accepted it. Each register must behave as if all operations took place one after the other,
each between its call and its answer; so must the offsets that appends were told. An operation without a certain answer
may have happened at any later time, or never.

Source: Herlihy and Wing 1990; Wing and Gong 1993; Lowe 2017 (the checker is `pykraft.sim.facts.linearizability`).
"""

from __future__ import annotations

from pykraft.sim.facts.history import offset_calls, register_calls
from pykraft.sim.facts.linearizability import SearchVerdict, check, offsets, register
from pykraft.sim.invariants.invariant import Invariant


class Linearizable(Invariant):
    """The history of every register, and of all offsets that clients were told, is linearizable."""

    def ended(self) -> None:
        """Check the whole history."""
        operations = self.facts.history.operations
        for key, calls in register_calls(operations).items():
            if check(calls, register) is SearchVerdict.NOT_LINEARIZABLE:
                raise self.violated(f"no order explains what clients wrote to register {key} and read from it")
        if check(offset_calls(operations), offsets) is SearchVerdict.NOT_LINEARIZABLE:
            raise self.violated("no order explains the offsets that clients were told")
