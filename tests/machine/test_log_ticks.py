"""The leader writes the log time where no command brings it: for sessions, and for what the state machine waits for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pykraft.machine import Applied, log_ticks
from pykraft.machine.replica import MachineReplica
from tests.client.nodes import run
from tests.machine.counters import Add, Counters, leader_of, machines, make_leader


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


def test_the_leader_writes_the_time_while_sessions_are_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(log_ticks, "TICKS_OF_A_SESSION", 3_000)  # one in 20 ms
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
                await node.node.wait_applied(node._applier, end + 3)
            assert node._replica.time_ms > before

    run(main)


def test_time_alone_reaches_every_replica_and_outlives_the_leader(tmp_path: Path) -> None:
    async def main() -> None:
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

    run(main)


def test_a_deadline_needs_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with machines(tmp_path, 1, machine=Alarm) as [node]:
            monkeypatch.setattr(MachineReplica, "sessions_count", 0)
            await node.execute(Add("alarm", 1))
            alarm = node.machine
            assert isinstance(alarm, Alarm)
            async with asyncio.timeout(10):
                while not alarm.rang:
                    await node.node.wait_applied(node._applier, node.node.log_end_offset + 1)

    run(main)
