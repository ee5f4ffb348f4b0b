"""A quorum whose log has a command that ends every node gets over it, by a skip in the log."""

import asyncio
import json
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pykraft.cli.main import pykraft
from pykraft.client import configure
from pykraft.client.remote.admin import Admin
from pykraft.config import NodeConfig
from pykraft.errors import DeserializeError, PykraftError, RefusedError, ReplicasPartedError
from pykraft.local.voters import free_ports
from pykraft.machine import Applied, Replicated, log_skips
from pykraft.machine.log_skips import skip
from pykraft.machine.records import encode_command
from tests.client.nodes import QUICK, TIMEOUT_S
from tests.machine.counters import Add, Counters, leader_of, next_turn, state_of

POISON = b"\xff no command"


@pytest.fixture(autouse=True)
def _quick(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.CRITICAL, "pykraft")
    monkeypatch.setattr(log_skips, "SEARCH_S_MAX", 3.0)  # for the last node, which has no leader


def configs(folder: Path, count: int = 3) -> dict[int, NodeConfig]:
    voters = {node_id: f"127.0.0.1:{port}" for node_id, port in enumerate(free_ports(count), 1)}
    return {at: configure(folder / f"n{at}", node_id=at, voters=voters, raft=QUICK) for at in voters}


async def begin(known: Mapping[int, NodeConfig], **options: Any) -> list[Replicated[Counters]]:
    nodes = [Replicated(config, Counters(), **options) for config in known.values()]
    for each in nodes:
        await each.initialize()
    return nodes


async def end(nodes: Iterable[Replicated[Counters]]) -> None:
    for each in nodes:
        with suppress(PykraftError):
            await each.close()


async def ended_with(node: Replicated[Any]) -> BaseException:
    with pytest.raises(PykraftError) as raised:
        async with asyncio.timeout(TIMEOUT_S):
            await node.node.wait_closed()
    return raised.value


async def held(nodes: Iterable[Replicated[Counters]]) -> None:
    """Wait until all machines stand still."""
    while any(node._applier.held_at is None for node in nodes):
        await next_turn()


async def test_a_command_that_ends_every_node_is_skipped(tmp_path: Path) -> None:
    known = configs(tmp_path)
    nodes = await begin(known)
    assert await nodes[0].execute(Add("x", 1)) == 1
    leader = await leader_of(nodes)
    session = max(leader._replica._sessions)
    offset = (await leader.node.propose([encode_command(0, session, 500, 0, POISON)])).base_offset
    errors = await asyncio.gather(*map(ended_with, nodes))
    assert [error.offset for error in errors if isinstance(error, DeserializeError)] == [offset] * 3
    await end(nodes)

    # They end at every restart, or have no majority then; with machines that are held, the leader records the skip.
    nodes = await begin(known)
    ending = {asyncio.ensure_future(ended_with(node)) for node in nodes}
    done, rest = await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
    assert {type(each.result()) for each in done} == {DeserializeError}
    for each in rest:
        each.cancel()
    await end(nodes)
    nodes = await begin(known, hold_at=[offset])
    await held(nodes)
    await leader_of(nodes)
    bootstrap = [nodes[2].node.endpoint]
    async with Admin(bootstrap) as admin:
        with pytest.raises(RefusedError, match=f"does not stand before offset {offset + 1}"):
            await skip(admin, offset + 1)
    words = ["machine", "skip", "--bootstrap-controller", str(bootstrap[0]), "--offset", str(offset), "--json"]
    result = await asyncio.to_thread(CliRunner().invoke, pykraft, words)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["skippedOffset"] == offset
    assert await nodes[0].execute(Add("x", 1), timeout_ms=20_000) == 2
    async with Admin(bootstrap) as admin:
        with pytest.raises(RefusedError, match="nothing is skipped"):
            await skip(admin, offset)
    await end(nodes)

    # From now on the log says so, and nodes start as ever.
    nodes = await begin(known)
    assert await nodes[2].execute(Add("x", 1), timeout_ms=20_000) == 3
    await end(nodes)


async def test_a_command_that_would_hang_or_kill_is_held_before_it_is_applied(tmp_path: Path) -> None:
    class Deadly(Counters):
        def apply(self, command: Add, context: Applied) -> int:
            assert command.amount != 13, "it would have killed the process"
            return super().apply(command, context)

    known = configs(tmp_path, 1)
    [node] = await begin(known)
    assert await node.execute(Add("x", 13)) == 13
    offset = state_of(node).contexts[-1].offset
    await end([node])
    async with Replicated(known[1], Deadly(), hold_at=[offset]) as deadly:
        await held([deadly])
        async with Admin([deadly.node.endpoint]) as admin:
            await skip(admin, offset)
        assert await deadly.execute(Add("x", 1), timeout_ms=20_000) == 1
    # A node that applies it all the same does not go on as if nothing had been.
    applied = Replicated(known[1], Counters())
    await applied.initialize()
    assert isinstance(await ended_with(applied), ReplicasPartedError)
    await end([applied])
