"""Rules of leaders: one in an epoch, named alike by all, holding on and giving up in time."""

from collections.abc import Iterable, Sequence
from typing import Final

from pykraft.core.answer_pace import floor_bytes
from pykraft.core.quorum import majority_of
from pykraft.core.state import Leader
from pykraft.sim.facts.facts import FORGER_ID
from pykraft.sim.invariants.invariant import Invariant, KeptLeader, Report, SimulatedNode, Spoken, View
from pykraft.types import NodeId, ReplicaKey, ReportKind

ANNOUNCED_TIMEOUTS: Final = 4
"""Half a fetch timeout is the period; a request without an answer, and the pause after it, add to that."""
ANNOUNCED_PERIOD_US: Final = 50_000
US_PER_MS: Final = 1_000


class SilentVotersAreTold(Invariant):
    """Within a few fetch timeouts a leader tries to reach each voter that does not fetch from it.

    A voter that was down or cut off during the election may have no other way to find the leader, and does not vote
    meanwhile.

    Source: KIP-595 §BeginQuorumEpoch (sent again to voters that have not fetched); KIP-853.
    """

    def _begin(self) -> None:
        self._tried_us: dict[tuple[int, int], int] = {}
        self._led_since_us: dict[int, int] = {}
        self._next_us: dict[int, int] = {}

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        if now.leads and (not was.leads or was.epoch != now.epoch or was.voters != now.voters):
            self._led_since_us[int(node.node_id)] = self.facts.clock.now_us

    def dialed(self, node: SimulatedNode, target_id: int) -> None:
        self._tried_us[int(node.node_id), target_id] = self.facts.clock.now_us

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        if spoken.target_id is not None:
            self._tried_us[int(node.node_id), spoken.target_id] = self.facts.clock.now_us

    def after_event(self, node: SimulatedNode, now: View) -> None:
        now_us, node_id = self.facts.clock.now_us, int(node.node_id)
        if not now.leads or now_us < self._next_us.get(node_id, 0):
            return
        self._next_us[node_id] = now_us + ANNOUNCED_PERIOD_US
        bound_ms = ANNOUNCED_TIMEOUTS * node.config.raft.fetch_timeout_ms
        since_us = now_us - bound_ms * US_PER_MS
        is_new = self._led_since_us[node_id] > since_us
        if is_new or node.was_paused_since(since_us) or node.disk.io_errors.stalled_until_us > since_us:
            return
        assert node.host is not None
        assert node.host.raft is not None
        state = node.host.raft.state
        assert isinstance(state, Leader)
        for voter_id, voter in state.progress.voters.items():
            if any(endpoint.port == FORGER_ID for _, endpoint in now.voters.listeners(voter_id)):
                continue  # a stranger said so, while the voter was down
            heard_ms = voter.fetched_mono_ms
            is_silent = heard_ms is None or node.clock.instant.mono_ms - heard_ms > bound_ms
            if voter_id != node_id and is_silent and self._tried_us.get((node_id, int(voter_id)), 0) < since_us:
                seen = f"leader {node_id} of epoch {now.epoch} has not tried to reach voter {voter_id}"
                raise self.violated(f"{seen} for {bound_ms} ms, which is silent")


SILENT_TIMEOUTS = 3
"""Two windows of 1.5 fetch timeouts: the last one in which a majority fetched, and the one in which it did not."""
SLACK_MS = 50
SILENCE_PERIOD_US = 10_000
"""Interval between two checks of a leader, which cost time; a little later is soon enough."""
PAUSE_US = 100_000
"""Time that a process has after a pause to notice it."""


