"""Since when nothing prevents the quorum from making progress: only then do liveness oracles apply their bounds.

A world is calm when every link works at its usual speed and, in each voter set in force, a majority runs, undamaged, on
disks that answer. Any fault ends a calm; the next one begins when the fault is over.

Source: TigerBeetle's liveness mode, where a core of replicas is healthy for good; the bounds are the oracles'.
"""

from __future__ import annotations

from typing import Final

from pykraft.core.quorum import majority_of
from pykraft.sim.facts.facts import Facts
from pykraft.sim.scenario.scenario import KINDS, Scenario
from pykraft.types import Voter, VoterSet

LOOK_US: Final = 25_000
"""Interval between two looks at the whole world, which cost time; a bound may be off by this much."""
TRANSFERS: Final = 4
"""A leader sends a batch to several voters at a time, and each send may wait for as many bytes before it."""
RECORD_OVERHEAD_BYTES: Final = 100


def transfer_us(scenario: Scenario, byte_us: int) -> int:
    """How long links may take for one proposal or one whole answer, when each byte takes this long."""
    work = scenario.work
    proposed_bytes = work.values_max * (work.value_size_bytes_max + RECORD_OVERHEAD_BYTES) * work.proposals_max
    largest_bytes = max(proposed_bytes, *scenario.quorum.fetch_size_bytes_max)
    return TRANSFERS * largest_bytes * byte_us


class Calm:
    """Measures the present calm for one oracle, at most once per `LOOK_US`."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._since_us: int | None = None
        self._next_us = 0
        self._faults = 0

    def is_due(self) -> bool:
        """True when it is time for another look."""
        now_us = self._facts.clock.now_us
        if now_us < self._next_us:
            return False
        self._next_us = now_us + LOOK_US
        return True

    def lasts_us(self) -> int:
        """How long the present calm has lasted; 0 when the world is not calm."""
        now_us, counts = self._facts.clock.now_us, self._facts.counts
        faults = sum(counts[kind] for kind in KINDS)
        if faults != self._faults or not self._is_calm():
            self._faults, self._since_us = faults, None
        elif self._since_us is None:
            self._since_us = now_us
        return 0 if self._since_us is None else now_us - self._since_us

    def _is_calm(self) -> bool:
        facts = self._facts
        if facts.claims.is_posing:
            return False  # Its followers cannot tell it from the real voter, so they may stay with it.
        return facts.network.is_usual and all(self._has_majority(voters) for voters in facts.members.in_force())

    def _has_majority(self, voters: VoterSet) -> bool:
        sound = sum(self._is_sound(voter) for voter in voters.voters)
        return sound >= majority_of(len(voters))

    def _is_sound(self, voter: Voter) -> bool:
        node = self._facts.nodes[int(voter.key.id)]
        process = node.process
        return (
            process is not None
            and not process.is_paused
            and not node.is_damaged
            and node.disk.io_errors.stalled_until_us <= self._facts.clock.now_us
            and voter.key.matches(node.key)
            and voter.listeners == node.config.advertised_listeners
        )
