"""Clock faults: a monotonic clock that runs fast or slow, a wall clock that jumps forward or back.

Source: Jepsen's clock nemesis; NTP steps and slews. Monotonic clocks never go back (POSIX CLOCK_MONOTONIC).
"""

from __future__ import annotations

from pykraft.sim.faults.harm import Act, Harm
from pykraft.sim.machine.clock import TRUE_RATE_PPM


class ClockFaults:
    """The kinds of clock faults."""

    def __init__(self, harm: Harm) -> None:
        self._harm = harm
        self.kinds: dict[str, Act] = {"clock skew": self._skew, "clock jump": self._jump}

    def stop(self) -> None:
        """Correct all clocks."""
        for node in self._harm.facts.nodes.values():
            node.clock.set_right()

    def _skew(self) -> bool:
        node, most = self._harm.any_node(), int(self._harm.pace.skew_max * TRUE_RATE_PPM)
        off_ppm = self._harm.rng.randint(-most, most)
        self._harm.hit("clock skew", node, f"has a clock that is {off_ppm / 1e4:+.1f} % off")
        node.clock.go_at(TRUE_RATE_PPM + off_ppm)
        return True

    def _jump(self) -> bool:
        node = self._harm.any_node()
        jump_ms = self._harm.within(self._harm.pace.wall_jump_ms_max) * self._harm.rng.choice((-1, 1))
        self._harm.hit("clock jump", node, f"has its wall clock set by {jump_ms:+} ms")
        node.clock.jump(jump_ms)
        return True
