"""Rules of progress: nobody asks, waits, blames or ends without need."""

from collections import Counter, deque
from pathlib import Path
from typing import Final, NamedTuple

from pykraft.core.answer_pace import floor_bytes
from pykraft.core.effects import EnterQuarantine, InstallSnapshot
from pykraft.core.state import Follower
from pykraft.errors import CorruptionError, ReadError
from pykraft.log.paths import LOG
from pykraft.sim.facts.facts import STRANGER_ID
from pykraft.sim.facts.history import OperationOutcome
from pykraft.sim.invariants import invariant
from pykraft.sim.scenario.scenario import FORGED, KINDS
from pykraft.snapshot.files import parse_snapshot_file
from pykraft.types import ReportKind

BLAMES: Final = (ReportKind.PEER_CLOSED, ReportKind.REQUESTER_CLOSED, ReportKind.LEADER_GIVEN_UP)


class NobodyIsBlamed(invariant.Invariant):
    """Only a node that lost its disk closes a connection for what was said on it, or gives up a leader.

    A replica closes the connection of a peer whose request or answer no correct peer can have sent: two leaders of
    one epoch, a snapshot with nothing new, a high watermark that went back. Between replicas of this code that
    never has to happen. If it does, one of the two is wrong, and often they would go on like that for ever. A
    replica does not give up a leader that keeps the protocol either (ADR 028).

    There are exceptions. A node whose disk was lost and formatted by an operator does not know what it said before,
    and may object when it is taken for a leader; so may one whose ``quorum-state`` was replaced by an older copy. A
    node whose disk was emptied knows that it has forgotten. While some disk lies, or once a stranger has sent
    anything, the rule is not checked.

    Source: ours; what Kafka's ``KafkaRaftClient`` throws an ``IllegalStateException`` for.
    """

    def _begin(self) -> None:
        self._forgetful: set[int] = set()

    def wiped(self, node: invariant.SimulatedNode) -> None:
        self._forgetful.add(int(node.node_id))

    def emptied(self, node: invariant.SimulatedNode) -> None:
        """The node knows that it has forgotten, so it must not accuse anybody."""

    def forgot_votes(self, node: invariant.SimulatedNode) -> None:
        self._forgetful.add(int(node.node_id))

    def lost(self, node: invariant.SimulatedNode) -> None:
        self._forgetful.add(int(node.node_id))

    def reported(self, node: invariant.SimulatedNode, report: invariant.Report) -> None:
        if report.kind not in BLAMES or self.facts.claims.is_any or int(node.node_id) in self._forgetful:
            return
        # A client that visits has a negative id: `ClientsAreToldTheTruth` judges the answers to it.
        if report.kind is ReportKind.REQUESTER_CLOSED and report.values[0] < 0:
            return
        if not any(each.disk.is_rotten for each in self.facts.nodes.values()):
            raise self.violated(f"node {node.node_id} says: {report.text}")


ELECTION_TIMEOUTS = 25
"""A calm majority elects a leader within this many election timeouts, even when votes are split repeatedly."""
FETCH_TIMEOUTS = 6
"""Fetch timeouts to add for noticing that the former leader is gone, and for the first Fetches."""
US_PER_MS = 1_000


