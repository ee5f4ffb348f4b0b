"""Which appends of a client are only prepared, and when it schedules them: never, or now and then.

A client prepares up to so many appends in a row. Then it schedules them, or goes on with an append that is not
prepared, which has to schedule them too. Leaders have small buffers here, so what is prepared often fills them.

Source: Kafka's ``RaftClient.prepareAppend`` and ``schedulePreparedAppend``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from pykraft.config import NodeConfig
from pykraft.sim.machine.node import Node

BEGIN_PROBABILITY = 0.1
"""Of each call that is not prepared: that the next ones are."""
SCHEDULE_PROBABILITIES = (0.0, 0.3)
"""One of them is that of each end of a row: that it is scheduled."""
LENGTHS = (1, 3, 10, 40)
BATCH_SIZE_BYTES_MAX = 2_048
"""Each proposal of the workload fits into one batch of this size."""
BATCHES_MAX = (1, 2, 10)


def with_small_buffers(configs: Sequence[NodeConfig], rng: Random) -> list[NodeConfig]:
    """The same with one draw of how much a leader accumulates."""
    batches_max = rng.choice(BATCHES_MAX)
    return [
        replace(
            config,
            raft=replace(config.raft, batch_size_bytes_max=BATCH_SIZE_BYTES_MAX, accumulated_batches_max=batches_max),
        )
        for config in configs
    ]


class PreparedAppends:
    """The clients of one world; ``rng`` None: they prepare nothing."""

    def __init__(self, rng: Random | None) -> None:
        self._rng = rng
        self._schedule_probability = rng.choice(SCHEDULE_PROBABILITIES) if rng is not None else 0.0
        self._left: dict[int, int] = {}

    def is_next(self, node: Node) -> bool:
        """Whether the next append at this leader is only prepared; schedules what was prepared when it is time."""
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
