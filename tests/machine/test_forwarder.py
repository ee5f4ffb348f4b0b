"""Callers on any node: forwarded to the leader, applied once, read without staleness, and refused in clear words."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pykraft.client import Node as PlainNode
from pykraft.client import configure
from pykraft.client.remote.connection import Connection
from pykraft.core.leader import serving
from pykraft.core.on import fetch_request
from pykraft.core.state import Leader as LeaderState
from pykraft.errors import (
    NotAppliedError,
    NotRunningError,
    OutcomeUnknownError,
    PykraftError,
    QuorumUnavailableError,
    RefusedError,
    UnreachableError,
    UsageError,
)
from pykraft.machine import Replicated
from pykraft.protocol.messages import ApiKey
from pykraft.types import Offset
from tests.client.nodes import BOTH, QUICK, config_of, voters_of
from tests.machine.counters import Add, Counters, Node, leader_of, machines, make_leader, next_turn, state_of


@BOTH
async def test_every_node_executes_and_reads(tmp_path: Path, own_thread: bool) -> None:
    async with machines(tmp_path, own_thread=own_thread) as nodes:
        await leader_of(nodes)
        for turn in range(5):
            for at, node in enumerate(nodes):
                assert await node.execute(Add("x", 1)) == 3 * turn + at + 1
                for other in nodes:
                    async with other.read() as state:
                        assert state.totals == {"x": 3 * turn + at + 1}
        totals = await asyncio.gather(*(node.execute(Add("y", 1)) for node in nodes for _ in range(100)))
        assert sorted(totals) == [*range(1, 301)]


async def test_records_that_wait_share_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whoever became leader while a busy machine stopped the loop would ask nobody.
    async with machines(tmp_path, raft=replace(QUICK, fetch_timeout_ms=100_000)) as nodes:
        leader = await leader_of(nodes)
        follower = next(node for node in nodes if node is not leader)
        await follower.execute(Add("x", 1))
        asked: list[ApiKey] = []
        ask: Callable[..., Any] = Connection.ask_body

        async def counting(self: Connection, key: ApiKey, *arguments: Any, **others: Any) -> Any:
            asked.append(key)
            return await ask(self, key, *arguments, **others)

        monkeypatch.setattr(Connection, "ask_body", counting)
        follower._submission.group_size_bytes_max = 2_000  # about 27 of these commands
        await asyncio.gather(*(follower.execute(Add("x", 1)) for _ in range(100)))
        assert state_of(follower).totals == {"x": 101}
        assert 4 <= len(asked) <= 12


@BOTH
async def test_a_follower_answers_its_callers_while_the_leader_holds_the_high_watermark_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_thread: bool
) -> None:
    raft = replace(QUICK, fetch_timeout_ms=100_000, fetch_wait_ms_max=30_000)
    async with machines(tmp_path, raft=raft, own_thread=own_thread) as nodes:
        leader = await leader_of(nodes)
        # Longer than any caller waits: a Fetch brings no commit without records.
        for module in (serving, fetch_request):
            monkeypatch.setattr(module, "HIGH_WATERMARK_WAIT_MS", 30_000)
        monkeypatch.setattr(LeaderState, "advances_every", lambda *_: True)
        for turn in range(5):
            follower, other = [node for node in nodes if node is not leader]
            assert await follower.execute(Add("x", 1)) == 2 * turn + 1
            assert await other.execute(Add("x", 1)) == 2 * turn + 2
            async with follower.read() as state:
                assert state.totals == {"x": 2 * turn + 2}


async def test_commands_of_followers_survive_elections(tmp_path: Path) -> None:
    async with machines(tmp_path) as nodes:
        first = await leader_of(nodes)
        followers = [node for node in nodes if node is not first]
        calls = [asyncio.create_task(node.execute(Add("x", 1))) for node in followers for _ in range(20)]
        await followers[0].execute(Add("x", 1))
        calls += [asyncio.create_task(node.execute(Add("x", 1))) for node in followers for _ in range(20)]
        await first.close()
        calls += [asyncio.create_task(node.execute(Add("x", 1))) for node in followers for _ in range(20)]
        await asyncio.gather(*calls)
        async with followers[1].read() as state:
            assert state.totals == {"x": 121}


async def test_a_forwarded_command_whose_answer_was_lost_is_applied_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with machines(tmp_path) as nodes:
        leader = await leader_of(nodes)
        follower = next(node for node in nodes if node is not leader)
        ask: Callable[..., Any] = Connection.ask_body
        asked = []

        async def lossy(self: Connection, *arguments: Any, **others: Any) -> Any:
            asked.append(1)
            answer = await ask(self, *arguments, **others)
            if len(asked) % 2:
                await self.close()
                raise UnreachableError(self.endpoint, "it closed the connection")
            return answer

        monkeypatch.setattr(Connection, "ask_body", lossy)
        for total in range(1, 6):
            assert await follower.execute(Add("x", 1)) == total
        async with follower.read() as state:
            assert state.totals == {"x": 5}


async def test_a_leader_without_the_state_machine_is_an_error_that_says_so(tmp_path: Path) -> None:
    plain = PlainNode(config_of(tmp_path, 1))
    node = Replicated(config_of(tmp_path, 2), Counters())
    await plain.bind()
    await node.bind()
    voters = voters_of([plain, node.node])
    await plain.initialize(voters)
    await node.initialize(voters)
    while (await plain.wait_for_leader()).leader_id != 1:
        try:
            await node.node.transfer_leadership(1, timeout_ms=10_000)
        except PykraftError:
            continue
    while (await node.node.wait_for_leader()).leader_id != 1:
        pass
    with pytest.raises(NotAppliedError, match="leads, and takes no commands of other nodes: it runs Kafka, or"):
        await node.execute(Add("x", 1))
    with pytest.raises(RefusedError, match="takes no commands of other nodes"):
        async with node.read():
            pass
    await node.close()
    await plain.close()


async def test_the_end_of_the_node_answers_everybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def enter(node: Replicated[Counters]) -> None:
        async with node.read():
            pass

    async with machines(tmp_path) as nodes:
        leader = await leader_of(nodes)
        follower = next(node for node in nodes if node is not leader)
        await follower.execute(Add("x", 1))
        asked = asyncio.Event()

        async def silent(*_: Any, **__: Any) -> Any:
            asked.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(Connection, "ask_body", silent)
        calls = [asyncio.create_task(follower.execute(Add("x", 1)))]
        await asked.wait()
        calls.append(asyncio.create_task(follower.execute(Add("y", 1))))
        read = asyncio.create_task(enter(follower))
        await asyncio.wait([read], timeout=0.01)
        await follower.close()
        errors = await asyncio.gather(*calls, read, return_exceptions=True)
        assert {type(error) for error in errors[:2]} == {OutcomeUnknownError}
        assert all(isinstance(error, PykraftError) for error in errors)


async def test_an_old_connection_is_replaced_after_a_change_of_leader(tmp_path: Path) -> None:
    async with machines(tmp_path) as nodes:
        await leader_of(nodes)
        caller = nodes[0]
        for total, node in enumerate((nodes[1], nodes[2], nodes[0], nodes[1]), 1):
            await make_leader(node, nodes)
            assert await caller.execute(Add("x", 1)) == total


async def test_callers_that_are_gone_have_no_records_in_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with machines(tmp_path) as nodes:
        leader = await leader_of(nodes)
        follower = next(node for node in nodes if node is not leader)
        await follower.execute(Add("x", 1))
        monkeypatch.setattr(follower._forwarder, "_turns", asyncio.Semaphore(0))
        gone = asyncio.create_task(follower.execute(Add("gone", 1)))
        await next_turn()
        gone.cancel()
        await asyncio.wait([gone])
        kept = asyncio.create_task(follower.execute(Add("kept", 1)))  # in the group that nobody waits for any more
        await next_turn()
        follower._forwarder._turns.release()
        assert await kept == 1
        assert state_of(follower).totals == {"x": 1, "kept": 1}


def counted(node: Node, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When confirmations begin, from now on."""
    ask: Callable[[], Awaitable[Offset]] = node._reads._ask
    begun: list[float] = []

    async def counting() -> Offset:
        begun.append(asyncio.get_running_loop().time())
        return await ask()

    monkeypatch.setattr(node._reads, "_ask", counting)
    return begun


