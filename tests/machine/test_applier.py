"""The applier answers those who wait and lets the loop run; the leader's clock and a client's numbers only go on."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pykraft.client import LeaderAndEpoch, Node, Reader
from pykraft.errors import BufferFullError
from pykraft.machine import Applied, applier
from pykraft.machine.applier import (
    PIECE_COMMANDS,
    PIECE_SIZE_BYTES,
    TICK_MS_MIN,
    TICKS_BEFORE_DEADLINE,
    Applier,
    ClientSession,
    LeaderClock,
)
from pykraft.machine.records import CommandRecord, TickRecord, decode_log_record, encode_log_record
from pykraft.machine.replica import SESSION_TIMEOUT_MS, MachineReplica
from pykraft.types import Epoch, NodeId
from tests.machine.counters import Add, Counters, leader_of, machines, next_turn, state_of


@pytest.mark.parametrize(
    ("command", "count", "most"),
    [(Add("x", 1), 1_000, 2 * PIECE_COMMANDS), (Add("x" * 30_000, 1), 100, 2 * PIECE_SIZE_BYTES // 30_000 + 2)],
    ids=["many", "large"],
)
async def test_other_tasks_run_while_commands_are_applied(tmp_path: Path, command: Add, count: int, most: int) -> None:
    key = command.key
    async with machines(tmp_path, 1) as [node]:
        await node.execute(command)
        longest = turns = 0
        is_over = False

        async def watch() -> None:
            nonlocal longest, turns
            seen = state_of(node).totals[key]
            while not is_over:
                await next_turn()
                now = state_of(node).totals[key]
                longest, seen, turns = max(longest, now - seen), now, turns + 1

        watching = asyncio.create_task(watch())
        await asyncio.gather(*(node.execute(command) for _ in range(count)))
        is_over = True
        await watching
        assert state_of(node).totals == {key: count + 1}
        assert turns > 1
        assert longest <= most


async def test_only_the_leader_s_clock_runs(tmp_path: Path) -> None:
    async with machines(tmp_path) as nodes:
        leader = await leader_of(nodes)
        await leader.execute(Add("x", 1))
        clocks = [node for node in nodes if node._applier.clock.is_running]
        assert clocks == [leader]
        assert leader._applier.time_ms() >= leader._replica.time_ms


def test_it_advances_while_this_node_leads() -> None:
    clock = LeaderClock()
    assert (clock.is_running, clock.time_ms(5, 100.0)) == (False, 5)
    clock.start(1_000, 100.0)
    assert clock.is_running
    assert [clock.time_ms(1_000, 100.0 + s) for s in (0.0, 0.5, 2.0)] == [1_000, 1_500, 3_000]
    clock.stop()
    assert (clock.is_running, clock.time_ms(3_000, 109.0)) == (False, 3_000)


def test_it_is_never_behind_what_was_applied() -> None:
    clock = LeaderClock()
    clock.start(1_000, 100.0)
    assert clock.time_ms(9_000, 100.5) == 9_000


class TimedLoop:
    """A clock for appliers, which other loops do not have."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self)

    def time(self) -> float:
        return self.now_s


class Replica:
    """One node of a quorum without a network: what is written anywhere is applied by all that live."""

    def __init__(self, node_id: int) -> None:
        self.machine = Alarm()
        self.applier = Applier(cast("Node[bytes]", SimpleNamespace(node_id=node_id)), MachineReplica(self.machine))

    def apply(self, time_ms: int) -> None:
        tick = SimpleNamespace(records=[encode_log_record(TickRecord(time_ms))], base_offset=1, epoch=Epoch(1))
        self._commit(tick)

    def _commit(self, batch: SimpleNamespace) -> None:
        with pytest.raises(StopIteration):
            self.applier.handle_commit(cast("Reader[bytes]", [batch])).send(None)

    def lead(self, leader_id: int) -> None:
        self._commit(SimpleNamespace(records=[], base_offset=1, epoch=Epoch(1)))  # the leader's control record
        self.applier.handle_leader_change(LeaderAndEpoch(NodeId(leader_id), Epoch(1)))


def silence(replicas: list[Replica], leader: int, seconds: float, loop: TimedLoop, tick: Callable[[], None]) -> None:
    """The leader's time goes on, and it writes the time as `pykraft.machine.own_records.LogTicks` does."""
    for _ in range(int(seconds * 10)):
        loop.now_s += 0.1
        one = replicas[leader].applier
        if one.time_ms() - one.replica.time_ms >= one.tick_interval_ms():
            tick()


@pytest.mark.parametrize("lives_s", [0.5, 2.0, 6.0, 9.0])
def test_time_goes_on_however_often_leaders_change(monkeypatch: pytest.MonkeyPatch, lives_s: float) -> None:
    loop = TimedLoop(monkeypatch)
    replicas = [Replica(node_id) for node_id in range(3)]
    for one in replicas:
        one.machine.alarm_ms = 10_000
        one.apply(1)
    begun_s = loop.now_s
    leader = 0
    while replicas[0].machine.alarm_ms is not None:
        for one in replicas:
            one.lead(leader)

        def tick() -> None:
            time_ms = replicas[leader].applier.time_ms()  # noqa: B023 - called within this turn
            assert time_ms <= (loop.now_s - begun_s) * 1_000 + 1, "never ahead of real time"
            for one in replicas:
                one.apply(time_ms)

        silence(replicas, leader, lives_s, loop, tick)
        leader = (leader + 1) % 3
        assert loop.now_s - begun_s < 10 + 10 * 0.2 + lives_s, "the lease has ended by now"


def test_a_silence_without_a_leader_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = TimedLoop(monkeypatch)
    one = Replica(0)
    one.machine.alarm_ms = 10_000
    one.apply(1)
    loop.now_s += 3_600
    one.lead(0)
    assert one.applier.time_ms() == 1 + 9_999 // TICKS_BEFORE_DEADLINE
    one.machine.alarm_ms = None
    one.lead(1)
    one.lead(0)
    assert one.applier.time_ms() == 1 + SESSION_TIMEOUT_MS
    one.machine.alarm_ms = 2_000
    assert one.applier.tick_interval_ms() == TICK_MS_MIN


class Alarm(Counters):
    """It waits for one log time."""

    def __init__(self) -> None:
        super().__init__()
        self.alarm_ms: int | None = None

    def deadline_ms(self) -> int | None:
        return self.alarm_ms

    def elapse(self, context: Applied) -> None:
        del context
        self.alarm_ms = None


async def test_the_lowest_number_that_somebody_waits_for_is_acknowledged() -> None:
    session = ClientSession(7)
    assert [session.issue()[0] for _ in range(4)] == [0, 1, 2, 3]
    assert session.acknowledged == 0
    session.done(1)
    assert session.acknowledged == 0
    session.done(0)
    assert session.acknowledged == 2
    attempts = [(number, bytes([number]), session.waiters[number], 1.0) for number in (2, 3)]
    expected = [CommandRecord(9, 7, number, 2, bytes([number])) for number in (2, 3)]
    assert [*map(decode_log_record, session.records(attempts, 9))] == expected
    session.done(2)
    session.done(3)
    assert session.acknowledged == 4
    assert session.issue()[0] == 4


async def test_the_number_of_commands_that_wait_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applier, "WINDOW", 3)
    session = ClientSession(7)
    for _ in range(3):
        session.issue()
    session.done(1)
    with pytest.raises(BufferFullError, match="3 commands of this client already wait"):
        session.issue()  # 0 still waits, so 0 to 2 are kept
    session.done(0)
    assert session.issue()[0] == 3