class CalmQuorumCommits(invariant.Invariant):
    """Within a bound, a calm majority of the voters has a leader and raises its high watermark.

    A quorum that elects for ever is safe but useless. When a majority is connected, elections end within a few
    timeouts. Whatever clients propose, the high watermark then moves as fast as the links transfer a batch: an
    answer that takes longer than a timeout must arrive all the same.

    Source: KIP-595 §Leader election (randomized timeouts); EventuallyLeaderElected of Vanlightly's specification of
    KRaft; the bounds are ours (ADR 036).
    """

    def _begin(self) -> None:
        self._calm = invariant.Calm(self.facts)
        self._moved_us = 0
        self._end_offset = -1
        quorum, work = self.facts.scenario.quorum, self.facts.scenario.work
        # The time for an election, for one batch over the slowest link, and for the clients' next proposals.
        timeouts_ms = ELECTION_TIMEOUTS * quorum.election_timeout_ms + FETCH_TIMEOUTS * quorum.fetch_timeout_ms
        self.bound_us = (
            timeouts_ms * US_PER_MS
            + invariant.transfer_us(self.facts.scenario, self.facts.network.byte_us)
            + 4 * work.period_us
        )

    def after_event(self, _node: invariant.SimulatedNode, _now: invariant.View) -> None:
        if not self._calm.is_due():
            return
        now_us, end_offset = self.facts.clock.now_us, self.facts.committed.end_offset
        calm_us = self._calm.lasts_us()
        if end_offset != self._end_offset:
            self._end_offset, self._moved_us = end_offset, now_us
        still_us = min(calm_us, now_us - self._moved_us)
        if still_us > self.bound_us:
            leader = self.facts.newest_leader()
            if leader is not None and leader.host.status.log_end_offset <= end_offset:
                self._moved_us = now_us  # Nothing waits to be committed.
                return
            who = "nobody leads" if leader is None else f"node {leader.node_id} leads epoch {leader.host.status.epoch}"
            seen = (
                f"nothing was committed beyond {end_offset} for {still_us} us, though nothing stood in the way: {who}"
            )
            raise self.violated(seen)


SECOND_US = 1_000_000
REQUESTS_MAX = 120
"""Requests per second. A retry back-off is 20 ms; a new epoch or leader allows some requests without one."""


class StrangersAreAskedSeldom(invariant.Invariant):
    """No process sends a stranger more than 120 requests of the quorum in a second.

    Whether the peer rejects the request, has nothing new, or breaks the protocol: a replica waits for its retry
    back-off before it asks again. Otherwise one false leader could keep it, its disk and its network busy.

    Source: ADR 028; Kafka's ``RequestManager`` (retry back-off).
    """

    def _begin(self) -> None:
        self._asked: dict[int, deque[int]] = {}

    def before_send(self, node: invariant.SimulatedNode, spoken: invariant.Spoken) -> None:
        if spoken.target_id != STRANGER_ID:
            return
        now_us = self.facts.clock.now_us
        asked = self._asked.setdefault(int(node.node_id), deque())
        asked.append(now_us)
        while asked[0] <= now_us - SECOND_US:
            asked.popleft()
        if len(asked) > REQUESTS_MAX:
            raise self.violated(f"node {node.node_id} has asked a stranger {len(asked)} times within a second")


FORGED_PERIOD_US: Final = 25_000
QUIET_US_MIN: Final = 1_500_000
FORGED_US_MIN: Final = 2_000_000
SHARE: Final = 0.5
LEADERS_PERIOD_US: Final = 60_000_000
"""In so long, one more leader may be elected."""


class QuorumOutlastsForgers(invariant.Invariant):
    """While only a stranger forges frames, half as much is acknowledged as before, and leaders stay a minute.

    Compared are the values that clients were told are committed: how many a second before a stranger began, and how
    many while it sends up to 50 frames a second to each voter. Only worlds in which nothing else goes wrong are
    judged: others have leaders that resign and links that are slow long after their fault.

    Source: ours; Raft dissertation §4.2.3 (disruptive servers must not take the leadership away).
    """

    def _begin(self) -> None:
        self._acknowledged = 0
        self._is_forging = False
        self._looked_us = 0
        self._is_judge = not any(self.facts.scenario.faults.get(kind) for kind in KINDS if kind not in FORGED)
        self._quiet_us = self._forged_us = self._all_forged_us = 0
        self._quiet = self._forged = 0
        self._leaders = 0

    def decided(self, operation: invariant.Operation) -> None:
        if operation.answer is OperationOutcome.COMMITTED:
            self._acknowledged += len(operation.values)

    def changed(self, node: invariant.SimulatedNode, was: invariant.View, now: invariant.View) -> None:
        if self._is_judge and self._is_forging and now.leads and not was.leads:
            self._leaders += 1
            if self._leaders > 1 + self._all_forged_us // LEADERS_PERIOD_US:
                seen = f"node {node.node_id} leads epoch {now.epoch}, the leader number {self._leaders} within"
                raise self.violated(f"{seen} {self._all_forged_us} us in which only a stranger did anything")

    def after_event(self, _node: invariant.SimulatedNode, _now: invariant.View) -> None:
        now_us, is_forging = self.facts.clock.now_us, self.facts.claims.is_forging
        if now_us < self._looked_us + FORGED_PERIOD_US and is_forging == self._is_forging:
            return
        passed_us, self._looked_us = now_us - self._looked_us, now_us
        acknowledged, self._acknowledged = self._acknowledged, 0
        if self._is_forging:
            self._forged_us += passed_us
            self._all_forged_us += passed_us
            self._forged += acknowledged
        elif not self._all_forged_us and (self._quiet or acknowledged):  # from the first acknowledgement on
            self._quiet_us += passed_us
            self._quiet += acknowledged
        if self._is_judge and self._is_forging and not is_forging:
            self._compare()
            self._forged_us = self._forged = 0
        self._is_forging = is_forging

    def _compare(self) -> None:
        if self._quiet_us < QUIET_US_MIN or self._forged_us < FORGED_US_MIN:
            return
        if self._forged * self._quiet_us < SHARE * self._quiet * self._forged_us:
            seen = f"{self._forged} values were acknowledged in {self._forged_us} us with a stranger"
            raise self.violated(f"{seen}, {self._quiet} in {self._quiet_us} us before")


