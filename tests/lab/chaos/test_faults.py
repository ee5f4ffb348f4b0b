"""The target of each fault, which node ends are expected, and that undoing twice does nothing."""

import socket
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from lab.chaos import faults
from lab.chaos.faults import FETCHES_PER_READER, Crowd, FaultInjector, greedy_words
from lab.chaos.ground import Ground
from lab.chaos.loop_disks import LoopDisks
from lab.chaos.network import Wire
from lab.chaos.plan import Fault, FaultKind, FaultTarget
from lab.chaos.second_process import STORAGE_FAILED
from lab.nodes.cluster import PykraftNode
from pykraft.errors import LocalQuorumError, PykraftError
from pykraft.local.voters import HOST
from pykraft.log.small_files.meta import FILE_NAME
from pykraft.log.small_files.quorum_state import FILE_NAME as QUORUM_STATE
from pykraft.log.small_files.quorum_state import encode_quorum_state
from pykraft.protocol.api import decode_request_body, decode_request_header
from pykraft.protocol.messages import ApiKey
from pykraft.types import Election, Epoch, NodeId, ReplicaKey, Uuid, uuid_text


class FakeProcess:
    def __init__(self) -> None:
        self.status: int | None = None
        self.said: list[str] = []

    def kill(self) -> None:
        self.status = -9

    def send_kill(self) -> None:
        self.status = -9

    def wait(self) -> int:
        assert self.status is not None
        return self.status

    def pause(self) -> None:
        self.said.append("pause")

    def resume(self) -> None:
        self.said.append("resume")


class FakeNode:
    start_mark = 0
    partition = Path()

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.process = FakeProcess()
        self.starts = 0

    def start(self, **_: object) -> None:
        assert self.process.status is not None
        self.process.status = None
        self.starts += 1


class FakeJournal:
    def leader_id(self) -> int:
        return 2

    def wait_for_started(self, node_id: int, *, since: int, process: FakeProcess) -> None:
        del since
        if process.status is not None:
            raise LocalQuorumError(f"node {node_id} ended with {process.status}")


class FakeCluster:
    def __init__(self) -> None:
        self.nodes = {node_id: FakeNode(node_id) for node_id in (1, 2, 3)}
        self.guests: dict[int, FakeNode] = {}
        self.journal = FakeJournal()

    @property
    def replicas(self) -> dict[int, FakeNode]:
        return {**self.nodes, **self.guests}


class FakeNetwork:
    def __init__(self) -> None:
        self.wires = {(1, 2): Wire(), (2, 1): Wire(), (2, 3): Wire(), (3, 2): Wire()}

    def wire(self, source: int, target: int) -> Wire:
        return self.wires[source, target]

    def wires_of(self, node_id: int) -> list[Wire]:
        return [wire for pair, wire in self.wires.items() if node_id in pair]

    def heal(self) -> None:
        for wire in self.wires.values():
            wire.heal()


class FakeDisks(LoopDisks):
    def __init__(self) -> None:
        self.full: set[int] = set()
        self.cuts: list[list[int]] = []

    def cut(self, indexes: Iterable[int]) -> None:
        self.cuts.append(list(indexes))

    def fill(self, index: int, *, left_bytes: int = 0) -> None:
        assert left_bytes > 0
        self.full.add(index)

    def make_room(self, index: int) -> None:
        self.full.discard(index)


class Scene:
    def __init__(self) -> None:
        self.cluster, self.network, self.disks = FakeCluster(), FakeNetwork(), FakeDisks()
        made: Any = Ground
        self.faults = FaultInjector(
            made(
                cluster=self.cluster,
                network=self.network,
                ports={},
                disks=self.disks,
                disk_indexes={1: 0, 3: 1},
                is_dynamic=False,
            )
        )

    def node(self, node_id: int) -> PykraftNode:
        return cast(PykraftNode, self.cluster.nodes[node_id])


@pytest.fixture
def scene() -> Scene:
    return Scene()


def fault(kind: FaultKind, role: FaultTarget = FaultTarget.LEADER, nth: int = 0, **more: Any) -> Fault:
    return Fault(kind=kind, role=role, nth=nth, begins_s=0.0, lasts_s=1.0, **more)


@pytest.mark.parametrize(
    ("kind", "role", "nth", "node_id"),
    [
        (FaultKind.KILL, FaultTarget.LEADER, 1, 2),
        (FaultKind.KILL, FaultTarget.FOLLOWER, 0, 1),
        (FaultKind.KILL, FaultTarget.FOLLOWER, 1, 3),
        (FaultKind.KILL, FaultTarget.FOLLOWER, 2, 1),
        (FaultKind.FULL_DISK, FaultTarget.LEADER, 1, 3),
        (FaultKind.FULL_DISK, FaultTarget.FOLLOWER, 0, 1),
    ],
)
def test_a_fault_is_for_a_role_among_those_that_can_have_it(
    scene: Scene, kind: FaultKind, role: FaultTarget, nth: int, node_id: int
) -> None:
    assert scene.faults.target(fault(kind, role, nth)).node_id == node_id