@BOTH
async def test_a_read_has_every_command_that_was_answered_before(tmp_path: Path, own_thread: bool) -> None:
    async with machines(tmp_path, own_thread=own_thread) as nodes:
        leader = await leader_of(nodes)
        for total in range(1, 20):
            await leader.execute(Add("x", 1))
            async with leader.read() as state:
                assert state.totals == {"x": total}


async def test_reads_that_wait_share_a_confirmation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with machines(tmp_path) as nodes:
        leader = await leader_of(nodes)
        await leader.execute(Add("x", 1))
        begun = counted(leader, monkeypatch)

        async def read() -> int:
            async with leader.read() as state:
                return state.totals["x"]

        first = asyncio.create_task(read())
        await next_turn()
        assert len(begun) == 1
        assert await asyncio.gather(first, *(read() for _ in range(100))) == [1] * 101
        assert len(begun) == 2  # those that came during the first confirmation share the second


async def test_the_only_voter_reads_at_once(tmp_path: Path) -> None:
    async with machines(tmp_path, 1) as [node]:
        await node.execute(Add("x", 1))
        async with node.read(timeout_ms=5_000) as state:
            assert state.totals == {"x": 1}


async def test_a_leader_without_a_majority_does_not_answer(tmp_path: Path) -> None:
    async with machines(tmp_path) as nodes:
        leader = await leader_of(nodes)
        await leader.execute(Add("x", 1))
        for node in nodes:
            if node is not leader:
                await node.close()
        with pytest.raises(QuorumUnavailableError, match="no leader confirmed within 100 ms"):
            async with leader.read(timeout_ms=100):
                raise AssertionError("nobody can confirm it")
        async with leader.read(stale=True) as state:
            assert state.totals == {"x": 1}


