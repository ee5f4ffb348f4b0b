"""A second process must be told of or refused, and whose lock is gone must stop; anything else is a failure."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.chaos.second_process import ALARM, STORAGE_FAILED, Twin, require_stop, take_lock_away
from pykraft.errors import LocalQuorumError

REFUSED = "pykraft: .lock: cannot lock: another process, pid 1, uses this directory"


class Scene:
    """Two nodes whose leader is node 1, and a second process that ends as it is told to."""

    def __init__(self, folder: Path, *, status: int | None = None, text: str = "", end: int = STORAGE_FAILED) -> None:
        self.said: list[str] = []
        self.leader_id = 1
        self.nodes = {node_id: self._node(folder, f"n{node_id}", end) for node_id in (1, 2)}
        self.second = self._node(folder, "second", status)
        self.second.log_path.write_text(text)
        journal = SimpleNamespace(leader_id=lambda: self.leader_id)
        self.cluster: Any = SimpleNamespace(
            nodes=self.nodes, journal=journal, second_process=lambda node_id, data=None: self.second
        )

    def _node(self, folder: Path, name: str, status: int | None) -> Any:
        def wait(*, timeout_s: float) -> int:
            if status is None:
                raise subprocess.TimeoutExpired(name, timeout_s)
            self.said.append(f"{name} ended")
            return status

        process = SimpleNamespace(
            name=name,
            wait=wait,
            status=status,
            **{verb: self._verb(name, verb) for verb in ("pause", "resume", "kill")},
        )
        (folder / name / "data").mkdir(parents=True)
        (folder / name / "data" / ".lock").touch()
        (folder / name / "node.log").write_text(ALARM.format(2))  # of an earlier twin
        return SimpleNamespace(
            node_id=2,
            process=process,
            log_path=folder / name / "node.log",
            partition=folder / name / "data" / "topic-0",
            start=self._verb(name, "start"),
        )

    def _verb(self, name: str, verb: str) -> Callable[[], None]:
        return lambda: self.said.append(f"{verb} {name}")


def alive(failing_after: int) -> Callable[[], None]:
    """A check that fails when it was called so often before."""
    times = iter(range(failing_after))

    def require_life() -> None:
        if next(times, None) is None:
            raise LocalQuorumError("nobody told of the twin")

    return require_life


def test_an_alarm_about_the_twin_is_waited_for(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    twin = Twin(scene.cluster, scene.nodes[2])
    scene.second.process.status = None
    with pytest.raises(LocalQuorumError, match="nobody told"):
        twin.require_alarm(alive(3))
    with scene.nodes[1].log_path.open("a") as log:
        log.write(ALARM.format(2))
    twin.require_alarm(alive(1))
    twin.close()
    assert scene.said == ["start second", "kill second"]


def test_the_twin_of_a_new_leader_is_not_heard_of(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    twin = Twin(scene.cluster, scene.nodes[2])
    scene.leader_id = 2
    twin.require_alarm(alive(1))


def test_a_second_server_that_refuses_is_right(tmp_path: Path) -> None:
    scene = Scene(tmp_path, status=STORAGE_FAILED, text=REFUSED)
    take_lock_away(scene.cluster, scene.nodes[2])
    assert scene.said == ["pause n2", "start second", "second ended", "resume n2"]
    assert not (tmp_path / "n2" / "data" / ".lock").exists()


@pytest.mark.parametrize(("status", "text"), [(None, "serves"), (STORAGE_FAILED, "no room"), (1, REFUSED)])
def test_a_second_server_that_does_anything_else_is_a_failure(tmp_path: Path, status: int | None, text: str) -> None:
    scene = Scene(tmp_path, status=status, text=text)
    with pytest.raises(LocalQuorumError, match=f"node 2 ended with {status}, not with 3 because"):
        take_lock_away(scene.cluster, scene.nodes[2])
    assert ("kill second" in scene.said) == (status is None)
    assert scene.said[-1] == "resume n2"


def test_a_node_stops_when_its_lock_is_gone(tmp_path: Path) -> None:
    require_stop(Scene(tmp_path / "right").nodes[2])
    with pytest.raises(LocalQuorumError, match=r"node 2, whose \.lock is gone, ended with 1"):
        require_stop(Scene(tmp_path / "wrong", end=1).nodes[2])
