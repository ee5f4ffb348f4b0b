"""The applier answers those who wait and lets the loop run; the leader's clock and a client's numbers only go on."""

import asyncio
from pathlib import Path

import pytest

from pykraft.errors import BufferFullError
from pykraft.machine import applier
from pykraft.machine.applier import PIECE_COMMANDS, PIECE_SIZE_BYTES, ClientSession, LeaderClock
from pykraft.machine.records import CommandRecord, decode_log_record
from tests.machine.counters import Add, leader_of, machines, next_turn, state_of


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
