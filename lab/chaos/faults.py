"""Injects faults into a quorum of real nodes and undoes them: one function for each kind.

It knows which nodes are down on purpose and what is in force. Invariant: a node may end only because a fault ended it,
or because its disk was full or its lock gone and its exit status says so; any other end is a failure of the node.
Undoing twice has no effect, so `heal` may be called at any time. Whether all nodes have what was acknowledged is asked
of the leader (DescribeQuorum); a node's own files say only who it is.

A `Crowd` abuses a node: connections that stay silent, and readers that request everything and read nothing. To create
them takes no time and waits for nothing, so a frozen or full node does not delay the faults.

Source of the kinds: Jepsen's nemeses; the sections on durability and liveness of this project's own review; KIP-595
§Fetch (a reader is an observer without an id).
"""

import asyncio
import shutil
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from lab.chaos.ground import Ground
from lab.chaos.loop_disks import LoopDisks
from lab.chaos.network import Wire
from lab.chaos.plan import Fault, FaultKind, FaultTarget
from lab.chaos.second_process import STORAGE_FAILED, Twin, require_stop, take_lock_away
from lab.chaos.snapshot_room import OPTIONS as SNAPSHOT_OPTIONS
from lab.chaos.snapshot_room import SnapshotRoom
from lab.nodes.cluster import Guest, PykraftNode
from pykraft.client.remote.admin import Admin
from pykraft.client.remote.leader_search import Patience
from pykraft.client.remote.quorum import Quorum
from pykraft.errors import LocalQuorumError, PykraftError
from pykraft.local.child import wait_until
from pykraft.local.voters import HOST, PARTITION
from pykraft.log.small_files.meta import FILE_NAME, parse_meta
from pykraft.log.small_files.quorum_state import FILE_NAME as QUORUM_STATE
from pykraft.log.small_files.quorum_state import parse_quorum_state
from pykraft.protocol.api import encode_request, frame
from pykraft.protocol.messages import ApiKey

FETCHES_PER_READER: Final = 8
"""Pipelined; the answer to each may be the whole log."""
FETCH_VERSION: Final = 12
"""The last version that names its topic."""
RECEIVE_BUFFER_BYTES: Final = 4096
MAX_BYTES: Final = 2**31 - 1
SERVE_TIMEOUT_S: Final = 60.0
LIMITS: Final = Patience(timeout_ms=5_000, request_timeout_ms=2_000)
LEFT_BYTES: Final = 8192
"""Room left on a disk that should fill up within a batch."""
DESCRIPTORS_MAX: Final = 256
SILENT_CONNECTIONS: Final = 400
READERS: Final = 8
RECORDS_OF_MAJORITY: Final = 200
RESET_SHARE: Final = 0.1
STOP_TIMEOUT_S: Final = 30.0
OF_OUR_NODES: Final = frozenset(
    {
        FaultKind.FEW_DESCRIPTORS,
        FaultKind.WIPE,
        FaultKind.WIPE_AND_LAG,
        FaultKind.POWER_CUT,
        FaultKind.TWIN,
        FaultKind.DELETED_LOCK,
    }
)
"""Faults that are not injected into a guest."""
Undo = Callable[[], None]
ChaosNode: TypeAlias = PykraftNode | Guest


class Crowd:
    """Connections to one node, open until `close` is called."""

    def __init__(self, port: int, count: int, words: bytes = b"") -> None:
        """Each of ``count`` connections sends ``words``, if there are any, and stays silent from then on."""
        self._sockets = [_connecting(port) for _ in range(count)]
        if words:
            _say(self._sockets, words)

    def close(self) -> None:
        for each in self._sockets:
            each.close()


