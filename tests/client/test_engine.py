"""A caller's mistake goes back to the caller, any other error ends the node; leader and epoch are told together."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.client import LeaderAndEpoch, Node, text_serde
from pykraft.client.engine import Engine
from pykraft.errors import NotRunningError, PykraftError, UsageError
from pykraft.host.host import Host
from pykraft.types import Epoch, NodeId
from tests.client.nodes import BOTH, alone, run


def test_an_engine_that_has_not_begun_knows_nothing_and_takes_no_calls() -> None:
    engine = Engine()
    refusals: list[PykraftError] = []
    engine.call(lambda host: pytest.fail("called"), refusals.append)
    assert [type(error) for error in refusals] == [NotRunningError]
    assert (engine.host, engine.acting_leader, engine.high_watermark) == (None, None, None)
    assert engine.leader_and_epoch == LeaderAndEpoch(None, Epoch(0))
    engine.leave(1)
    engine.fail(ValueError())


def test_what_the_caller_did_wrong_goes_back_to_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node(alone(tmp_path), text_serde) as node:
            refusals: list[PykraftError] = []

            def wrong(host: Host) -> None:
                raise UsageError(f"node {host.node_id} will not")

            node._life.engine.call(wrong, refusals.append)
            assert [str(error) for error in refusals] == ["node 1 will not"]

    run(main)


@BOTH
def test_what_else_a_call_raises_ends_the_node(tmp_path: Path, own_thread: bool) -> None:
    def bug(host: Host) -> None:
        raise AssertionError("our own bug")

    async def main() -> None:
        node = Node(alone(tmp_path), text_serde, own_thread=own_thread)
        await node.initialize()
        node.call_host(bug)
        with pytest.raises(AssertionError, match="our own bug"):
            await node.wait_closed()

    run(main)


class Changing:
    """A host whose epoch rises while one looks."""

    node_id = NodeId(1)
    role = "leader"

    def __init__(self) -> None:
        self._epochs = iter([Epoch(1), Epoch(2), Epoch(2), Epoch(2)])
        self._leaders = iter([NodeId(1), NodeId(2)])

    @property
    def epoch(self) -> Epoch:
        return next(self._epochs)

    @property
    def leader_id(self) -> NodeId:
        return next(self._leaders)


def test_a_leader_is_never_told_with_the_epoch_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Changing()
    monkeypatch.setattr(Engine, "host", host)
    assert Engine().leader_and_epoch == LeaderAndEpoch(NodeId(2), Epoch(2))


def test_who_has_resigned_is_no_leader_to_speak_to(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Changing()
    host._epochs, host._leaders = iter([Epoch(1)] * 2), iter([NodeId(1)])
    monkeypatch.setattr(host, "role", "resigned", raising=False)
    monkeypatch.setattr(Engine, "host", host)
    assert Engine().acting_leader is None
