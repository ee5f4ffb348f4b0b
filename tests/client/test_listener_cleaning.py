"""Listeners and a cleaned log: with and without snapshots, with a named offset, and slow ones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from pykraft.client import Node, StateReader, configure, text_serde
from pykraft.config import LogSettings, NodeConfig
from pykraft.errors import UsageError
from tests.client.nodes import BOTH, QUICK, TIMEOUT_S, Recorder, run
from tests.client.test_listener_calls import Gated

SEGMENT_SIZE_BYTES = 1_024


class State(Recorder):
    """Its state is the last record."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []

    def handle_save_snapshot(self) -> Iterable[str]:
        return self.records[-1:] or self.loaded[-1:]

    async def handle_load_snapshot(self, reader: StateReader[str]) -> None:
        self.loaded += [record async for batch in reader for record in batch.records]


class GatedState(Gated):
    """The same, and it saves nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []

    async def handle_load_snapshot(self, reader: StateReader[str]) -> None:
        self.loaded += [record async for batch in reader for record in batch.records]


def tidy(folder: Path) -> NodeConfig:
    """A quorum of one that takes a snapshot after each batch, and keeps one of them and no log before it."""
    settings = LogSettings(
        snapshot_record_bytes_max=1,
        retention_size_bytes_max=0,
        clean_interval_ms=1,
        delete_delay_ms=0,
        segment_size_bytes=SEGMENT_SIZE_BYTES,
        scrub_bytes_per_s_max=0,
    )
    return configure(folder / "n1", node_id=1, voters={1: "127.0.0.1:0"}, raft=QUICK, log=settings)


async def cleaned(node: Node[str]) -> int:
    """Propose until the log begins some segments further on than before; its start."""
    host = node._life.engine.host
    assert host is not None
    enough = host.status.log_start_offset + 30
    async with asyncio.timeout(TIMEOUT_S):
        while host.status.log_start_offset < enough:
            await node.propose(["more"])
    return host.status.log_start_offset


@BOTH
def test_a_plain_listener_begins_at_the_log_start_and_goes_on_there(
    tmp_path: Path, own_thread: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Each time that the log is cleaned, also after a restart; what it misses is told once, and the node goes on."""

    async def main() -> None:
        for _ in range(2):
            async with Node(tidy_config, text_serde, own_thread=own_thread) as node:
                state, plain = State(), Gated()
                node.register(state)
                node.register(plain)
                await node.wait_for_leader()
                await asyncio.wait_for(plain.began.wait(), TIMEOUT_S)
                start_offset = await cleaned(node)
                plain.may_go_on.set()
                committed = await node.propose(["last"])
                await node.wait_applied(plain, committed.end_offset)
                assert plain.records[-1] == "last"
                bases = [base for base, _ in plain.offsets]
                assert bases == sorted(set(bases))
                assert any(base >= start_offset for base in bases)
                late = Recorder()
                node.register(late)
                committed = await node.propose(["very last"])
                await node.wait_applied(late, committed.end_offset)
                assert late.records[-1] == "very last"

    tidy_config = tidy(tmp_path)
    run(main)
    assert "misses offsets" in caplog.text
    assert "it continues at the log start" in caplog.text


@BOTH
def test_a_slow_listener_that_loads_snapshots_gets_one_after_a_cleaning(tmp_path: Path, own_thread: bool) -> None:
    async def main() -> None:
        async with Node(tidy(tmp_path), text_serde, own_thread=own_thread) as node:
            state, slow = State(), GatedState()
            node.register(state)
            node.register(slow)
            await node.wait_for_leader()
            await asyncio.wait_for(slow.began.wait(), TIMEOUT_S)
            await cleaned(node)
            await cleaned(node)
            slow.may_go_on.set()
            committed = await node.propose(["last"])
            await node.wait_applied(slow, committed.end_offset)
            assert slow.loaded

    run(main)


@BOTH
def test_a_slow_listener_that_named_its_offset_ends_the_node_rather_than_miss_records(
    tmp_path: Path, own_thread: bool
) -> None:
    async def main() -> None:
        node = Node(tidy(tmp_path), text_serde, own_thread=own_thread)
        state, slow = State(), Gated()
        node.register(state)
        node.register(slow, from_offset=0)
        await node.initialize()
        await node.wait_for_leader()
        await asyncio.wait_for(slow.began.wait(), TIMEOUT_S)
        await cleaned(node)
        await cleaned(node)
        slow.may_go_on.set()
        with pytest.raises(UsageError, match="has no method handle_load_snapshot"):
            await node.wait_closed()
        assert slow.records == []

    run(main)


@BOTH
def test_an_offset_that_the_log_has_lost_is_refused(tmp_path: Path, own_thread: bool) -> None:
    async def main() -> None:
        async with Node(tidy(tmp_path), text_serde, own_thread=own_thread) as node:
            node.register(State())
            await node.wait_for_leader()
            await cleaned(node)
            with pytest.raises(UsageError, match="is to begin at offset 0, and the log begins at"):
                node.register(Recorder(), from_offset=0)
            with pytest.raises(UsageError, match="is not registered"):
                node.unregister(Recorder())
            await node.propose(["it goes on"])
        again = Node(tidy(tmp_path), text_serde, own_thread=own_thread)
        again.register(Recorder(), from_offset=0)
        with pytest.raises(UsageError, match="is to begin at offset 0, and the log begins at"):
            await again.initialize()

    run(main)