class Healing(invariant.Invariant):
    """Once the faults stop, every node catches up and new records are committed within a bound.

    Every node that was down starts, and all nodes must get everything that was ever acknowledged, and new records
    as well. A cluster that stays safe and never serves again is useless: this oracle finds lasting deadlocks.

    Source: Kafka ``RaftEventSimulationTest`` (every scenario ends with progress); EventuallyLeaderElected of
    Vanlightly's specification of KRaft; TigerBeetle's liveness mode.
    """

    def not_healed(self, seen: str) -> None:
        raise self.violated(seen)


HALF_MS_US = 500
"""Half a millisecond in microseconds: a machine's clock may be fast."""


class OneFetchInFlight(invariant.Invariant):
    """A process sends its leader no Fetch while another one, sent in the same state, waits for its answer.

    With two of them the older one could arrive last, and acknowledge records that its sender has truncated since. A
    replica forgets a Fetch that it sent in another state, or before it found damage, and does not apply its answer.
    It also forgets one that timed out; but that time counts from when the Fetch was created, and it may have waited
    for the disk or a connection. So the oracle relies only on the pause after a failure.

    Source: ours; Kafka's ``RequestManager`` (one request in flight to a node).
    """

    def _begin(self) -> None:
        self._news: Counter[int] = Counter()
        self._sent: dict[int, tuple[object, int]] = {}

    def changed(self, node: invariant.SimulatedNode, was: invariant.View, now: invariant.View) -> None:
        if (was.role, was.epoch, was.leader_id) != (now.role, now.epoch, now.leader_id):
            self._news[int(node.node_id)] += 1

    def submitted(self, node: invariant.SimulatedNode, job: invariant.Job) -> None:
        if isinstance(job, EnterQuarantine | InstallSnapshot):
            self._news[int(node.node_id)] += 1

    def before_send(self, node: invariant.SimulatedNode, spoken: invariant.Spoken) -> None:
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


class NoLastingProspective(invariant.Invariant):
    """After the faults no voter stays without a leader and without a candidacy for long.

    When the network works, pre-votes end with a candidate, or with news of a leader. Two nodes that deny each other
    and both wait are in a deadlock that no timer ends.

    Source: NotStuckInProspective of Vanlightly's specification of KIP-996; KIP-996.
    """

    def _begin(self) -> None:
        self._is_quiet = False
        self._since_us: dict[int, int] = {}

    def faults_ended(self) -> None:
        self._is_quiet = True

    def changed(self, node: invariant.SimulatedNode, _was: invariant.View, now: invariant.View) -> None:
        if not now.is_up or not (now.is_prospective or now.role.startswith("unattached")):
            self._since_us.pop(int(node.node_id), None)

    def after_event(self, node: invariant.SimulatedNode, now: invariant.View) -> None:
        node_id = int(node.node_id)
        if not self._is_quiet or not now.is_prospective or node_id not in now.voters.ids:
            return
        lasted_us = self.facts.clock.now_us - self._since_us.setdefault(node_id, self.facts.clock.now_us)
        limit_us = ELECTION_TIMEOUTS * self.facts.scenario.quorum.election_timeout_ms * US_PER_MS
        if lasted_us > limit_us + self.facts.doubts_us(node):
            raise self.violated(f"node {node_id} has asked for pre-votes in vain for {lasted_us} us")


