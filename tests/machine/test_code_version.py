"""Old and new code in one quorum: a new command waits until all voters know it, and old code never meets one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from pykraft.client import configure
from pykraft.errors import BufferFullError, CodeVersionError, NotAppliedError, PykraftError, UsageError
from pykraft.local.voters import free_ports
from pykraft.machine import Replicated, StateMachine
from pykraft.machine.records import CommandRecord, OpenRecord, TickRecord, VersionRecord, encode_log_record
from pykraft.machine.replica import CommandAnswered, CommandVerdict, MachineReplica
from pykraft.sim.run.world import Outcome
from pykraft.types import Epoch, Offset
from tests.client.nodes import QUICK, TIMEOUT_S, alone
from tests.machine.counters import Add, Counters, load
from tests.machine.testing.upgrades import NewCounters, Scale, UpgradeWorkload, run_upgrade


class Quorum:
    """Three nodes, each of which can be restarted with other code."""

    def __init__(self, folder: Path) -> None:
        voters = {node_id: f"127.0.0.1:{port}" for node_id, port in enumerate(free_ports(3), 1)}
        self._configs = {at: configure(folder / f"n{at}", node_id=at, voters=voters, raft=QUICK) for at in voters}
        self.nodes: dict[int, Replicated[Any]] = {}

    async def restart(self, node_id: int, machine: StateMachine[Any, Any]) -> Replicated[Any]:
        if node_id in self.nodes:
            with suppress(CodeVersionError):
                await self.nodes.pop(node_id).close()
        node = self.nodes[node_id] = Replicated(self._configs[node_id], machine)
        await node.initialize()
        return node


@asynccontextmanager
async def quorum(folder: Path) -> AsyncIterator[Quorum]:
    """Three nodes with old code."""
    made = Quorum(folder)
    try:
        for node_id in (1, 2, 3):
            await made.restart(node_id, Counters())
        yield made
    finally:
        for node in made.nodes.values():
            with suppress(PykraftError):
                await node.close()


async def test_a_rolling_upgrade(tmp_path: Path) -> None:
    async with quorum(tmp_path) as nodes:
        assert await nodes.nodes[1].execute(Add("x", 1)) == 1
        upgraded = await nodes.restart(2, NewCounters())
        assert await upgraded.execute(Add("x", 1), timeout_ms=20_000) == 2
        with pytest.raises(NotAppliedError, match="version 1 of the code, and the nodes have agreed on 0 only, 200 ms"):
            await upgraded.execute(Scale("x", 10), timeout_ms=200)
        await nodes.restart(3, NewCounters())
        waiting = asyncio.ensure_future(upgraded.execute(Scale("x", 10), timeout_ms=20_000))
        assert await nodes.nodes[1].execute(Add("x", 1), timeout_ms=20_000) == 3, "the old node serves on"
        assert not waiting.done()
        await nodes.restart(1, NewCounters())
        assert await waiting == 30
        assert await nodes.nodes[1].execute(Add("x", 1), timeout_ms=20_000) == 32, "the new effect of an old command"
        # Back to old code: it ends before the first command that it does not know.
        old = await nodes.restart(3, Counters())
        with pytest.raises(CodeVersionError, match="the quorum has agreed on version 1"):
            async with asyncio.timeout(TIMEOUT_S):
                await old.node.wait_closed()
        again = await nodes.restart(3, NewCounters())
        assert await again.execute(Scale("x", 2), timeout_ms=20_000) == 64


async def test_versions_are_asked_by_id_and_never_forwarded(tmp_path: Path) -> None:
    async with Replicated(alone(tmp_path), NewCounters()) as node:
        await node.execute(Scale("x", 2))
        end = node.node.log_end_offset
        connection = node._forwarder._reads
        endpoint = node.node.endpoint
        for version, code in ((1, 0), (2, 42)):
            answer = await connection._answered(endpoint, [encode_log_record(VersionRecord(0, version))])
            assert answer["error_code"] == code
            if not code:
                assert answer["offset"] == NewCounters.code_version
        assert node.node.log_end_offset == end


async def test_a_machine_says_what_it_knows(tmp_path: Path) -> None:
    class Forgetful(NewCounters):
        code_version = 0

    async with Replicated(alone(tmp_path), Forgetful()) as node:
        with pytest.raises(UsageError, match="version_of says 1, and code_version is 0: increase code_version"):
            await node.execute(Scale("x", 2))

    class Odd(Counters):
        code_version = -1

    with pytest.raises(UsageError, match="code_version"):
        Replicated(alone(tmp_path), Odd())


class Log:
    """A log and a replica with new code."""

    def __init__(self) -> None:
        self.replica: MachineReplica[Any, int] = MachineReplica(NewCounters())
        self.end = 0
        self.add(OpenRecord(0, bytes(16)))

    def add(self, record: Any) -> Any:
        offset, self.end = self.end, self.end + 1
        return self.replica.apply(encode_log_record(record), Offset(offset), Epoch(1))

    def scale(self, sequence: int) -> tuple[CommandVerdict, bytes]:
        news = self.add(CommandRecord(0, 0, sequence, 0, NewCounters.commands.serialize(Scale("x", 2))))
        assert isinstance(news, CommandAnswered)
        return news.answer.verdict, news.answer.value


def test_a_command_that_another_leader_let_in_too_early_is_rejected_on_all_replicas() -> None:
    log = Log()
    verdict, text = log.scale(0)
    assert verdict is CommandVerdict.REJECTED
    assert text == b"the command needs version 1 of the code, and all nodes have agreed on 0 only"
    log.add(VersionRecord(0, 1))
    log.add(VersionRecord(0, 0))
    assert log.scale(1) == (CommandVerdict.APPLIED, b"0")


def test_a_leader_lets_no_command_in_before_all_know_it() -> None:
    log = Log()
    data = NewCounters.commands.serialize(Scale("x", 2))
    with pytest.raises(BufferFullError, match=r"needs version 1 of the code, .*: execute it later"):
        log.replica.read_ahead([data])
    log.add(VersionRecord(0, 1))
    log.replica.read_ahead([data])


def test_a_snapshot_carries_the_version_and_old_code_refuses_it() -> None:
    log = Log()
    log.add(VersionRecord(0, 1))
    saved = [*log.replica.save()]
    other: MachineReplica[Any, int] = MachineReplica(NewCounters())
    load(other, saved)
    assert other.code_version == 1
    assert [*other.save()] == saved
    old: MachineReplica[Any, int] = MachineReplica(Counters())
    with pytest.raises(CodeVersionError) as raised:
        load(old, saved)
    assert (raised.value.known, raised.value.agreed) == (0, 1)
    with pytest.raises(CodeVersionError):
        old.apply(encode_log_record(VersionRecord(0, 1)), Offset(5), Epoch(1))


def test_without_versions_snapshots_are_those_of_before() -> None:
    replica: MachineReplica[Any, int] = MachineReplica(Counters())
    replica.apply(encode_log_record(TickRecord(7)), Offset(0), Epoch(1))
    [head] = replica.save()
    assert head == bytes.fromhex("0110 0000000000000007 0000000000000000")


@pytest.mark.sim
@pytest.mark.parametrize("seed", [1, 6])
def test_worlds_with_old_and_new_code_pass(seed: int) -> None:
    scaled: list[int] = []

    def count(workload: UpgradeWorkload) -> None:
        scaled.append(workload.scaled)

    outcome = run_upgrade(seed, seen=count)
    assert isinstance(outcome, Outcome), outcome
    assert scaled[0] > 0
