"""State machines on several nodes: results, errors, restarts, snapshots and changes of leader."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pykraft.config import LogSettings
from pykraft.errors import CommandRejectedError, NotAppliedError, UsageError
from pykraft.machine import Replicated
from tests.client.nodes import BOTH, alone, run
from tests.machine.counters import Add, Counters, leader_of, machines, make_leader, next_turn, state_of


@BOTH
def test_a_command_has_its_result_on_the_leader_and_the_same_state_everywhere(tmp_path: Path, own_thread: bool) -> None:
    async def main() -> None:
        async with machines(tmp_path, own_thread=own_thread) as nodes:
            leader = await leader_of(nodes)
            assert await leader.execute(Add("x", 2)) == 2
            assert sorted(await asyncio.gather(*(leader.execute(Add("x", 1)) for _ in range(20)))) == [*range(3, 23)]
            end = leader.node.high_watermark
            assert end is not None
            for node in nodes:
                await node.node.wait_applied(node._applier, end)
                assert state_of(node).totals == {"x": 22}
                assert state_of(node).contexts == state_of(leader).contexts

    run(main)


def test_a_rejection_is_the_caller_s_alone(tmp_path: Path) -> None:
    async def main() -> None:
        async with machines(tmp_path, 1) as [node]:
            adds = (Add("x", 1), Add("y", -1), Add("x", 1))
            results: list[Any] = await asyncio.gather(*map(node.execute, adds), return_exceptions=True)
            assert results[0::2] == [1, 2]
            assert isinstance(results[1], CommandRejectedError)
            assert str(results[1]) == "y would be -1"

    run(main)


def test_a_restarted_node_has_its_state_and_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        for turn in range(3):
            async with Replicated(alone(tmp_path), Counters()) as node:
                assert await node.execute(Add("x", 1)) == turn + 1

    run(main)


def test_a_restart_from_a_snapshot_keeps_state_and_sessions(tmp_path: Path) -> None:
    async def main() -> None:
        settings = replace(alone(tmp_path), log=LogSettings(snapshot_record_bytes_max=2_000))
        async with Replicated(settings, Counters()) as node:
            for _ in range(100):
                await node.execute(Add("x", 1))
            sessions = node._replica.sessions_count
        async with Replicated(settings, Counters()) as node:
            await node.node.wait_for_leader()
            assert await node.execute(Add("x", 1)) == 101
            assert state_of(node).restored >= 1
            assert node._replica.sessions_count == sessions + 1

    run(main)


def test_a_change_of_leader_loses_and_repeats_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with machines(tmp_path) as nodes:
            leader = await leader_of(nodes)
            other = next(node for node in nodes if node is not leader)
            for turn in range(3):
                assert await leader.execute(Add("x", 0)) == 20 * turn
                calls = [asyncio.create_task(leader.execute(Add("x", 1))) for _ in range(20)]
                await next_turn()
                await make_leader(other, nodes)
                await make_leader(leader, nodes)
                await asyncio.gather(*calls)
            assert await leader.execute(Add("x", 0)) == 60

    run(main)


def test_wrong_arguments_are_refused_before_anything_is_sent(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(UsageError, match="is not a state machine"):
            Replicated(alone(tmp_path), object())  # type: ignore[type-var]
        async with Replicated(alone(tmp_path), Counters()) as node:
            for timeout_ms in (0, 30_001, 1.5):
                with pytest.raises(UsageError, match="timeout_ms"):
                    await node.execute(Add("x", 1), timeout_ms=timeout_ms)  # type: ignore[arg-type]
            with pytest.raises(UsageError, match="at most 60000 bytes: its serde made 70029 bytes"):
                await node.execute(Add("x" * 70_000, 1))
            with pytest.raises(TypeError):
                await node.execute("text")  # type: ignore[arg-type]
            assert await node.execute(Add("x", 1)) == 1

    run(main)


def test_a_machine_that_fails_here_alone_ends_its_node(tmp_path: Path) -> None:
    class Broken(Counters):
        def apply(self, command: Add, context: Any) -> int:
            raise OSError("no file")

    async def main() -> None:
        with pytest.raises(OSError, match="no file"):
            async with Replicated(alone(tmp_path), Broken()) as node:
                await node.execute(Add("x", 1))

    run(main)


def test_a_machine_that_fails_everywhere_tells_the_caller_and_the_operators(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Counters):
        def apply(self, command: Add, context: Any) -> int:
            if command.amount == 13:
                raise ZeroDivisionError("a bug")
            return super().apply(command, context)

    async def main() -> None:
        async with machines(tmp_path, machine=Broken) as nodes:
            for each in nodes:
                with pytest.raises(CommandRejectedError, match="on every replica alike, with ZeroDivisionError"):
                    await each.execute(Add("x", 13))
            assert [await each.execute(Add("x", 1)) for each in nodes] == [1, 2, 3]
            async with nodes[0].read(), nodes[1].read(), nodes[2].read():
                pass

    run(main)
    assert caplog.text.count("is not applied: ZeroDivisionError: a bug") == 9


def test_a_command_that_its_serde_cannot_read_back_is_refused_on_every_node(tmp_path: Path) -> None:
    class OneWay:
        def serialize(self, record: Add) -> bytes:
            return b"\xff" if record.amount == 13 else Counters.commands.serialize(record)

        def deserialize(self, data: bytes) -> Add:
            command: Add = Counters.commands.deserialize(data)
            return command

    class Lossy(Counters):
        commands: ClassVar[Any] = OneWay()

    async def main() -> None:
        async with machines(tmp_path, machine=Lossy) as nodes:
            await leader_of(nodes)
            for each in nodes:
                match = "refuses a command of 1 bytes: UnicodeDecodeError"
                with pytest.raises((NotAppliedError, UsageError), match=match):
                    await each.execute(Add("x", 13))
            assert await nodes[0].execute(Add("x", 1)) == 1

    run(main)
