"""One Fetch of a replica is in flight at a time, since its offset is the acknowledgment.

With two of them an older one could arrive last, and speak of a log that its sender has cut since. A Fetch that was sent
in another state, or before damage was found, is forgotten, and its answer is not applied. So is one that timed out; but
the time counts from when it was asked for, and it may have waited for the disk or a connection until shortly before.
What is certain is the pause after a failure.

Source: ours; Kafka's ``RequestManager`` (one request in flight to a node).
"""

from __future__ import annotations

from collections import Counter

from pykraft.log.lane import BeginAnew, Job, WriteQuarantine
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.view import View
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import Node
from pykraft.sim.machine.spoken import Spoken

HALF_MS_US = 500
"""Half a millisecond in microseconds: a machine's clock may be fast."""


class OneFetchInFlight(Invariant):
    """No Fetch leaves for the leader while another one of the same process, in the same state, waits for its answer."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._news: Counter[int] = Counter()
        self._sent: dict[int, tuple[object, int]] = {}

    def changed(self, node: Node, was: View, now: View) -> None:
        """Count what makes a process forget its questions."""
        if (was.role, was.epoch, was.leader_id) != (now.role, now.epoch, now.leader_id):
            self._news[int(node.node_id)] += 1

    def submitted(self, node: Node, job: Job) -> None:
        """Who finds its log damaged, or replaces it, forgets its questions: they spoke of a log that is gone."""
        if isinstance(job, WriteQuarantine | BeginAnew):
            self._news[int(node.node_id)] += 1

    def before_send(self, node: Node, spoken: Spoken) -> None:
        """Look whether the one before is still open."""
        process, host, node_id = node.process, node.host, int(node.node_id)
        if spoken.fetched is None or process is None or host is None or spoken.target_id != host.leader_id:
            return
        now_us = self.facts.clock.now_us
        state = (process, self._news[node_id], host.role, host.epoch, host.leader_id)
        known, sent_us = self._sent.get(node_id, (None, 0))
        is_open = sent_us in process.wiretap.open_fetches.values()
        if known == state and is_open and now_us - sent_us < node.config.raft.retry_backoff_ms * HALF_MS_US:
            raise self.violated(f"node {node_id} fetches at {spoken.fetched.offset} and waits for another answer still")
        self._sent[node_id] = (state, now_us)