QUESTIONS_PER_ELECTION_TIMEOUT: Final = 4


class QuestionsArePaced(invariant.Invariant):
    """No process asks a voter for its epoch three times within a quarter of the election timeout.

    Anyone can send such requests. If each of them cost a question, a stranger could use the voters to flood another
    one.

    Two questions may leave soon after each other, if the first had to wait for its connection. The third is asked
    at least a pause after the second, and the second only when the first has been answered: so a pause lies between
    first and third. A leader asks by BeginQuorumEpoch, which it also sends for other reasons; this is not judged.

    Source: ADR 129; `pykraft.core.on.epoch_raise`.
    """

    def _begin(self) -> None:
        self._asked_ms: dict[tuple[int, int], tuple[int | None, int | None]] = {}
        """By asker and voter: when its last two questions left, by its own clock."""

    def started(self, node: invariant.SimulatedNode) -> None:
        self._asked_ms = {key: asked_ms for key, asked_ms in self._asked_ms.items() if key[0] != node.node_id}

    def before_send(self, node: invariant.SimulatedNode, spoken: invariant.Spoken) -> None:
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


WINDOW_US: Final = 1_000_000
TIMES_MAX: Final = 12
"""Limit for one line of one process within the window."""


class NobodyRepeatsItself(invariant.Invariant):
    """No process reports the same line more than a few times a second.

    Such lines hide all others and fill the disk.

    Source: ours; Kafka's ``KafkaRaftClient`` logs a change of state once.
    """

    def _begin(self) -> None:
        self._said: dict[tuple[int, str], deque[int]] = {}

    def started(self, node: invariant.SimulatedNode) -> None:
        for key in [key for key in self._said if key[0] == int(node.node_id)]:
            del self._said[key]

    def reported(self, node: invariant.SimulatedNode, report: invariant.Report) -> None:
        if report.kind in (ReportKind.PEER_CLOSED, ReportKind.CONNECTION) or self.facts.claims.is_any:
            return  # Another bound applies to what strangers make nodes report.
        now_us = self.facts.clock.now_us
        times = self._said.setdefault((int(node.node_id), report.text), deque())
        times.append(now_us)
        while times[0] < now_us - WINDOW_US:
            times.popleft()
        if len(times) > TIMES_MAX:
            raise self.violated(f"node {node.node_id} says {len(times)} times within a second: {report.text}")


class NodesStayUp(invariant.Invariant):
    """No host stops without being asked to, unless its disk failed.

    A lost sector must not keep a node down, and a damaged snapshot must not end one that has a newer snapshot.

    Source: ours; Kafka's ``FaultHandler`` (what is fatal ends the process, and nothing else does).
    """

    def stopped(self, node: invariant.SimulatedNode, error: Exception | None) -> None:
        is_start = node.process is None
        if is_start and isinstance(error, ReadError) and str(error.path).endswith(LOG):
            raise self.violated(f"node {node.node_id} does not start: {error}")
        if isinstance(error, CorruptionError) and self._is_of_no_use(node, error.path):
            raise self.violated(f"node {node.node_id} stopped though a newer snapshot is there: {error}")
        if error is not None and not node.disk.explains(error) and not node.disk.is_rotten:
            raise self.violated(f"node {node.node_id} stopped: {error}")

    def _is_of_no_use(self, node: invariant.SimulatedNode, path: object) -> bool:
        """True for a snapshot older than the newest one that the running process knows: it is not needed."""
        found = parse_snapshot_file(Path(str(path)).name)
        raft = node.host.raft if node.host is not None else None
        return (
            found is not None
            and raft is not None
            and any(found.snapshot_id.offset < each.offset for each in raft.log.snapshots)
        )


