"""An embedded node transfers its leadership, on the application's loop and in its own thread."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pykraft.client import Admin, Node
from pykraft.errors import ErrorCode, NotLeaderError, NotRunningError, RefusedError, UsageError
from tests.client.nodes import BOTH, QUICK, config_of, leader_of, quorum, run

PATIENT = replace(QUICK, election_timeout_ms=1_000, fetch_timeout_ms=10_000, election_backoff_max_ms=10_000)
"""Nobody else campaigns because something is slow."""


@BOTH
def test_a_voter_of_ones_choice_leads(tmp_path: Path, own_thread: bool) -> None:
    async def main() -> None:
        async with quorum(tmp_path, 5, own_thread=own_thread, raft=PATIENT) as nodes:
            leader = await leader_of(nodes)
            await leader.propose(["a"])
            for target in nodes:
                if target.node_id is None or target is leader:
                    continue
                await leader.transfer_leadership(target.node_id, timeout_ms=10_000)
                assert leader.leader_and_epoch.leader_id == target.node_id
                assert await leader_of(nodes) is target
                leader = target
            assert (await leader.propose(["b"])).count == 1

    run(main)


def test_what_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with quorum(tmp_path) as nodes:
            leader = await leader_of(nodes)
            follower = next(node for node in nodes if node is not leader)
            assert leader.node_id is not None
            assert follower.node_id is not None
            with pytest.raises(NotLeaderError, match=f"the leader is node {leader.node_id}"):
                await follower.transfer_leadership(follower.node_id)
            for wrong, code in ((leader.node_id, ErrorCode.ELECTION_NOT_NEEDED), (9, ErrorCode.VOTER_NOT_FOUND)):
                with pytest.raises(RefusedError) as refused:
                    await leader.transfer_leadership(wrong)
                assert refused.value.code == code
            for to, timeout_ms in ((-1, 100), (follower.node_id, -1), (follower.node_id, 60_001)):
                with pytest.raises(UsageError, match="it is a whole number from"):
                    await leader.transfer_leadership(to, timeout_ms=timeout_ms)

    run(main)


def test_a_target_that_is_down_leaves_the_leader_where_it_is(tmp_path: Path) -> None:
    async def main() -> None:
        async with quorum(tmp_path, raft=PATIENT) as nodes:
            leader = await leader_of(nodes)
            target = next(node for node in nodes if node is not leader)
            assert target.node_id is not None
            await target.close()
            with pytest.raises(RefusedError, match="has not fetched since: is it running"):
                await leader.transfer_leadership(target.node_id, timeout_ms=50)
            assert (await leader.propose(["a"])).count == 1

    run(main)


def test_an_operator_can_do_it_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with quorum(tmp_path, raft=PATIENT) as nodes, Admin([node.endpoint for node in nodes]) as admin:
            leader = await leader_of(nodes)
            target = next(node for node in nodes if node is not leader)
            assert target.node_id is not None
            epoch = await admin.transfer_leadership(target.node_id, timeout_ms=10_000)
            assert await leader_of(nodes) is target
            assert target.leader_and_epoch.epoch == epoch
            with pytest.raises(RefusedError, match="already leads"):
                await admin.transfer_leadership(target.node_id)

    run(main)


def test_a_node_that_does_not_run_has_nothing_to_give(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(NotRunningError):
            await Node(config_of(tmp_path)).transfer_leadership(2)

    run(main)
