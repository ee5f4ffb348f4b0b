"""Without room for snapshots nodes must say so and go on; one that ends because of a snapshot is a failure."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.chaos import snapshot_room
from lab.chaos.second_process import STORAGE_FAILED
from lab.chaos.snapshot_room import ALARM, BOOTSTRAP, INDEX_BYTES, LOG_BYTES, SMALL_FILE_BYTES, SnapshotRoom
from pykraft.errors import LocalQuorumError

LOG, SNAPSHOT = "00000000000000000000.log", "00000000000000000100-0000000001.checkpoint"


class Scene:
    """Two nodes on disks, and what was done to them."""

    def __init__(self, folder: Path) -> None:
        self.said: list[object] = []
        self.nodes = {node_id: self._node(folder / f"n{node_id}", node_id) for node_id in (1, 2)}
        journal = SimpleNamespace(
            mark=lambda: 7, wait_for_acknowledged=lambda count, since: self.said.append("goes on")
        )
        disks = SimpleNamespace(
            fill=lambda index: self.said.append(("fill", index)),
            make_room=lambda index: self.said.append(("room", index)),
        )
        ground: Any = SimpleNamespace(
            cluster=SimpleNamespace(nodes=self.nodes, journal=journal), disks=disks, disk_indexes={1: 0, 2: 1}
        )
        self.steps: list[Callable[[], None]] = []
        """What happens between two looks of the room."""
        self.room = SnapshotRoom(ground, self._happen)

    def _happen(self) -> None:
        if self.steps:
            self.steps.pop(0)()

    def report(self, *node_ids: int) -> None:
        for node_id in node_ids:
            with self.nodes[node_id].log_path.open("a") as log:
                log.write(f"ERROR {ALARM}No space left on device\n")

    def _node(self, home: Path, node_id: int) -> Any:
        partition = home / "topic-0"
        partition.mkdir(parents=True)
        for name in (LOG, "00000000000000000000.index", "recovery-point", BOOTSTRAP):
            (partition / name).write_bytes(bytes(100))
        (home / "node.log").write_text(f"ERROR {ALARM}earlier\n")
        return SimpleNamespace(
            node_id=node_id, partition=partition, log_path=home / "node.log", process=SimpleNamespace(status=None)
        )


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_every_node_says_so_and_goes_on(scene: Scene) -> None:
    scene.steps = [lambda: None, lambda: scene.report(1), lambda: scene.report(2)]
    scene.room.take()
    assert scene.said == [("fill", 0), ("fill", 1)] * 3 + ["goes on"]
    assert scene.steps == []


def test_files_have_room_that_only_they_can_use(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    monkeypatch.setattr(snapshot_room, "call", lambda name, opened, mode, start, end: given.append(end.value))
    snapshot_room._reserve(scene.nodes[1].partition)
    assert sorted(given) == [SMALL_FILE_BYTES, INDEX_BYTES, 100 + LOG_BYTES]


def test_room_beyond_the_end_changes_no_size(tmp_path: Path) -> None:
    path = tmp_path / LOG
    path.write_bytes(bytes(100))
    snapshot_room._allocate(path, 1 << 20)
    assert path.stat().st_size == 100
    assert path.stat().st_blocks * 512 >= 1 << 20


def test_a_node_that_ends_because_of_a_snapshot_is_a_failure(scene: Scene) -> None:
    node = scene.nodes[2]
    node.process.status = STORAGE_FAILED
    with node.log_path.open("a") as log:
        log.write(f"pykraft: {SNAPSHOT}.part: cannot write: No space left on device\n")
    with pytest.raises(LocalQuorumError, match=r"node 2 ended without room for a snapshot: pykraft: 0.*part"):
        scene.room.take()


def test_a_node_that_had_no_room_for_something_else_is_no_longer_waited_for(scene: Scene) -> None:
    """An election in this moment writes new files, for which there is no room either."""
    node = scene.nodes[2]
    node.process.status = STORAGE_FAILED
    with node.log_path.open("a") as log:
        log.write("pykraft: quorum-state.tmp: cannot write: No space left on device\n")
    scene.steps = [lambda: scene.report(1)]
    scene.room.take()
    assert "goes on" not in scene.said
    node.process.status = 1
    with pytest.raises(LocalQuorumError, match="node 2 ended"):
        scene.room.take()


def test_with_room_each_node_writes_a_snapshot_which_is_removed(scene: Scene) -> None:
    partitions = [node.partition for node in scene.nodes.values()]
    scene.steps = [lambda: None, *((partition / SNAPSHOT).touch for partition in partitions)]
    scene.room.give()
    assert scene.said == [("room", 0), ("room", 1)]
    (partitions[0] / f"{SNAPSHOT}.part").touch()
    scene.room.remove_snapshots()
    for partition in partitions:
        assert {path.name for path in partition.iterdir()} == {
            LOG,
            "00000000000000000000.index",
            "recovery-point",
            BOOTSTRAP,
        }
