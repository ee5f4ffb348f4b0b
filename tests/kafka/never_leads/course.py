"""Kills Java controllers in turn, and measures how long the cluster creates no topics.

Each kill is of one of three kinds:

- the leader: the other Java controller has the whole log and can be elected with the vote of node 3;
- the follower: the leader goes on with the acknowledgements of node 3;
- both, one after the other: the follower is killed, topics are created that only the leader and node 3 hold, then the
  leader is killed and the follower comes back. Nobody may vote for its shorter log, so node 3 has to campaign.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lab.nodes.logs import Stream, read_stream, require_identical
from pykraft.local.child import wait_until
from pykraft.protocol.records import decode_control, scan
from pykraft.types import LeaderChange
from tests.kafka.broker_calls import listens
from tests.kafka.never_leads.cluster import JAVA, OURS, Cluster, Topics
from tests.processes.elections import KnownLeader, wait_for_known_leader

LEADER, FOLLOWER, BOTH = "leader", "follower", "both"
CYCLE: Final = (LEADER, BOTH, FOLLOWER)
"""Four kills."""
TOPICS_BETWEEN: Final = 3
"""Topics that are created between two kills."""
TIMEOUT_S: Final = 180.0
"""The bound of each wait for a restarted node or a topic: a JVM takes half a minute to start on a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """One kill or two, and how long no topic was created from the last of them on."""

    kind: str
    kills: int
    outage_s: float
    start_s: float
    """Part of it during which the restarted follower did not listen yet: the start of its JVM."""
    epoch: int


class Course:
    """Plays kills on a running cluster whose topics are being created."""

    def __init__(self, cluster: Cluster, topics: Topics) -> None:
        self._cluster, self._topics = cluster, topics

    def play(self, kind: str) -> Outage:
        """Kill controllers in this way, wait for a topic, and let the killed nodes catch up."""
        known = self._wait_for_leader(OURS, after_epoch=-1)
        leader_id = known.id
        follower_id, *others = (each for each in (*JAVA, OURS) if each != leader_id)
        killed = [follower_id if kind == FOLLOWER else leader_id]
        if kind == BOTH:
            self._cluster.kill(follower_id)
            self.wait_for_topics(TOPICS_BETWEEN)
            killed.append(follower_id)
        at = time.monotonic()
        self._cluster.kill(killed[0])
        start_s = 0.0
        if kind == BOTH:
            self._cluster.run(follower_id)
            port, process = self._cluster.ports[follower_id], self._cluster.processes[follower_id]
            what = f"node {follower_id} to listen"
            wait_until(lambda: listens(port), what, alive=[process], timeout_s=TIMEOUT_S)
            start_s = time.monotonic() - at
        outage_s = self.wait_for_topics(1, since=at) - at
        after = self._wait_for_leader(others[0], after_epoch=known.epoch - (kind == FOLLOWER))
        self._cluster.run(killed[0])
        self._wait_for_catch_up(killed, others[0])
        self.wait_for_topics(TOPICS_BETWEEN)
        return Outage(kind=kind, kills=len(killed), outage_s=outage_s, start_s=start_s, epoch=after.epoch)

    def wait_for_topics(self, count: int, *, since: float | None = None) -> float:
        """Wait until so many topics were created since then, or from now on; returns when the first one was.

        Both are monotonic seconds.
        """
        at = time.monotonic() if since is None else since
        alive = list(self._cluster.processes.values())
        running = [process for process in alive if process.status is None]

        def first() -> float | None:
            found = [when for when in self._topics.created if when > at]
            return found[0] if len(found) >= count else None

        what = f"{count} topics; refused were {self._topics.refused[-3:]}"
        return wait_until(first, what, alive=running, timeout_s=TIMEOUT_S)

    def _wait_for_leader(self, witness_id: int, *, after_epoch: int) -> KnownLeader:
        """Wait until this node knows a leader that can create topics: a pykraft node leads for a moment only."""
        partition, process = self._cluster.partition(witness_id), self._cluster.processes[witness_id]
        known = wait_for_known_leader(partition, process, after_epoch=after_epoch)
        is_brief = known.id == OURS and self._cluster.has_pykraft
        return self._wait_for_leader(witness_id, after_epoch=known.epoch) if is_brief else known

    def _wait_for_catch_up(self, node_ids: Sequence[int], witness_id: int) -> None:
        end_offset = self._cluster.end_offset(witness_id)
        alive = [self._cluster.processes[node_id] for node_id in node_ids]

        def have_caught_up() -> bool:
            return all(self._cluster.end_offset(node_id) >= end_offset for node_id in node_ids)

        what = f"nodes {node_ids} to hold {end_offset} records"
        wait_until(have_caught_up, what, alive=alive, timeout_s=TIMEOUT_S)


def led_by(node_id: int, stream: Stream, *, never_leads: bool = True) -> int:
    """How many epochs of this log the node led.

    Errors: AssertionError if it wrote more than its LeaderChange, although it ``never_leads``.
    """
    leaders: dict[int, int] = {}
    for position, header in scan(stream.data):
        batch = memoryview(stream.data)[position : position + header.size_bytes]
        records = decode_control(batch) if header.is_control else []
        if header.epoch not in leaders:
            (change,) = records[:1]
            assert isinstance(change, LeaderChange)
            leaders[header.epoch] = change.leader_id
            more = len(records) - 1
        else:
            more = header.end_offset - header.base_offset
        is_brief = not never_leads or leaders[header.epoch] != node_id or not more
        assert is_brief, f"node {node_id} wrote {more} records in {header.epoch}"
    return sum(leader == node_id for leader in leaders.values())


def compare_logs(cluster: Cluster) -> Stream:
    """Require that the three logs are the same up to the shortest one's end; returns that of node 3."""
    streams = {f"node {node_id}": read_stream(cluster.partition(node_id)) for node_id in (*JAVA, OURS)}
    require_identical(streams, end_offset=min(stream.end_offset for stream in streams.values()))
    return streams[f"node {OURS}"]