async def test_a_stale_read_asks_nobody_if_it_is_young_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with machines(tmp_path, 1) as [node]:
        await node.execute(Add("x", 1))
        begun = counted(node, monkeypatch)
        for _ in range(3):
            async with node.read(stale=True, max_age_ms=60_000) as state:
                assert state.totals == {"x": 1}
        assert len(begun) == 1
        async with node.read(stale=True, max_age_ms=0), node.read():
            assert len(begun) == 3


async def test_without_a_leader_a_read_says_so(tmp_path: Path) -> None:
    async def enter(node: Node) -> None:
        async with node.read():
            pass

    voters = {1: "127.0.0.1:0", 2: "127.0.0.1:1", 3: "127.0.0.1:2"}
    node = Replicated(configure(tmp_path / "n1", node_id=1, voters=voters, raft=QUICK), Counters())
    await node.initialize()
    with pytest.raises(QuorumUnavailableError, match=r"100 ms .*\(the last try: this node does not lead"):
        async with node.read(timeout_ms=100):
            pass
    async with node.read(stale=True) as state:
        assert state.totals == {}
    waiting = asyncio.create_task(enter(node))
    await next_turn()
    await node.close()
    with pytest.raises(NotRunningError):
        await waiting
    with pytest.raises(NotRunningError):
        await enter(node)


@pytest.mark.parametrize("wrong", [{"timeout_ms": 0}, {"max_age_ms": 5}, {"stale": True, "max_age_ms": -1}])
async def test_wrong_arguments_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    async with machines(tmp_path, 1) as [node]:
        with pytest.raises(UsageError):
            async with node.read(**wrong):
                pass
