"""Who doubts requests in a voter's name does not ask that voter about each of them.

Anyone can send such requests. If each of them cost a question, a stranger could use the voters to flood another one.

Two questions may leave soon after each other, if the first had to wait for its connection. The third is asked at least
a pause after the second, and the second only when the first has been answered: so a pause lies between first and third.
A leader asks by BeginQuorumEpoch, which it also sends for other reasons; this is not judged.

Source: ADR 129; `pykraft.core.on.epoch_raise`.
"""

from __future__ import annotations

from typing import Final

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, Spoken

QUESTIONS_PER_ELECTION_TIMEOUT: Final = 4


class QuestionsArePaced(Invariant):
    """No process asks a voter for its epoch three times within a quarter of the election timeout."""

    def _begin(self) -> None:
        self._asked_ms: dict[tuple[int, int], tuple[int | None, int | None]] = {}
        """By asker and voter: when its last two questions left, by its own clock."""

    def started(self, node: SimulatedNode) -> None:
        """A new process has asked nobody."""
        self._asked_ms = {key: asked_ms for key, asked_ms in self._asked_ms.items() if key[0] != node.node_id}

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Compare a question with the last but one."""
        target_id = spoken.target_id
        # Several voters may have been moved to the port of one stranger.
        if not spoken.is_question or target_id is None or target_id not in self.facts.nodes:
            return
        key, now_ms = (int(node.node_id), target_id), node.clock.instant.mono_ms
        first_ms, second_ms = self._asked_ms.get(key, (None, None))
        self._asked_ms[key] = second_ms, now_ms
        pause_ms = max(1, node.config.raft.election_timeout_ms // QUESTIONS_PER_ELECTION_TIMEOUT)
        if first_ms is not None and now_ms - first_ms < pause_ms:
            seen = f"node {node.node_id} asks {target_id} for its epoch three times in {now_ms - first_ms} ms"
            raise self.violated(f"{seen}, and should pause for {pause_ms} ms")
