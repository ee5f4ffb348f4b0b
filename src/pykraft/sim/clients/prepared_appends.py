"""Decides which appends of a client are only prepared, and when the client schedules them.

A client prepares a few appends in a row. Then it schedules them, or goes on with an append that is not prepared, which
schedules them too. Leaders have small buffers in these worlds, so prepared appends often fill them.

Source: Kafka's ``RaftClient.prepareAppend`` and ``schedulePreparedAppend``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from pykraft.config import NodeConfig
from pykraft.sim.machine.node import SimulatedNode

BEGIN_PROBABILITY = 0.1
"""Probability that after a call that is not prepared the next ones are."""
SCHEDULE_PROBABILITIES = (0.0, 0.3)
"""A world draws one: the probability that a client schedules its row of prepared appends at the end."""
LENGTHS = (1, 3, 10, 40)
BATCH_SIZE_BYTES_MAX = 2_048
"""Each proposal of the workload fits into one batch of this size."""
BATCHES_MAX = (1, 2, 10)


def with_small_buffers(configs: Sequence[NodeConfig], rng: Random) -> list[NodeConfig]:
    """These configurations with one draw of how much a leader accumulates."""
    batches_max = rng.choice(BATCHES_MAX)
    return [
        replace(
            config,
            raft=replace(config.raft, batch_size_bytes_max=BATCH_SIZE_BYTES_MAX, accumulated_batches_max=batches_max),
        )
        for config in configs
    ]


class PreparedAppends:
    """The prepared appends of one world; none when ``rng`` is None."""

    def __init__(self, rng: Random | None) -> None:
        self._rng = rng
        self._schedule_probability = rng.choice(SCHEDULE_PROBABILITIES) if rng is not None else 0.0
        self._left: dict[int, int] = {}

    def is_next(self, node: SimulatedNode) -> bool:
        """Whether the next append at this leader is only prepared. At the end of a row it may schedule them."""
        if self._rng is None:
            return False
        left = self._left.pop(int(node.node_id), None)
        if left:
            self._left[int(node.node_id)] = left - 1
            return True
        if left == 0 and node.host is not None and self._rng.random() < self._schedule_probability:
            node.host.schedule_prepared(node.clock.instant)
        if self._rng.random() >= BEGIN_PROBABILITY:
            return False
        self._left[int(node.node_id)] = self._rng.choice(LENGTHS) - 1
        return True
