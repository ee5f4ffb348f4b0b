"""A replica has one Fetch in flight at a time, because its offset is the acknowledgment.

With two of them the older one could arrive last, and acknowledge records that its sender has truncated since. A replica
forgets a Fetch that it sent in another state, or before it found damage, and does not apply its answer. It also forgets
one that timed out; but that time counts from when the Fetch was created, and it may have waited for the disk or a
connection. So the oracle relies only on the pause after a failure.

Source: ours; Kafka's ``RequestManager`` (one request in flight to a node).
"""

from __future__ import annotations

from collections import Counter

from pykraft.core.effects import EnterQuarantine, InstallSnapshot
from pykraft.sim.invariants.invariant import Invariant, Job, SimulatedNode, Spoken, View

HALF_MS_US = 500
"""Half a millisecond in microseconds: a machine's clock may be fast."""


class OneFetchInFlight(Invariant):
    """A process sends its leader no Fetch while another one, sent in the same state, waits for its answer."""

    def _begin(self) -> None:
        self._news: Counter[int] = Counter()
        self._sent: dict[int, tuple[object, int]] = {}

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Count the changes of state that make a process forget its requests."""
        if (was.role, was.epoch, was.leader_id) != (now.role, now.epoch, now.leader_id):
            self._news[int(node.node_id)] += 1

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        """A process that finds its log damaged, or replaces it, forgets its requests about the former log."""
        if isinstance(job, EnterQuarantine | InstallSnapshot):
            self._news[int(node.node_id)] += 1

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Check whether the former Fetch is still open."""
        process, status, node_id = node.process, node.status, int(node.node_id)
        if spoken.fetched is None or process is None or status is None or spoken.target_id != status.leader_id:
            return
        now_us = self.facts.clock.now_us
        state = (process, self._news[node_id], status.role, status.epoch, status.leader_id)
        known, sent_us = self._sent.get(node_id, (None, 0))
        is_open = sent_us in process.wiretap.open_fetches.values()
        if known == state and is_open and now_us - sent_us < node.config.raft.retry_backoff_ms * HALF_MS_US:
            raise self.violated(f"node {node_id} fetches at {spoken.fetched.offset} and waits for another answer still")
        self._sent[node_id] = (state, now_us)