STILL_TIMEOUTS = 3
"""The window in which enough came for the last time, the one in which too little comes, and one for slow clocks."""
STILL_PERIOD_US = 50_000


class _Waiting(NamedTuple):
    """Since when a follower waits for one answer, and how much of it had come then."""

    answered: int
    asked_us: int
    since_us: int
    received_bytes: int


class NobodyWaitsForATrickle(invariant.Invariant):
    """No voter follows a leader whose answer has hardly moved for three fetch timeouts.

    A voter waits beyond the timeout for an answer that moves. An answer of a few bytes per second would hold it
    back for as long as that lasts, and with it the election of a leader that works.

    Source: ours (ADR 036); KIP-595 §Leader progress timeout.
    """

    def _begin(self) -> None:
        self._waiting: dict[int, _Waiting] = {}
        self._next_us: dict[int, int] = {}

    def changed(self, node: invariant.SimulatedNode, was: invariant.View, now: invariant.View) -> None:
        if (was.role, was.epoch) != (now.role, now.epoch):
            self._waiting.pop(int(node.node_id), None)

    def after_event(self, node: invariant.SimulatedNode, now: invariant.View) -> None:
        node_id, now_us = int(node.node_id), self.facts.clock.now_us
        if now_us < self._next_us.get(node_id, 0):
            return
        self._next_us[node_id] = now_us + STILL_PERIOD_US
        process = node.process
        state = process.host.raft.state if process is not None and process.host.raft is not None else None
        is_fetching = isinstance(state, Follower) and state.download is None
        # A voter that never leads stays a follower when it gives its leader up. Any other ends its wait by a campaign.
        is_fetching = is_fetching and (not node.config.raft.never_leads or now.has_fetched)
        is_awaited = is_fetching and now.role == "follower" and not node.was_paused_since(now_us)
        if process is None or not is_awaited or node.is_damaged:
            self._waiting.pop(node_id, None)
            return
        asked_us, received_bytes = 0, 0
        for connection, sent_us in process.wiretap.open_fetches.items():
            if sent_us >= asked_us:
                asked_us, received_bytes = sent_us, self.facts.network.received_size_bytes(connection)[0]
        was = self._waiting.get(node_id)
        floor = floor_bytes(node.config.raft.fetch_size_bytes_max)
        answered = process.wiretap.fetch_answers.total()
        is_same = was is not None and (was.answered, was.asked_us) == (answered, asked_us)
        if was is None or not is_same or received_bytes - was.received_bytes >= floor:
            self._waiting[node_id] = _Waiting(answered, asked_us, now_us, received_bytes)
            return
        still_us = now_us - was.since_us
        if asked_us and still_us > STILL_TIMEOUTS * node.config.raft.fetch_timeout_ms * US_PER_MS:
            came = f"{received_bytes - was.received_bytes} bytes of its answer came"
            raise self.violated(f"node {node_id} follows {now.leader_id} though {came} in {still_us} us")


WINDOW_MS: Final = 1_000
WAKE_UPS_MAX: Final = 600
"""Limit within the window. The busiest nodes of a world reach about 200; one that spins reaches a thousand at once."""


class NobodyWakesForNothing(invariant.Invariant):
    """No timer of a process rings more than some hundred times a second of its own clock.

    A deadline that has passed and is not moved wakes its node again at once, for ever: a core is busy for nothing,
    and nobody notices, because everything else works.

    Source: ours; Kafka's ``KafkaRaftClient.poll`` (it waits on its queue until the next deadline).
    """

    def _begin(self) -> None:
        self._rang_ms: dict[int, deque[int]] = {}

    def started(self, node: invariant.SimulatedNode) -> None:
        self._rang_ms[int(node.node_id)] = deque()

    def woken(self, node: invariant.SimulatedNode) -> None:
        now_ms = node.clock.instant.mono_ms
        rang_ms = self._rang_ms.setdefault(int(node.node_id), deque())
        rang_ms.append(now_ms)
        while rang_ms[0] <= now_ms - WINDOW_MS:
            rang_ms.popleft()
        if len(rang_ms) > WAKE_UPS_MAX:
            raise self.violated(f"the timer of node {node.node_id} rang {len(rang_ms)} times within {WINDOW_MS} ms")