def test_a_guest_is_spared_what_is_done_to_directories_and_descriptors(scene: Scene) -> None:
    scene.cluster.guests[3] = scene.cluster.nodes.pop(3)
    assert scene.faults.target(fault(FaultKind.PAUSE, FaultTarget.FOLLOWER, 1)).node_id == 3
    for kind in (FaultKind.WIPE, FaultKind.WIPE_AND_LAG, FaultKind.FEW_DESCRIPTORS, FaultKind.POWER_CUT):
        assert scene.faults.target(fault(kind, FaultTarget.FOLLOWER, 1)).node_id == 1
    scene.cluster.guests[3].process.status = 1
    with pytest.raises(LocalQuorumError, match="node 3 ended with 1"):
        scene.faults.require_life()


def test_a_guest_that_leads_starts_anew_once_an_epoch(scene: Scene, tmp_path: Path) -> None:
    guest = scene.cluster.guests[3] = scene.cluster.nodes.pop(3)
    guest.partition = tmp_path

    def leads(leader_id: int | None, epoch: int) -> int:
        leader = None if leader_id is None else NodeId(leader_id)
        election = Election(epoch=Epoch(epoch), leader_id=leader, voted=None)
        voters = (NodeId(1), NodeId(2), NodeId(3))
        (tmp_path / QUORUM_STATE).write_bytes(encode_quorum_state(election, voters=voters, kraft_version=0))
        scene.faults.depose_guest()
        return guest.starts

    assert [leads(2, 1), leads(3, 2), leads(3, 2), leads(None, 3), leads(3, 4)] == [0, 1, 1, 1, 2]
    scene.faults.require_life()


def test_only_ends_that_were_brought_about_are_expected(scene: Scene) -> None:
    scene.faults.require_life()
    undo = scene.faults.begin(fault(FaultKind.KILL), scene.node(2))
    scene.faults.require_life()
    undo()
    undo()
    assert scene.cluster.nodes[2].starts == 1
    scene.cluster.nodes[2].process.status = 1
    with pytest.raises(LocalQuorumError, match="node 2 ended with 1, though no fault had ended it"):
        scene.faults.require_life()


def test_a_full_disk_ends_a_node_with_its_own_status_only(scene: Scene) -> None:
    undo = scene.faults.begin(fault(FaultKind.FULL_DISK), scene.node(3))
    assert scene.disks.full == {1}
    scene.cluster.nodes[3].process.status = STORAGE_FAILED
    scene.faults.require_life()
    scene.cluster.nodes[3].process.status = 1
    with pytest.raises(LocalQuorumError):
        scene.faults.require_life()
    undo()
    assert scene.disks.full == set()
    assert scene.cluster.nodes[3].starts == 1
    scene.faults.heal()
    scene.cluster.nodes[3].process.status = STORAGE_FAILED
    with pytest.raises(LocalQuorumError):
        scene.faults.require_life()


