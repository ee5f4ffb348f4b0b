"""Records of a node's own: log time while it counts, and digests that find a replica that has parted."""

import asyncio
from itertools import count
from pathlib import Path

import pytest

from pykraft import errors
from pykraft.machine import Applied, Replicated, own_records
from pykraft.machine.own_records import voter_ids
from pykraft.machine.replica import MachineReplica
from tests.client.nodes import config_of
from tests.machine.counters import Add, Counters, leader_of, machines, make_leader, next_turn


class Alarm(Counters):
    """Waits for a log time that a test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.alarm_ms: int | None = None
        self.rang: list[Applied] = []

    def apply(self, command: Add, context: Applied) -> int:
        if command.key == "alarm":
            self.alarm_ms = context.time_ms + command.amount
        return super().apply(command, context)

    def deadline_ms(self) -> int | None:
        return self.alarm_ms

    def elapse(self, context: Applied) -> None:
        self.alarm_ms = None
        self.rang.append(context)


async def test_the_leader_writes_the_time_while_sessions_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_records, "TICKS_OF_A_SESSION", 3_000)  # one in 20 ms
    async with machines(tmp_path, 1) as [node]:
        await node.node.wait_for_leader()
        end = node.node.log_end_offset
        looks: list[int] = []
        looked = asyncio.Event()

        def no_sessions(_: object) -> int:
            looks.append(0)
            if len(looks) == 3:
                looked.set()
            return 0

        with monkeypatch.context() as patch:
            patch.setattr(MachineReplica, "sessions_count", property(no_sessions))
            await looked.wait()
        assert node.node.log_end_offset == end  # no session is open: an idle log does not grow
        await node.execute(Add("x", 1))
        before = node._replica.time_ms
        async with asyncio.timeout(10):
            while node._replica.time_ms == before:
                await node.node.wait_applied(node._applier, node.node.log_end_offset + 1)


async def test_time_alone_reaches_every_replica_and_outlives_the_leader(tmp_path: Path) -> None:
    async with machines(tmp_path, machine=Alarm) as nodes:
        leader = await leader_of(nodes)
        await leader.execute(Add("alarm", 200))
        other = next(node for node in nodes if node is not leader)
        await make_leader(other, nodes)
        alarms = [node.machine for node in nodes]
        while not all(isinstance(one, Alarm) and one.rang for one in alarms):
            await other.node.wait_applied(other._applier, other.node.log_end_offset + 1)
            for node in nodes:
                await node.node.wait_applied(node._applier, other.node.high_watermark or 0)
        first = alarms[0]
        assert isinstance(first, Alarm)
        for one in alarms:
            assert isinstance(one, Alarm)
            assert one.rang == first.rang
            assert len(one.rang) == 1
            assert one.rang[0].session_id == -1
            assert one.rang[0].time_ms >= 200


async def test_a_deadline_needs_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with machines(tmp_path, 1, machine=Alarm) as [node]:
        monkeypatch.setattr(MachineReplica, "sessions_count", 0)
        await node.execute(Add("alarm", 1))
        alarm = node.machine
        assert isinstance(alarm, Alarm)
        async with asyncio.timeout(10):
            while not alarm.rang:
                await node.node.wait_applied(node._applier, node.node.log_end_offset + 1)


numbers = count(1)


class Own(Counters):
    """The third one that is made counts in another way from the fifth command on."""

    def __init__(self) -> None:
        super().__init__()
        self.is_odd = next(numbers) % 3 == 0

    def apply(self, command: Add, context: Applied) -> int:
        total = super().apply(command, context)
        if self.is_odd and total == 5:
            self.totals[command.key] = total + 1
        return total


def test_a_node_that_has_parted_ends_and_the_others_go_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with machines(tmp_path, machine=Own, check_every=2) as nodes:
            good, bad = nodes[0], nodes[2]
            for _ in range(8):
                await good.execute(Add("x", 1))
            with pytest.raises(errors.ReplicasPartedError, match="the replicas have parted"):
                await bad.node.wait_closed()
            for _ in range(4):
                await good.execute(Add("y", 1))
            async with good.read() as state:
                assert state.totals == {"x": 8, "y": 4}

    with pytest.raises(errors.ReplicasPartedError):  # whoever closes the node gets its report, too
        asyncio.run(main())


async def test_equal_nodes_tell_and_go_on(tmp_path: Path) -> None:
    async with machines(tmp_path, check_every=1) as nodes:
        checks = [node._applier.check for node in nodes]
        for _ in range(3):
            known = [check.found for check in checks if check is not None]
            for _ in range(4):
                await nodes[1].execute(Add("x", 1))
            for check, before in zip(checks, known, strict=True):
                assert check is not None
                while check.found is before or not all(map(check.is_told, (1, 2, 3))):
                    await next_turn()


async def test_a_node_that_does_not_run_knows_no_voters(tmp_path: Path) -> None:
    node = Replicated(config_of(tmp_path, 1), Counters()).node
    with pytest.raises(errors.NotRunningError):
        node.latest_voter_set  # noqa: B018 - it raises
    assert voter_ids(node) == []
