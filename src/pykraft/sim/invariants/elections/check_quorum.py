"""A leader that a majority does not fetch from gives up its leadership.

Clients of a leader that is cut off would wait for ever, and it would call itself the leader of a cluster that has
another one. Observers do not help it: their fetches commit nothing. A leader that is no voter any more needs a majority
without itself. A voter that still receives an answer cannot fetch before it has all of it: as long as enough of that
moves, it counts.

Source: KIP-595 §Leader progress timeout; KIP-853; KAFKA-15489; Kafka ``LeaderState.timeUntilCheckQuorumExpiration``.
"""

from __future__ import annotations

from pykraft.core.answer_pace import floor_bytes
from pykraft.core.quorum import majority_of
from pykraft.core.state import Leader
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.view import View
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import Node

FETCH_TIMEOUTS = 3
"""Two windows of 1.5 fetch timeouts: the last one that a majority filled, and the one that it did not."""
SLACK_MS = 50
LOOK_US = 10_000
"""Looking at a leader costs something, and nothing is lost when it is done a little later."""
PAUSE_US = 100_000
"""After a pause a process has so much time to take notice of it."""


class LeaderWithoutMajorityResigns(Invariant):
    """No leader leads on when a majority of the voters has not fetched from it for three fetch timeouts."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._began_ms: dict[int, int] = {}
        self._next_us: dict[int, int] = {}
        self._unsent: dict[tuple[int, int], tuple[int, int]] = {}
        """From one node to another: what was not there yet, and when enough of it was the last time (mono ms)."""

    def changed(self, node: Node, was: View, now: View) -> None:
        """Note when a leadership begins, and when it goes on with other voters."""
        if now.leads and (not was.leads or was.epoch != now.epoch or was.voters != now.voters):
            self._began_ms[int(node.node_id)] = node.clock.instant.mono_ms

    def after_event(self, node: Node, now: View) -> None:
        """Look when the voters of a leader fetched last."""
        now_us = self.facts.clock.now_us
        node_id = int(node.node_id)
        is_only = now.voters.ids == (node_id,)
        if not now.leads or is_only or now_us < self._next_us.get(node_id, 0):
            return
        self._next_us[node_id] = now_us + LOOK_US
        if node.was_paused_since(now_us - PAUSE_US):
            return
        assert node.host is not None
        assert node.host.raft is not None
        state = node.host.raft.state
        assert isinstance(state, Leader)
        began_ms = self._began_ms[node_id]
        fetched_ms = sorted(
            (
                max(began_ms, voter.fetched_mono_ms or began_ms, self._sent_ms(node, int(voter_id)))
                for voter_id, voter in state.progress.voters.items()
                if voter_id != node_id
            ),
            reverse=True,
        )
        others = majority_of(len(now.voters)) - (node_id in now.voters.ids)
        silent_ms = node.clock.instant.mono_ms - fetched_ms[others - 1]
        if silent_ms > FETCH_TIMEOUTS * node.config.raft.fetch_timeout_ms + SLACK_MS:
            seen = f"leader {node.node_id} of epoch {now.epoch} leads on"
            raise self.violated(f"{seen}, no majority has fetched from it for {silent_ms} ms")

    def _sent_ms(self, node: Node, voter_id: int) -> int:
        """When a floor of bytes had come from this leader to that voter for the last time; looks at it anew."""
        key = int(node.node_id), voter_id
        unsent_bytes = self.facts.network.unsent_between(*key)
        was_bytes, moved_ms = self._unsent.get(key, (0, 0))
        if was_bytes - unsent_bytes >= floor_bytes(node.config.raft.fetch_size_bytes_max):
            moved_ms = node.clock.instant.mono_ms
        elif unsent_bytes <= was_bytes:
            return moved_ms
        self._unsent[key] = (unsent_bytes, moved_ms)
        return moved_ms
