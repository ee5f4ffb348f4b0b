"""A leader gives up its leadership when a majority does not fetch from it.

Otherwise clients of a leader that is cut off would wait for ever, and it would still claim to lead a cluster that has
another leader. Fetches of observers do not count, because they commit nothing. A leader that is no longer a voter needs
a majority without itself. A voter that is still receiving an answer cannot fetch before it has all of it: it counts as
long as enough of the answer moves. A voter that downloads a snapshot sends FetchSnapshots, and they count, too.

Source: KIP-595 §Leader progress timeout; KIP-853; KAFKA-15489; Kafka ``LeaderState.timeUntilCheckQuorumExpiration``,
``KafkaRaftClient.handleFetchSnapshotRequest``.
"""

from __future__ import annotations

from pykraft.core.answer_pace import floor_bytes
from pykraft.core.quorum import majority_of
from pykraft.core.state import Leader
from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, Spoken, View

FETCH_TIMEOUTS = 3
"""Two windows of 1.5 fetch timeouts: the last one in which a majority fetched, and the one in which it did not."""
SLACK_MS = 50
LOOK_US = 10_000
"""Interval between two checks of a leader, which cost time; a little later is soon enough."""
PAUSE_US = 100_000
"""Time that a process has after a pause to notice it."""


class LeaderWithoutMajorityResigns(Invariant):
    """No leader stays leader if a majority of the voters fetched no records or snapshot for three fetch timeouts."""

    def _begin(self) -> None:
        self._began_ms: dict[int, int] = {}
        self._next_us: dict[int, int] = {}
        self._unsent: dict[tuple[int, int], tuple[int, int]] = {}
        """By sender and receiver: bytes that had not arrived, and when enough of them last did (mono ms)."""
        self._sliced_ms: dict[tuple[int, int], int] = {}
        """By leader and voter: when the voter asked for the newest slice of a snapshot (mono ms of the leader)."""

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Remember when a leadership begins, and when it continues with other voters."""
        if now.leads and (not was.leads or was.epoch != now.epoch or was.voters != now.voters):
            self._began_ms[int(node.node_id)] = node.clock.instant.mono_ms

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """A node that asks for a slice has just had an answer: to a Fetch, or with the slice before."""
        asked = self.facts.nodes.get(spoken.target_id or 0)
        if spoken.sliced is not None and asked is not None:
            self._sliced_ms[int(asked.node_id), int(node.node_id)] = asked.clock.instant.mono_ms

    def after_event(self, node: SimulatedNode, now: View) -> None:
        """Check when the voters of a leader last fetched."""
        now_us = self.facts.clock.now_us
        node_id = int(node.node_id)
        is_only = now.voters.ids == (node_id,)
        if not now.leads or is_only or now_us < self._next_us.get(node_id, 0):
            return
        self._next_us[node_id] = now_us + LOOK_US
        if node.was_paused_since(now_us - PAUSE_US):
            # It gives its voters the whole time again, since their Fetches may lie in its own buffers.
            self._began_ms[node_id] = node.clock.instant.mono_ms
            return
        assert node.host is not None
        assert node.host.raft is not None
        state = node.host.raft.state
        assert isinstance(state, Leader)
        began_ms = self._began_ms[node_id]
        fetched_ms = sorted(
            (
                max(
                    began_ms,
                    voter.fetched_mono_ms or began_ms,
                    self._sent_ms(node, int(voter_id)),
                    self._sliced_ms.get((node_id, int(voter_id)), began_ms),
                )
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

    def _sent_ms(self, node: SimulatedNode, voter_id: int) -> int:
        """When enough bytes from this leader last arrived at that voter; updates it."""
        key = int(node.node_id), voter_id
        unsent_bytes = self.facts.network.unsent_between(*key)
        was_bytes, moved_ms = self._unsent.get(key, (0, 0))
        if was_bytes - unsent_bytes >= floor_bytes(node.config.raft.fetch_size_bytes_max):
            moved_ms = node.clock.instant.mono_ms
        elif unsent_bytes <= was_bytes:
            return moved_ms
        self._unsent[key] = (unsent_bytes, moved_ms)
        return moved_ms