class LeaderWithoutMajorityResigns(Invariant):
    """No leader stays leader if a majority of the voters fetched no records or snapshot for three fetch timeouts.

    Otherwise clients of a leader that is cut off would wait for ever, and it would still claim to lead a cluster
    that has another leader. Fetches of observers do not count, because they commit nothing. A leader that is no
    longer a voter needs a majority without itself. A voter that is still receiving an answer cannot fetch before it
    has all of it: it counts as long as enough of the answer moves. A voter that downloads a snapshot sends
    FetchSnapshots, and they count, too.

    Source: KIP-595 §Leader progress timeout; KIP-853; KAFKA-15489; Kafka
    ``LeaderState.timeUntilCheckQuorumExpiration``, ``KafkaRaftClient.handleFetchSnapshotRequest``.
    """

    def _begin(self) -> None:
        self._began_ms: dict[int, int] = {}
        self._next_us: dict[int, int] = {}
        self._unsent: dict[tuple[int, int], tuple[int, int]] = {}
        """By sender and receiver: bytes that had not arrived, and when enough of them last did (mono ms)."""
        self._sliced_ms: dict[tuple[int, int], int] = {}
        """By leader and voter: when the voter asked for the newest slice of a snapshot (mono ms of the leader)."""

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        if now.leads and (not was.leads or was.epoch != now.epoch or was.voters != now.voters):
            self._began_ms[int(node.node_id)] = node.clock.instant.mono_ms

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        asked = self.facts.nodes.get(spoken.target_id or 0)
        if spoken.sliced is not None and asked is not None:
            self._sliced_ms[int(asked.node_id), int(node.node_id)] = asked.clock.instant.mono_ms

    def after_event(self, node: SimulatedNode, now: View) -> None:
        now_us = self.facts.clock.now_us
        node_id = int(node.node_id)
        is_only = now.voters.ids == (node_id,)
        if not now.leads or is_only or now_us < self._next_us.get(node_id, 0):
            return
        self._next_us[node_id] = now_us + SILENCE_PERIOD_US
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
        if silent_ms > SILENT_TIMEOUTS * node.config.raft.fetch_timeout_ms + SLACK_MS:
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


class GoodbyesAreHeeded(Invariant):
    """No voter that may campaign still follows a leader that has sent it EndQuorumEpoch and denies that it leads.

    A leader that was restarted knows nobody's log, so it names no successors. No other voter would campaign
    earlier, so while this one waits there is no leader. Anyone can send the request; the leader's own answer
    confirms it (ADR 129).

    Source: KIP-595 §EndQuorumEpoch; Kafka ``KafkaRaftClient.endEpochElectionBackoff`` (no successors: no back-off).
    """

    def _begin(self) -> None:
        self._heeded: dict[int, int] = {}
        """How many such requests each process has heeded: it campaigned, or has another leader."""

    def started(self, node: SimulatedNode) -> None:
        self._heeded.pop(int(node.node_id), None)

    def after_event(self, node: SimulatedNode, now: View) -> None:
        process, status, node_id = node.process, node.status, int(node.node_id)
        departures = process.wiretap.departures if process is not None else []
        if len(departures) <= self._heeded.get(node_id, 0):
            return
        told = departures[-1]
        is_of_leader = (told.epoch, told.leader_id) == (now.epoch, now.leader_id) and now.role == "follower"
        # While the follower hears its leader, the request alone proves nothing.
        if is_of_leader and now.has_fetched:
            return
        self._heeded[node_id] = len(departures)
        # A voter that never leads leaves the next election to the others, and grants pre-votes from now on.
        is_fit = status is not None and status.is_proven and not node.is_damaged and not node.config.raft.never_leads
        may_campaign = is_fit and process is not None and not process.is_leaving
        if is_of_leader and may_campaign and not told.has_successors and told.leader_id in now.voters.ids:
            seen = f"node {node_id} waits, though {told.leader_id} leads epoch {told.epoch} no more"
            raise self.violated(f"{seen} and names no successor")


class LeaderIsDurableFirst(Invariant):
    """No answer to a Vote names its sender as the leader of an epoch that a power loss now would not leave it.

    A leader that loses power before its election is durable becomes a candidate of the same epoch again, and may
    win again. A node that had heard of it before would then follow two leaders of one epoch.

    Source: Raft paper §5.1 (stable storage before responding); KIP-595 §Vote (the answer names the leader).
    """

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        if spoken.leader_id != int(node.node_id):
            return
        durable = self.facts.platters.election(node)
        # In a later epoch it can lead the one it names no more, so nobody can follow another leader there.
        if durable.epoch <= spoken.epoch and (durable.epoch, durable.leader_id) != (spoken.epoch, spoken.leader_id):
            seen = f"node {node.node_id} says that it leads epoch {spoken.epoch}"
            raise self.violated(f"{seen}, its disk knows leader {durable.leader_id} of epoch {durable.epoch}")


class SingleLeader(Invariant):
    """No two nodes are leader of the same epoch, in the memory or on the disk of any node.

    Source: Raft paper §5.2 (Election Safety); Kafka ``RaftEventSimulationTest.SingleLeader``; ElectionSafety of
    Vanlightly's specification of KRaft.
    """

    def _begin(self) -> None:
        self._leaders: dict[int, int] = {}

    def changed(self, _node: SimulatedNode, _was: View, now: View) -> None:
        for epoch, leader_id in ((now.epoch, now.leader_id), (now.disk.epoch, now.disk.leader_id)):
            # Whoever only heard of a leader that is none follows the real one as soon as that answers.
            claims = self.facts.claims
            if leader_id is None or epoch in claims.led or (epoch, leader_id) in claims.misnamed:
                continue
            known = self._leaders.setdefault(epoch, leader_id)
            if known != leader_id:
                raise self.violated(f"epoch {epoch} has leaders {known} and {leader_id}")


