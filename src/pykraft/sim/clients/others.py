"""The clients of a world besides its workload: a visitor, and idempotent producers.

Each has a random generator of its own, so a world without them is the same as before they existed.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from pykraft.sim.clients.producer import SimulatedProducer
from pykraft.sim.clients.visitor import Visitor
from pykraft.sim.clients.witness import Witness
from pykraft.sim.facts.facts import Facts


class OtherClients:
    """The visitor and the producers of one world."""

    def __init__(self, facts: Facts, witness: Witness, dice: Callable[[str], Random], *, producer_count: int) -> None:
        """``dice`` returns the random generator of the named part of the world."""
        self.visitor = Visitor(facts, witness, dice("visitor"))
        self.producers = [
            SimulatedProducer(facts, witness, dice(f"producer {index}"), index) for index in range(producer_count)
        ]
        self._faults_us = facts.scenario.course.faults_us

    def begin(self) -> None:
        """Schedule what they do first."""
        self.visitor.begin()
        for producer in self.producers:
            producer.begin()

    @property
    def are_served(self) -> bool:
        """True when each producer has got an acknowledgment since the faults ended."""
        return all(each.acknowledged_us > self._faults_us for each in self.producers)
