"""A caller's mistake goes back to the caller, any other error ends the node; leader and epoch are of one status."""

import asyncio
from pathlib import Path

import pytest

from pykraft.client import LeaderAndEpoch, Node, text_serde
from pykraft.client.life import Engine
from pykraft.core.status import Status
from pykraft.errors import NotRunningError, PykraftError, UsageError
from pykraft.host.host import Host
from pykraft.types import Epoch, NodeId
from tests.client.nodes import BOTH, alone


def test_an_engine_that_has_not_begun_knows_nothing_and_takes_no_calls() -> None:
    engine = Engine()
    refusals: list[PykraftError] = []
    engine.call(lambda host: pytest.fail("called"), refusals.append)
    assert [type(error) for error in refusals] == [NotRunningError]
    assert (engine.host, engine.status) == (None, None)
    engine.leave(1)
    engine.fail(ValueError())


async def test_what_the_caller_did_wrong_goes_back_to_it(tmp_path: Path) -> None:
    async with Node(alone(tmp_path), text_serde) as node:
        refusals: list[PykraftError] = []

        def wrong(host: Host) -> None:
            raise UsageError(f"node {host.node_id} will not")

        node._life.engine.call(wrong, refusals.append)
        assert [str(error) for error in refusals] == ["node 1 will not"]


@BOTH
async def test_what_else_a_call_raises_ends_the_node(tmp_path: Path, own_thread: bool) -> None:
    def bug(host: Host) -> None:
        raise AssertionError("our own bug")

    node = Node(alone(tmp_path), text_serde, own_thread=own_thread)
    await node.initialize()
    node.call_host(bug)
    with pytest.raises(AssertionError, match="our own bug"):
        await node.wait_closed()


def test_leader_and_epoch_are_of_one_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node's thread may publish a new status between any two reads, so one read must do."""
    statuses = iter([Status(leader_id=NodeId(1), epoch=Epoch(1)), Status(leader_id=NodeId(2), epoch=Epoch(2))])
    monkeypatch.setattr(Engine, "status", property(lambda _: next(statuses)))
    node = Node(alone(tmp_path), text_serde)
    assert node.leader_and_epoch == LeaderAndEpoch(NodeId(1), Epoch(1))
    assert node.leader_and_epoch == LeaderAndEpoch(NodeId(2), Epoch(2))


async def test_a_leader_that_resigned_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Node(alone(tmp_path), text_serde) as node:
        await node.wait_for_leader()
        with monkeypatch.context() as patch:
            patch.setattr(Engine, "status", Status(role="resigned", leader_id=NodeId(1), epoch=Epoch(1)))
            waiting = asyncio.create_task(node.wait_for_leader())
            done, _ = await asyncio.wait([waiting], timeout=0)
            assert not done
            patch.setattr(Engine, "status", Status(role="follower", leader_id=NodeId(2), epoch=Epoch(2)))
            node._watch.wake()
            assert await waiting == LeaderAndEpoch(NodeId(2), Epoch(2))