class StableLeadership(KeptLeader):
    """No node becomes a candidate if a majority has heard the leader since the node began to ask for pre-votes.

    The leader of an epoch, and the nodes that have fetched from it, deny pre-votes (`KeptLeader`).

    Source: KIP-996; Kafka ``RaftEventSimulationTest.StableLeadership`` (star partitions), made general as
    KAFKA-18439 asks.
    """

    _verb = "heard"

    def _holds(self, now: View) -> bool:
        return now.leads or now.has_fetched

    def _deniers(self, holding: Sequence[int], epoch: int, began: int) -> Iterable[int]:
        del epoch, began
        return holding


class TransferLeavesNothing(Invariant):
    """A leader that resigns for another voter has nothing uncommitted, and the other voter lacks nothing.

    Then the other voter wins any election, and no client is left with an unknown outcome by the transfer. The
    leader reports the voter it resigns for; the offset of that voter's last Fetch tells what it has.

    Source: Raft dissertation §3.10 (leadership transfer extension).
    """

    def _begin(self) -> None:
        self._asked: dict[ReplicaKey, tuple[int, int]] = {}
        """Epoch and offset of the last Fetch of each disk."""

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        if spoken.fetched is not None:
            self._asked[node.key] = (spoken.epoch, spoken.fetched.offset)

    def reported(self, node: SimulatedNode, report: Report) -> None:
        if report.kind is not ReportKind.RESIGNED_FOR_TARGET or node.status is None:
            return
        epoch, target_id = report.values
        voter = self.facts.members.voters_of(node).voters
        keys = [each.key for each in voter if each.key.id == target_id]
        known = next((offset for key, offset in self._asked.items() if any(each.matches(key) for each in keys)), (0, 0))
        end_offset = self.facts.ledger(node).end_offset
        committed = node.status.committed_end_offset
        if known != (epoch, end_offset) or committed != end_offset:
            seen = f"leader {node.node_id} of epoch {epoch} resigns for {target_id} at {end_offset}"
            raise self.violated(f"{seen}, of which that one has {known[1]}, and {committed} is committed")


REST_FACTOR: Final = 9


class TransferPausesAreShort(Invariant):
    """No leader begins a transfer to a voter that was silent for a fetch timeout, or too soon after one that failed.

    It accepts no proposals while it transfers its leadership. So it rejects a target that has been silent for long,
    and after a failed transfer it accepts proposals for nine times as long as that one took: repeated requests take
    at most a tenth of its time.

    Source: ours (ADR 030); Raft dissertation §3.10 (a transfer is given up after an election timeout).
    """

    def _begin(self) -> None:
        self._begun_ms: dict[int, int] = {}
        self._rests_ms: dict[int, int] = {}

    def started(self, node: SimulatedNode) -> None:
        self._begun_ms.pop(int(node.node_id), None)
        self._rests_ms.pop(int(node.node_id), None)

    def reported(self, node: SimulatedNode, report: Report) -> None:
        node_id, now_ms = int(node.node_id), node.clock.instant.mono_ms
        if report.kind is ReportKind.TRANSFER_BEGUN:
            self._check(node, report.values[0], now_ms)
            self._begun_ms[node_id] = now_ms
        elif report.kind is ReportKind.TRANSFER_FAILED and node_id in self._begun_ms:
            self._rests_ms[node_id] = now_ms + REST_FACTOR * (now_ms - self._begun_ms.pop(node_id))

    def _check(self, node: SimulatedNode, target_id: int, now_ms: int) -> None:
        who = f"leader {node.node_id} begins a transfer to node {target_id}"
        rest_ms = self._rests_ms.get(int(node.node_id), now_ms) - now_ms
        if rest_ms > 0:
            raise self.violated(f"{who} {rest_ms} ms too soon after one that failed")
        leader = node.host.raft.state if node.host is not None and node.host.raft is not None else None
        if not isinstance(leader, Leader):
            return
        # A request of a node that is down may arrive late, so only what the leader has heard counts.
        fetched_ms = leader.progress.voters[NodeId(target_id)].fetched_mono_ms
        silent_ms = now_ms - max(leader.begun_ms, leader.begun_ms if fetched_ms is None else fetched_ms)
        if silent_ms >= node.config.raft.fetch_timeout_ms:
            raise self.violated(f"{who}, which has been silent for {silent_ms} ms")
