"""A second process with the id of a static voter runs for some seconds beside the real one, then it is gone for good.

Its directory is formatted or not, and it has an id of its own. Whatever it has fetched goes with it, so nothing may be
acknowledged because of it. In most cases the followers stand still for a while: then only the twin could acknowledge
what the leader appends. See `pykraft.sim.clients.twin` for what it leaves out.

Source: ours (ADR 130).
"""

from __future__ import annotations

from random import Random
from typing import Final

from pykraft.sim.clients.twin import VoterTwin
from pykraft.sim.faults.harm import Act, Harm
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.scenario.fault_kinds import TWINS

LASTS_US: Final = (300_000, 4_000_000)
LATER_US: Final = (100_000, 1_500_000)
PAUSE_US: Final = (50_000, 900_000)
PAUSES_PROBABILITY: Final = 0.6


class TwinFaults:
    """The one kind of this family."""

    def __init__(self, harm: Harm) -> None:
        self._harm = harm
        self._rng = Random(0)
        self._twin: VoterTwin | None = None
        (kind,) = TWINS
        self._kind: Final = kind
        self.kinds: dict[str, Act] = {kind: self._begin}

    def use_dice(self, rng: Random) -> None:
        """Use this generator for the coming decision."""
        self._rng = rng

    def stop(self) -> None:
        """The twin ends."""
        if self._twin is not None:
            self._twin.end()
            self._twin = None

    def _begin(self) -> bool:
        """Start a twin of a voter that has fetched from the leader, one at a time.

        Voters in the log have directory ids. Without pre-votes an unproven voter may ask for votes.
        """
        facts, rng = self._harm.facts, self._rng
        leader = facts.newest_leader()
        if self._twin is not None or leader is None or not leader.host.status.high_watermark:
            return False
        if facts.members.is_at_level_one or not facts.members.has_pre_votes:
            return False
        real = rng.choice(facts.voters())
        self._harm.hit(self._kind, real, "has a twin from now on")
        self._twin = VoterTwin(facts, real, Random(rng.random()), is_formatted=rng.random() < 0.5)
        if rng.random() < PAUSES_PROBABILITY:
            self._harm.later(rng.randint(*LATER_US), lambda: self._pause_followers(leader.node_id, rng))
        self._harm.later(rng.randint(*LASTS_US), self.stop)
        return True

    def _pause_followers(self, leader_id: int, rng: Random) -> None:
        """Let all voters but this one stand still: without the twin nothing can be acknowledged."""
        for node in self._harm.facts.voters():
            if node.node_id != leader_id:
                self._pause(node, rng.randint(*PAUSE_US))

    def _pause(self, node: SimulatedNode, duration_us: int) -> None:
        if node.process is not None and not node.process.is_paused:
            self._harm.note(node, f"stands still for {duration_us / 1e3:.0f} ms")
            node.process.pause(duration_us)