def test_a_node_on_a_disk_that_was_full_may_need_a_second_start(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.faults.begin(fault(FaultKind.FULL_DISK), scene.node(3))
    node, others = scene.cluster.nodes[3], scene.cluster.nodes[1]
    original = scene.cluster.journal.wait_for_started

    def wait_for_started(node_id: int, *, since: int, process: FakeProcess) -> None:
        if process is node.process and not node.starts:
            process.status = STORAGE_FAILED
        original(node_id, since=since, process=process)

    monkeypatch.setattr(scene.cluster.journal, "wait_for_started", wait_for_started)
    scene.faults.heal()
    assert node.starts == 1
    assert others.starts == 0


def test_healing_ends_whatever_is_in_force(scene: Scene) -> None:
    for kind, node_id in [
        (FaultKind.KILL, 1),
        (FaultKind.FREEZE, 2),
        (FaultKind.FULL_DISK, 3),
        (FaultKind.PARTITION, 2),
    ]:
        scene.faults.begin(fault(kind), scene.node(node_id))
    assert all(wire.is_cut for wire in scene.network.wires.values())
    scene.faults.heal()
    assert all(wire == Wire() for wire in scene.network.wires.values())
    assert scene.disks.full == set()
    assert [node.process.status for node in scene.cluster.nodes.values()] == [None] * 3
    assert scene.cluster.nodes[2].process.said == ["pause", "resume"]


def test_wires_are_changed_and_healed(scene: Scene) -> None:
    wires = scene.network.wires
    slow = fault(FaultKind.SLOW_LINK, bandwidth=1_000, latency_ms=50)
    undo = scene.faults.begin(slow, scene.node(2))
    assert {(wire.bandwidth, wire.latency_s) for wire in wires.values()} == {(1_000.0, 0.05)}
    undo()
    undo = scene.faults.begin(fault(FaultKind.RESETS), scene.node(1))
    assert [pair for pair, wire in wires.items() if wire.reset_share] == [(1, 2), (2, 1)]
    undo()
    undo = scene.faults.begin(fault(FaultKind.ONE_WAY_CUT, is_inbound=True), scene.node(2))
    assert [pair for pair, wire in wires.items() if wire.is_cut] == [(1, 2), (3, 2)]
    undo()
    undo = scene.faults.begin(fault(FaultKind.ONE_WAY_CUT), scene.node(2))
    assert [pair for pair, wire in wires.items() if wire.is_cut] == [(2, 1), (2, 3)]
    undo()
    assert all(wire == Wire() for wire in wires.values())


def test_all_are_killed_at_once_and_start_at_once(scene: Scene) -> None:
    undo = scene.faults.begin(fault(FaultKind.RESTART_ALL), scene.node(1))
    assert [node.process.status for node in scene.cluster.nodes.values()] == [-9] * 3
    scene.faults.require_life()
    undo()
    assert [node.starts for node in scene.cluster.nodes.values()] == [1] * 3


def test_power_is_cut_when_the_nodes_are_dead(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    dead: list[list[int]] = []

    def cut(indexes: Iterable[int]) -> None:
        dead.append([node.node_id for node in scene.cluster.nodes.values() if node.process.status == -9])
        scene.disks.cuts.append(list(indexes))

    monkeypatch.setattr(scene.disks, "cut", cut)
    scene.faults.begin(fault(FaultKind.POWER_CUT), scene.node(3))()
    undo = scene.faults.begin(fault(FaultKind.POWER_CUT_ALL), scene.node(1))
    scene.faults.require_life()
    undo()
    assert (dead, scene.disks.cuts) == ([[3], [1, 2, 3]], [[1], [0, 1]])
    assert [node.starts for node in scene.cluster.nodes.values()] == [1, 1, 2]


def test_snapshots_are_taken_and_have_no_room_between_two_restarts(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    class Room:
        def __init__(self, ground: Ground, require_life: Any) -> None:
            require_life()
            assert [node.starts for node in scene.cluster.nodes.values()] == [1] * 3

        def take(self) -> None:
            said.append("take")

        def give(self) -> None:
            said.append("give")

        def remove_snapshots(self) -> None:
            assert [node.process.status for node in scene.cluster.nodes.values()] == [-9] * 3
            said.append("remove")

    monkeypatch.setattr(faults, "SnapshotRoom", Room)
    monkeypatch.setattr(faults, "wait_for_all", lambda ground, require_life: require_life())
    undo = scene.faults.begin(fault(FaultKind.FULL_SNAPSHOTS), scene.node(1))
    scene.cluster.nodes[2].process.status = STORAGE_FAILED
    scene.faults.require_life()
    scene.cluster.nodes[2].process.status = 1
    with pytest.raises(LocalQuorumError, match="node 2 ended with 1"):
        scene.faults.require_life()
    undo()
    assert said == ["take", "give", "remove"]
    assert [node.starts for node in scene.cluster.nodes.values()] == [2] * 3


def test_a_node_whose_lock_is_gone_may_stop(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    process = scene.cluster.nodes[3].process

    def stop(node: Any) -> None:
        assert node.process is process
        process.status = STORAGE_FAILED

    monkeypatch.setattr(faults, "take_lock_away", lambda cluster, node: None)
    monkeypatch.setattr(faults, "require_stop", stop)
    undo = scene.faults.begin(fault(FaultKind.DELETED_LOCK), scene.node(3))
    scene.faults.require_life()
    undo()
    assert scene.cluster.nodes[3].starts == 1
    scene.faults.heal()
    process.status = STORAGE_FAILED
    with pytest.raises(LocalQuorumError):
        scene.faults.require_life()


def test_a_twin_ends_with_its_fault(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def require_alarm(require_life: Any) -> None:
        require_life()
        said.append("told")

    twin = SimpleNamespace(require_alarm=require_alarm, close=lambda: said.append("end"))
    monkeypatch.setattr(faults, "Twin", lambda cluster, node: twin)
    scene.faults.begin(fault(FaultKind.TWIN), scene.node(3))()
    assert said == ["told", "end"]
    scene.faults.heal()
    assert said == ["told", "end", "end"]


def test_an_emptied_directory_is_there_and_empty(scene: Scene, tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "partition-0").mkdir(parents=True)
    (data / "partition-0" / "file").write_bytes(Random(1).randbytes(10))
    (data / "meta.properties").touch()
    node: Any = scene.cluster.nodes[1]
    node.partition = data / "partition-0"
    scene.faults._empty(node)
    assert list(data.iterdir()) == []


OURS, FORMER = Uuid(bytes(15) + b"1"), Uuid(bytes(15) + b"2")


Replicas = list[tuple[ReplicaKey, int]]


class Described:
    """A leader that says this, one answer after another: its voters, and its observers."""

    def __init__(self, *answers: tuple[Replicas, Replicas] | None) -> None:
        self.answers = list(answers)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def describe_quorum(self) -> Any:
        said = self.answers.pop(0)
        if said is None:
            raise PykraftError("nobody leads")
        voters, observers = ([SimpleNamespace(key=key, log_end_offset=end) for key, end in each] for each in said)
        return SimpleNamespace(voters=voters, observers=observers)


def ground(folder: Path, *, is_dynamic: bool) -> Any:
    folder.joinpath(FILE_NAME).write_text(f"version=1\nnode.id=1\ncluster.id=c\ndirectory.id={uuid_text(OURS)}\n")
    node = SimpleNamespace(node_id=1, partition=folder / "topic-0")
    cluster = SimpleNamespace(journal=SimpleNamespace(end_offset=10), endpoints=[], replicas={1: node})
    return SimpleNamespace(cluster=cluster, is_dynamic=is_dynamic)


def key(directory_id: Uuid) -> ReplicaKey:
    return ReplicaKey(id=NodeId(1), directory_id=directory_id)


@pytest.mark.parametrize(("is_dynamic", "left"), [(False, 2), (True, 0)], ids=["static", "dynamic"])
def test_every_node_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_dynamic: bool, left: int) -> None:
    says = Described(
        None,
        ([(key(FORMER), 9), (key(OURS), 9)], [(key(FORMER), 10)]),
        ([(key(FORMER), 10), (key(OURS), 9)], []),
        ([], [(key(OURS), 10)]),
        ([(key(OURS), 11)], []),
    )
    monkeypatch.setattr(faults, "Admin", lambda *_, **__: says)
    faults.wait_for_all(ground(tmp_path, is_dynamic=is_dynamic), lambda: None)
    assert len(says.answers) == left


def test_a_static_voter_with_a_new_directory_observes_until_the_next_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = Described(([(key(FORMER), 9)], [(key(OURS), 9)]), ([(key(FORMER), 9)], [(key(OURS), 10)]))
    monkeypatch.setattr(faults, "Admin", lambda *_, **__: says)
    faults.wait_for_all(ground(tmp_path, is_dynamic=False), lambda: None)
    assert says.answers == []


def test_an_emptied_directory_has_nothing(tmp_path: Path) -> None:
    emptied = ground(tmp_path, is_dynamic=False)
    (tmp_path / FILE_NAME).unlink()
    quorum: Any = SimpleNamespace(voters=[], observers=[SimpleNamespace(key=key(OURS), log_end_offset=10)])
    assert not faults._has_all(quorum, 10, emptied.cluster.replicas[1], emptied)


def test_a_node_that_ends_ends_the_wait(tmp_path: Path) -> None:
    def require_life() -> None:
        raise LocalQuorumError("node 1 ended")

    with pytest.raises(LocalQuorumError, match="node 1 ended"):
        faults.wait_for_all(ground(tmp_path, is_dynamic=False), require_life)


def test_a_crowd_says_its_words_and_goes_away() -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        with closing(Crowd(port, 3, b"words")):
            accepted = [server.accept()[0] for _ in range(3)]
            assert [each.recv(100) for each in accepted] == [b"words"] * 3
        assert [each.recv(100) for each in accepted] == [b""] * 3
        for each in accepted:
            each.close()


def test_a_crowd_waits_for_nobody() -> None:
    with socket.create_server((HOST, 0), backlog=1) as server:
        with closing(Crowd(server.getsockname()[1], 50, b"words")):
            pass
        port = server.getsockname()[1]
    with closing(Crowd(port, 3, b"words")), closing(Crowd(port, 3)):
        pass


def test_a_greedy_reader_asks_for_everything() -> None:
    words = greedy_words()
    bodies = []
    while words:
        size_bytes = int.from_bytes(words[:4])
        request, words = words[4 : 4 + size_bytes], words[4 + size_bytes :]
        header = decode_request_header(request)
        assert header.api_key == ApiKey.FETCH
        bodies.append(decode_request_body(header, request))
    assert len(bodies) == FETCHES_PER_READER
    assert {body["max_bytes"] for body in bodies} == {2**31 - 1}
    assert bodies[0]["topics"][0]["topic"] == "__raft_performance_test"
