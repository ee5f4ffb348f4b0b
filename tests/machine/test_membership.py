"""Voters change from inside while commands are executed: nodes join, replace others, leave, and move."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pykraft import errors
from pykraft.machine import Replicated
from pykraft.machine.membership import Membership
from pykraft.types import NodeId, ReplicaKey, Uuid
from tests.client.nodes import config_of, voters_of
from tests.machine.counters import Add, Counters, Node, leader_of, machines


async def follower(folder: Path, node_id: int | None, nodes: list[Node], stack: AsyncExitStack) -> Node:
    """A node that knows these voters and is none of them."""
    node = Replicated(config_of(folder, node_id), Counters())
    await node.bind()
    await node.initialize(voters_of([each.node for each in nodes]))
    stack.push_async_callback(node.close)
    return node


async def ids(node: Node) -> list[int]:
    return sorted(int(voter.key.id) for voter in (await node.membership.describe()).voters)


async def test_a_node_joins_and_another_one_is_replaced(tmp_path: Path) -> None:
    async with machines(tmp_path) as nodes, AsyncExitStack() as stack:
        leader = await leader_of(nodes)
        await leader.execute(Add("x", 1))
        await leader.membership.allow_changes()
        fourth = await follower(tmp_path, 4, nodes, stack)
        assert await fourth.execute(Add("x", 1)) == 2  # it has no vote, and works
        await fourth.membership.join()
        assert await ids(fourth) == [1, 2, 3, 4]
        await fourth.membership.join()  # nothing is left to do
        fifth = await follower(tmp_path, 5, nodes, stack)
        await leader.close()
        gone = leader.node.node_id
        assert gone is not None
        await fifth.membership.replace(gone)
        assert await ids(fifth) == sorted({1, 2, 3, 4, 5} - {gone})
        assert await fifth.execute(Add("x", 1)) == 3
        with pytest.raises(errors.UsageError, match=f"node {gone} is not a voter: the voters are"):
            await fifth.membership.remove(gone)
        with pytest.raises(errors.UsageError, match="node 5 cannot replace itself"):
            await fifth.membership.replace(5)


async def test_a_leader_removes_itself(tmp_path: Path) -> None:
    async with machines(tmp_path) as nodes:
        leader = await leader_of(nodes)
        await leader.membership.allow_changes()
        assert leader.node.node_id is not None
        await leader.membership.remove(leader.node.node_id)
        rest = [node for node in nodes if node is not leader]
        assert await rest[0].execute(Add("x", 1)) == 1
        assert await ids(rest[0]) == sorted(int(node.node.node_id or 0) for node in rest)


async def test_a_voter_comes_back_at_another_address(tmp_path: Path) -> None:
    async with machines(tmp_path) as nodes, AsyncExitStack() as stack:
        leader = await leader_of(nodes)
        await leader.membership.allow_changes()
        moved = next(node for node in nodes if node is not leader)
        before, node_id = moved.node.endpoint, moved.node.node_id
        assert node_id is not None
        await moved.close()
        again = await follower(tmp_path, node_id, [node for node in nodes if node is not moved], stack)
        assert again.node.endpoint != before
        while leader.node.voter_node(node_id) != again.node.endpoint:
            await again.execute(Add("x", 1))
        assert await ids(again) == [1, 2, 3]


async def test_what_cannot_be_changed_is_refused(tmp_path: Path) -> None:
    async with machines(tmp_path, 1) as [node], AsyncExitStack() as stack:
        await node.execute(Add("x", 1))
        other = await follower(tmp_path, 2, [node], stack)
        with pytest.raises(errors.PykraftError):  # the voters are not in the log
            await other.membership.join()
        nobody = await follower_without_id(tmp_path, node, stack)
        with pytest.raises(errors.UsageError, match="a node without an id only observes"):
            await nobody.membership.join()
        for wrong in (-1, "1", True):
            with pytest.raises(errors.UsageError, match="node_id"):
                await node.membership.remove(wrong)  # type: ignore[arg-type]
        hasty = Membership(node.node, config_of(tmp_path), timeout_ms=200)
        await node.close()
        with pytest.raises(errors.QuorumUnavailableError):
            await hasty.describe()


async def follower_without_id(folder: Path, node: Node, stack: AsyncExitStack) -> Node:
    observer = Replicated(config_of(folder, None), Counters())
    await observer.initialize(voters_of([node.node]))
    stack.push_async_callback(observer.close)
    return observer


class Voters:
    """An admin of a quorum with these voters, and a change that gets these answers."""

    def __init__(self, *keys: ReplicaKey) -> None:
        self.voters = [SimpleNamespace(key=key) for key in keys]
        late = errors.RefusedError("it", errors.ErrorCode.REQUEST_TIMED_OUT, None)
        self.answers: list[Exception] = [
            errors.OutcomeUnknownError("it"),
            errors.RefusedError("it", errors.ErrorCode.DUPLICATE_VOTER, None),
        ]
        self.answers[0].__cause__ = late

    async def describe_quorum(self) -> Voters:
        return self

    async def change(self) -> None:
        raise self.answers.pop(0)


async def test_a_repeated_change_that_is_refused_counts_as_made_if_it_is(tmp_path: Path) -> None:
    key = ReplicaKey(NodeId(7), Uuid(bytes(15) + b"7"))

    async def ask(admin: Any) -> None:
        membership = Membership(Any, config_of(tmp_path))  # type: ignore[arg-type]
        await membership._change(admin, admin.change, is_made=lambda voters: key in voters)

    await ask(Voters(key))
    with pytest.raises(errors.RefusedError, match="DUPLICATE_VOTER"):
        await ask(Voters(ReplicaKey(NodeId(7), Uuid(bytes(15) + b"8"))))
    lost = Voters(key)
    lost.answers[0].__cause__ = None
    with pytest.raises(errors.OutcomeUnknownError):
        await ask(lost)