def greedy_words() -> bytes:
    """A reader's requests: Fetches from offset 0 on, without a bound on the size of the answer."""
    topic, _, partition = PARTITION.rpartition("-")
    asked = {
        "partition": int(partition),
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": MAX_BYTES,
    }
    body = {
        "cluster_id": None,
        "replica_id": -1,
        "max_wait_ms": 500,
        "min_bytes": 0,
        "max_bytes": MAX_BYTES,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [asked]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    requests = [
        b"".join(frame(encode_request(ApiKey.FETCH, FETCH_VERSION, number, "silent-reader", body)))
        for number in range(FETCHES_PER_READER)
    ]
    return b"".join(requests)


def _connecting(port: int) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    made.settimeout(0)
    made.connect_ex((HOST, port))
    return made


def _say(connecting: Iterable[socket.socket], words: bytes) -> None:
    """On the loopback interface a connection is made at once, or the node refuses it."""
    for each in connecting:
        with suppress(OSError):
            each.send(words)


def wait_for_all(ground: Ground, require_life: Callable[[], None]) -> None:
    """Wait until every node has all records acknowledged so far, as a voter or as one from the next epoch on.

    Errors: LocalQuorumError at the timeout, and what ``require_life`` raises when a node has ended.
    """
    end_offset = ground.cluster.journal.end_offset

    def hold_all() -> bool:
        require_life()
        quorum = _described(ground)
        if quorum is None:
            return False
        return all(_has_all(quorum, end_offset, node, ground) for node in ground.cluster.replicas.values())

    wait_until(hold_all, f"all voters to hold the log up to offset {end_offset}", timeout_s=SERVE_TIMEOUT_S)


def _described(ground: Ground) -> Quorum | None:
    async def ask() -> Quorum:
        async with Admin(ground.cluster.endpoints, patience=LIMITS) as admin:
            return await admin.describe_quorum()

    try:
        return asyncio.run(ask())
    except PykraftError:
        return None


def _has_all(quorum: Quorum, end_offset: int, node: PykraftNode | Guest, ground: Ground) -> bool:
    """Dynamic voters are known by id and by the directory id in the node's directory, static ones by id.

    A static voter with a new directory counts from the next epoch on (ADR 130), and observes until then.
    """
    having = [voter.key for voter in quorum.voters if voter.log_end_offset >= end_offset]
    if not ground.is_dynamic:
        if node.node_id in [key.id for key in having]:
            return True
        having = [observer.key for observer in quorum.observers if observer.log_end_offset >= end_offset]
    file = node.partition.parent / FILE_NAME
    if not file.exists():  # its directory was just emptied
        return False
    meta = parse_meta(file, file.read_bytes())
    return (meta.node_id, meta.directory_id) in [(key.id, key.directory_id) for key in having]


class FaultInjector:
    """Starts faults, and heals them."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._cluster = ground.cluster
        self._network = ground.network
        self._down: set[int] = set()
        self._may_fail: set[int] = set()
        self._strangers: list[Crowd | Twin] = []
        self._deposed_epoch = 0
        """The last epoch in which a guest led and was restarted for it."""
        self._begin: Mapping[FaultKind, Callable[[Fault, Any], Undo]] = {
            FaultKind.KILL: self._kill,
            FaultKind.STOP: self._stop,
            FaultKind.RESTART_ALL: self._restart_all,
            FaultKind.PAUSE: self._freeze,
            FaultKind.FREEZE: self._freeze,
            FaultKind.FULL_DISK: self._fill_disk,
            FaultKind.SLOW_LINK: self._slow_down,
            FaultKind.RESETS: self._reset,
            FaultKind.ONE_WAY_CUT: self._cut_one_way,
            FaultKind.PARTITION: self._cut_off,
            FaultKind.WIPE: self._wipe,
            FaultKind.WIPE_AND_LAG: self._wipe_beside_laggards,
            FaultKind.SILENT_READER: self._read_nothing,
            FaultKind.FEW_DESCRIPTORS: self._limit_descriptors,
            FaultKind.POWER_CUT: self._cut_power,
            FaultKind.POWER_CUT_ALL: self._cut_all_power,
            FaultKind.FULL_SNAPSHOTS: self._take_snapshot_room,
            FaultKind.TWIN: self._start_twin,
            FaultKind.DELETED_LOCK: self._take_lock_away,
        }

    def target(self, fault: Fault) -> ChaosNode:
        """The node that this fault hits now; the leader is the node that reported a leadership last."""
        nodes = self._cluster.replicas
        leader_id = self._cluster.journal.leader_id()
        able = sorted(self._cluster.nodes if fault.kind in OF_OUR_NODES else nodes)
        if fault.kind is FaultKind.FULL_DISK:
            able = sorted(self._ground.disk_indexes)
        if fault.role is FaultTarget.LEADER and leader_id in able:
            return nodes[leader_id]
        others = [node_id for node_id in able if node_id != leader_id] or able
        return nodes[others[fault.nth % len(others)]]

    def begin(self, fault: Fault, node: ChaosNode) -> Undo:
        """Inject the fault; returns a function that undoes it, which may be called after `heal`."""
        return self._begin[fault.kind](fault, node)

    def require_life(self) -> None:
        """Errors: LocalQuorumError if a node has ended that no fault ended."""
        for node_id, node in self._cluster.replicas.items():
            status = node.process.status
            is_expected = node_id in self._down or (node_id in self._may_fail and status == STORAGE_FAILED)
            if status is not None and not is_expected:
                raise LocalQuorumError(f"node {node_id} ended with {status}, though no fault had ended it")

    def heal(self) -> None:
        """Undo everything in force, start the nodes that are down, and wait until all serve.

        Errors: LocalQuorumError if one does not serve.
        """
        self._network.heal()
        for stranger in self._strangers:
            stranger.close()
        self._strangers.clear()
        for node_id in self._ground.disk_indexes:
            self._make_room(node_id)
        for replica in self._cluster.replicas.values():
            replica.process.resume()
            self._revive(replica)
        for node in self._cluster.nodes.values():
            self._wait_for(node)
        self._may_fail.clear()

    def wait_for_all(self) -> None:
        """Wait until every node has all records acknowledged so far. Errors: LocalQuorumError."""
        wait_for_all(self._ground, self.require_life)

    def depose_guest(self) -> None:
        """Restart a guest that leads, once for each epoch: what it writes as a leader is in no journal."""
        for guest in self._cluster.guests.values():
            # Kafka's TestRaftServer does not answer DescribeQuorum, so read its quorum-state file.
            path = guest.partition / QUORUM_STATE
            election = parse_quorum_state(path, path.read_bytes()).election
            if election.leader_id == guest.node_id and election.epoch > self._deposed_epoch:
                # Its timeouts are an hour, but after EndQuorumEpoch it campaigns at once if it is a successor or the
                # list is empty. A restarted leader never leads that epoch again.
                self._deposed_epoch = election.epoch
                guest.process.kill()
                guest.start()

    def _revive(self, node: ChaosNode) -> None:
        if node.process.status is not None:
            node.start()
        self._down.discard(node.node_id)

    def _wait_for(self, node: PykraftNode) -> None:
        """Wait until the node serves. It may notice only now that its disk was full: then restart it once more."""
        try:
            self._cluster.journal.wait_for_started(node.node_id, since=node.start_mark, process=node.process)
        except LocalQuorumError:
            if node.node_id not in self._may_fail or node.process.status != STORAGE_FAILED:
                raise
            node.start()
            self._cluster.journal.wait_for_started(node.node_id, since=node.start_mark, process=node.process)

    def _kill(self, _fault: Fault, node: ChaosNode) -> Undo:
        self._lose([node])
        return lambda: self._revive(node)

    def _stop(self, _fault: Fault, node: ChaosNode) -> Undo:
        self._down.add(node.node_id)
        node.process.terminate()

        def undo() -> None:
            node.process.resume()
            if node.node_id in self._down:
                node.process.wait(timeout_s=STOP_TIMEOUT_S)
            self._revive(node)

        return undo

    def _restart_all(self, _fault: Fault, _node: ChaosNode) -> Undo:
        nodes = list(self._cluster.replicas.values())
        self._lose(nodes)

        def undo() -> None:
            for each in nodes:
                self._revive(each)

        return undo

    def _cut_power(self, fault: Fault, node: ChaosNode) -> Undo:
        undo = self._kill(fault, node)
        self._lose_what_is_not_synced([node.node_id])
        return undo

    def _cut_all_power(self, fault: Fault, node: ChaosNode) -> Undo:
        """A guest has a disk of the machine, and only loses its process."""
        undo = self._restart_all(fault, node)
        self._lose_what_is_not_synced(self._ground.disk_indexes)
        return undo

    def _lose_what_is_not_synced(self, node_ids: Iterable[int]) -> None:
        """The nodes are dead: they could still write to a disk that has no power, and hear of it."""
        assert isinstance(self._ground.disks, LoopDisks)
        self._ground.disks.cut([self._ground.disk_indexes[node_id] for node_id in node_ids])

    def _freeze(self, _fault: Fault, node: ChaosNode) -> Undo:
        node.process.pause()
        return node.process.resume

    def _fill_disk(self, _fault: Fault, node: PykraftNode) -> Undo:
        assert self._ground.disks is not None
        self._may_fail.add(node.node_id)
        self._ground.disks.fill(self._ground.disk_indexes[node.node_id], left_bytes=LEFT_BYTES)

        def undo() -> None:
            self._make_room(node.node_id)
            if node.node_id not in self._down:
                self._revive(node)

        return undo

    def _make_room(self, node_id: int) -> None:
        assert self._ground.disks is not None
        self._ground.disks.make_room(self._ground.disk_indexes[node_id])

    def _take_snapshot_room(self, _fault: Fault, _node: ChaosNode) -> Undo:
        """Without the restarts every wiped node would get a snapshot, and no whole log could be compared."""
        nodes = list(self._cluster.nodes.values())
        self._lose(nodes)
        for node in nodes:
            node.start(options=SNAPSHOT_OPTIONS)
            self._down.discard(node.node_id)
        self.wait_for_all()
        self._may_fail.update(node.node_id for node in nodes)
        room = SnapshotRoom(self._ground, self.require_life)
        room.take()

        def undo() -> None:
            room.give()
            self._lose(nodes)
            room.remove_snapshots()
            for node in nodes:
                self._revive(node)

        return undo

    def _slow_down(self, fault: Fault, node: ChaosNode) -> Undo:
        wires = self._network.wires_of(node.node_id)
        for wire in wires:
            wire.bandwidth, wire.latency_s = float(fault.bandwidth), fault.latency_ms / 1_000
        return _healing(wires)

    def _reset(self, _fault: Fault, node: ChaosNode) -> Undo:
        wires = self._network.wires_of(node.node_id)
        for wire in wires:
            wire.reset_share = RESET_SHARE
        return _healing(wires)

    def _cut_one_way(self, fault: Fault, node: ChaosNode) -> Undo:
        others = [node_id for node_id in self._cluster.replicas if node_id != node.node_id]
        pairs = [(other, node.node_id) if fault.is_inbound else (node.node_id, other) for other in others]
        return self._cut([self._network.wire(*pair) for pair in pairs])

    def _cut_off(self, _fault: Fault, node: ChaosNode) -> Undo:
        return self._cut(self._network.wires_of(node.node_id))

    def _cut(self, wires: list[Wire]) -> Undo:
        for wire in wires:
            wire.is_cut = True
        return _healing(wires)

    def _wipe(self, _fault: Fault, node: PykraftNode) -> Undo:
        """Wait until all others have every acknowledged record first: this fault destroys a copy for good."""
        self.wait_for_all()
        self._lose([node])
        self._empty(node)
        self._revive(node)
        return self.wait_for_all

    def _wipe_beside_laggards(self, _fault: Fault, node: PykraftNode) -> Undo:
        """Test that an emptied voter does not elect a leader together with voters that lack acknowledged records.

        1. All nodes have everything. Pause all but a majority; the majority acknowledges more records.
        2. Kill the whole majority and empty one of it, ``node``. Only the others of it have those records now.
        3. Resume the paused nodes and restart ``node``. They are a majority without those records.
        4. Restart the others. If a leader was elected in step 3, acknowledged records are gone.
        """
        # 1. Only the majority has the newest records.
        self.wait_for_all()
        nodes = list(self._cluster.replicas.values())
        leader_id = self._cluster.journal.leader_id()
        others = [each for each in nodes if each is not node]
        others.sort(key=lambda each: each.node_id != leader_id)
        having, lagging = others[: len(nodes) // 2], others[len(nodes) // 2 :]
        for each in lagging:
            each.process.pause()
        self._cluster.journal.wait_for_acknowledged(RECORDS_OF_MAJORITY, since=self._cluster.journal.mark())
        # 2. The emptied node is one of those that acknowledged them.
        self._lose([node, *having])
        self._empty(node)
        # 3. These must not elect a leader.
        for each in lagging:
            each.process.resume()
        self._revive(node)

        def undo() -> None:
            # 4. The copies of the newest records come back.
            for each in having:
                self._revive(each)
            self.wait_for_all()

        return undo

    def _lose(self, nodes: Sequence[ChaosNode]) -> None:
        self._down.update(node.node_id for node in nodes)
        for node in nodes:
            node.process.send_kill()
        for node in nodes:
            node.process.wait()

    def _empty(self, node: PykraftNode) -> None:
        """Empty the directory, as if a volume was not mounted."""
        for path in node.partition.parent.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        if self._ground.is_dynamic:  # without its directory id it is another voter of a dynamic quorum
            node.format("--no-initial-controllers")

    def _read_nothing(self, _fault: Fault, node: ChaosNode) -> Undo:
        return self._come(Crowd(self._ground.ports[node.node_id], READERS, greedy_words()))

    def _limit_descriptors(self, _fault: Fault, node: PykraftNode) -> Undo:
        """The limit lasts until the node's next start, the connections until the fault ends."""
        if node.process.status is None and node.node_id not in self._down:
            self._down.add(node.node_id)
            node.process.resume()
            node.process.stop(timeout_s=STOP_TIMEOUT_S)
            node.start(descriptors_max=DESCRIPTORS_MAX)
            self._down.discard(node.node_id)
            self._wait_for(node)
        return self._come(Crowd(self._ground.ports[node.node_id], SILENT_CONNECTIONS))

    def _come(self, stranger: Crowd | Twin) -> Undo:
        self._strangers.append(stranger)
        return stranger.close

    def _start_twin(self, _fault: Fault, node: PykraftNode) -> Undo:
        twin = Twin(self._cluster, node)
        close = self._come(twin)

        def undo() -> None:
            twin.require_alarm(self.require_life)
            close()

        return undo

    def _take_lock_away(self, _fault: Fault, node: PykraftNode) -> Undo:
        self._may_fail.add(node.node_id)
        take_lock_away(self._cluster, node)

        def undo() -> None:
            require_stop(node)
            self._revive(node)

        return undo


def _healing(wires: list[Wire]) -> Undo:
    def undo() -> None:
        for wire in wires:
            wire.heal()

    return undo
