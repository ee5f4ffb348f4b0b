"""Injects faults into a quorum of real nodes and undoes them: one function for each kind.

It knows which nodes are down on purpose and what is in force. Invariant: a node may end only because a fault ended it,
or because its disk was full and its exit status says so; any other end is a failure of the node. Undoing twice has no
effect, so `heal` may be called at any time.

Source of the kinds: Jepsen's nemeses; the sections on durability and liveness of this project's own review.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from pykraft.chaos.crowd import Crowd, greedy_words
from pykraft.chaos.ground import Ground
from pykraft.chaos.network import Wire
from pykraft.chaos.plan import Fault, FaultKind, FaultTarget
from pykraft.client.remote.admin import Admin, AdminLimits
from pykraft.client.remote.quorum import Quorum
from pykraft.errors import LocalQuorumError, PykraftError
from pykraft.local.cluster import Guest, PykraftNode
from pykraft.local.waiting import wait_until
from pykraft.log.small_files.meta import FILE_NAME, parse_meta
from pykraft.log.small_files.quorum_state import FILE_NAME as QUORUM_STATE
from pykraft.log.small_files.quorum_state import parse_quorum_state
from pykraft.types import ReplicaKey

STORAGE_FAILED: Final = 3
"""Exit status of a node that cannot write to its disk."""
LEFT_BYTES: Final = 8192
"""Room left on a disk that should fill up within a batch."""
DESCRIPTORS_MAX: Final = 256
SILENT_CONNECTIONS: Final = 400
READERS: Final = 8
RECORDS_OF_MAJORITY: Final = 200
RESET_SHARE: Final = 0.1
STOP_TIMEOUT_S: Final = 30.0
SERVE_TIMEOUT_S: Final = 60.0
LIMITS: Final = AdminLimits(timeout_ms=5_000, request_timeout_ms=2_000)

OF_OUR_NODES: Final = frozenset({FaultKind.FEW_DESCRIPTORS, FaultKind.WIPE, FaultKind.WIPE_AND_LAG})
"""Faults that are not injected into a guest."""

Undo = Callable[[], None]
ChaosNode: TypeAlias = PykraftNode | Guest


class FaultInjector:
    """Starts faults, and heals them."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._cluster = ground.cluster
        self._network = ground.network
        self._down: set[int] = set()
        self._was_full: set[int] = set()
        self._crowds: list[Crowd] = []
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
            is_expected = node_id in self._down or (node_id in self._was_full and status == STORAGE_FAILED)
            if status is not None and not is_expected:
                raise LocalQuorumError(f"node {node_id} ended with {status}, though no fault had ended it")

    def heal(self) -> None:
        """Undo everything in force, start the nodes that are down, and wait until all serve.

        Errors: LocalQuorumError if one does not serve.
        """
        self._network.heal()
        for crowd in self._crowds:
            crowd.close()
        self._crowds.clear()
        for node_id in self._ground.disk_indexes:
            self._make_room(node_id)
        for replica in self._cluster.replicas.values():
            replica.process.resume()
            self._revive(replica)
        for node in self._cluster.nodes.values():
            self._wait_for(node)
        self._was_full.clear()

    def wait_for_all(self) -> None:
        """Wait until every node is a voter and has all records acknowledged so far. Errors: LocalQuorumError."""
        end_offset = self._cluster.journal.end_offset

        def look() -> bool:
            self.require_life()
            quorum = self._described()
            if quorum is None:
                return False
            have = [voter.key for voter in quorum.voters if voter.log_end_offset >= end_offset]
            return all(self._is_among(have, node) for node in self._cluster.replicas.values())

        wait_until(look, f"all voters to hold the log up to offset {end_offset}", timeout_s=SERVE_TIMEOUT_S)

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

    def _described(self) -> Quorum | None:
        async def ask() -> Quorum:
            async with Admin(self._cluster.endpoints, limits=LIMITS) as admin:
                return await admin.describe_quorum()

        try:
            return asyncio.run(ask())
        except PykraftError:
            return None

    def _is_among(self, voters: Sequence[ReplicaKey], node: ChaosNode) -> bool:
        """Static voters are known by id; others also by the directory id in the node's directory."""
        if not self._ground.is_dynamic:
            return node.node_id in [voter.id for voter in voters]
        file = node.partition.parent / FILE_NAME
        meta = parse_meta(file, file.read_bytes())
        return (meta.node_id, meta.directory_id) in [(voter.id, voter.directory_id) for voter in voters]

    def _revive(self, node: ChaosNode) -> None:
        if node.process.status is not None:
            node.start()
        self._down.discard(node.node_id)

    def _wait_for(self, node: PykraftNode) -> None:
        """Wait until the node serves. It may notice only now that its disk was full: then restart it once more."""
        try:
            self._cluster.journal.wait_for_started(node.node_id, since=node.start_mark, process=node.process)
        except LocalQuorumError:
            if node.node_id not in self._was_full or node.process.status != STORAGE_FAILED:
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

    def _freeze(self, _fault: Fault, node: ChaosNode) -> Undo:
        node.process.pause()
        return node.process.resume

    def _fill_disk(self, _fault: Fault, node: PykraftNode) -> Undo:
        assert self._ground.disks is not None
        self._was_full.add(node.node_id)
        self._ground.disks.fill(self._ground.disk_indexes[node.node_id], left_bytes=LEFT_BYTES)

        def undo() -> None:
            self._make_room(node.node_id)
            if node.node_id not in self._down:
                self._revive(node)

        return undo

    def _make_room(self, node_id: int) -> None:
        assert self._ground.disks is not None
        self._ground.disks.make_room(self._ground.disk_indexes[node_id])

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
            node.process.kill()

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

    def _come(self, crowd: Crowd) -> Undo:
        self._crowds.append(crowd)
        return crowd.close


def _healing(wires: list[Wire]) -> Undo:
    def undo() -> None:
        for wire in wires:
            wire.heal()

    return undo
