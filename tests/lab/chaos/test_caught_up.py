"""All nodes have caught up when the leader says so of each: by id, of dynamic voters also by directory id."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from lab.chaos import caught_up
from pykraft.errors import LocalQuorumError, PykraftError
from pykraft.log.small_files.meta import FILE_NAME
from pykraft.types import NodeId, ReplicaKey, Uuid, uuid_text

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


@pytest.mark.parametrize(
    ("is_dynamic", "left"),
    [(False, 2), (True, 0)],
    ids=["static", "dynamic"],
)
def test_every_node_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_dynamic: bool, left: int) -> None:
    says = Described(
        None,
        ([(key(FORMER), 9), (key(OURS), 9)], [(key(FORMER), 10)]),
        ([(key(FORMER), 10), (key(OURS), 9)], []),
        ([], [(key(OURS), 10)]),
        ([(key(OURS), 11)], []),
    )
    monkeypatch.setattr(caught_up, "Admin", lambda *_, **__: says)
    caught_up.wait_for_all(ground(tmp_path, is_dynamic=is_dynamic), lambda: None)
    assert len(says.answers) == left


def test_a_static_voter_with_a_new_directory_observes_until_the_next_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = Described(([(key(FORMER), 9)], [(key(OURS), 9)]), ([(key(FORMER), 9)], [(key(OURS), 10)]))
    monkeypatch.setattr(caught_up, "Admin", lambda *_, **__: says)
    caught_up.wait_for_all(ground(tmp_path, is_dynamic=False), lambda: None)
    assert says.answers == []


def test_an_emptied_directory_has_nothing(tmp_path: Path) -> None:
    emptied = ground(tmp_path, is_dynamic=False)
    (tmp_path / FILE_NAME).unlink()
    quorum: Any = SimpleNamespace(voters=[], observers=[SimpleNamespace(key=key(OURS), log_end_offset=10)])
    assert not caught_up._has_all(quorum, 10, emptied.cluster.replicas[1], emptied)


def test_a_node_that_ends_ends_the_wait(tmp_path: Path) -> None:
    def require_life() -> None:
        raise LocalQuorumError("node 1 ended")

    with pytest.raises(LocalQuorumError, match="node 1 ended"):
        caught_up.wait_for_all(ground(tmp_path, is_dynamic=False), require_life)
