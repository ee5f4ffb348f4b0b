"""Snapshots of an application's state: taken on one node, loaded by listeners there and on a node that joins."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.client import Node, text_serde
from pykraft.errors import NotRunningError, UsageError
from pykraft.snapshot.reader import SnapshotReader
from tests.client.nodes import BOTH, Recorder, alone, config_of, run, voters_of


class State(Recorder):
    """Notes what it loads, too."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[list[str]] = []

    async def handle_load_snapshot(self, reader: SnapshotReader[str]) -> None:
        self.loaded.append([record for batch in reader for record in batch.records])


async def taken(node: Node[str], *state: str) -> int:
    """Commit a few records, take a snapshot of this state up to there; the offset where it ends."""
    leader = await node.wait_for_leader()
    committed = [await node.propose([f"record {number}"]) for number in range(3)]
    offset = committed[-1].base_offset + 1
    snapshot = await node.create_snapshot(offset, leader.epoch)
    assert snapshot is not None
    async with snapshot:
        await snapshot.append(state[:1])
        await snapshot.append(state[1:])
        assert await snapshot.freeze() > 0
        assert snapshot.is_frozen
    assert snapshot.snapshot_id.offset == offset
    return offset


@pytest.mark.conformance(119, 123)
@BOTH
def test_a_new_listener_gets_the_state_and_then_what_follows(tmp_path: Path, own_thread: bool) -> None:
    async def main() -> None:
        async with Node(alone(tmp_path), text_serde, own_thread=own_thread) as node:
            offset = await taken(node, "one", "two")
            state = State()
            node.register(state)
            await node.propose(["after"])
            await state.sees("after")
            assert state.loaded == [["one", "two"]]
            assert state.offsets[0][0] == offset

    run(main)


@pytest.mark.conformance(119, 122)
@BOTH
def test_a_node_joins_through_a_snapshot(tmp_path: Path, own_thread: bool) -> None:
    async def main() -> None:
        async with Node(alone(tmp_path), text_serde, own_thread=own_thread) as node:
            await taken(node, "one", "two")
            state = State()
            joiner = Node(config_of(tmp_path, 2), text_serde, own_thread=own_thread)
            joiner.register(state)
            await joiner.bind()
            await joiner.initialize(voters_of([node]))
            await node.propose(["after"])
            await state.sees("after")
            assert state.loaded == [["one", "two"]]
            await joiner.close()

    run(main)


def test_a_listener_that_cannot_load_a_snapshot_begins_at_the_log_start(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node(alone(tmp_path), text_serde) as node:
            await taken(node, "one")
            recorder = Recorder()
            node.register(recorder)
            await recorder.sees("record 0", "record 1", "record 2")

    run(main)


def test_a_listener_that_would_miss_records_ends_its_node(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node(alone(tmp_path), text_serde) as node:
            await taken(node, "one")
            joiner = Node(config_of(tmp_path, 2), text_serde)
            joiner.register(Recorder())
            await joiner.bind()
            await joiner.initialize(voters_of([node]))
            with pytest.raises(UsageError, match="no method handle_load_snapshot"):
                await joiner.wait_closed()

    run(main)


@pytest.mark.conformance(105, 123)
def test_a_snapshot_is_taken_once_and_only_where_one_may_be(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node(alone(tmp_path), text_serde) as node:
            offset = await taken(node, "one")
            epoch = (await node.wait_for_leader()).epoch
            assert await node.create_snapshot(offset, epoch) is None
            with pytest.raises(UsageError, match="the committed log ends at"):
                await node.create_snapshot(offset + 1, epoch)
            with pytest.raises(UsageError, match="offset"):
                await node.create_snapshot(-1, epoch)

    run(main)


@pytest.mark.conformance(124)
def test_a_snapshot_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node(alone(tmp_path), text_serde) as node:
            leader = await node.wait_for_leader()
            committed = await node.propose(["record"])
            snapshot = await node.create_snapshot(committed.base_offset + 1, leader.epoch)
            assert snapshot is not None
            with pytest.raises(TypeError, match="a record is text"):
                await snapshot.append([5])  # type: ignore[list-item]
            with pytest.raises(UsageError, match="nothing more is written"):
                await snapshot.freeze()
            await snapshot.close()
            await snapshot.close()
            again = await node.create_snapshot(committed.base_offset + 1, leader.epoch)
            assert again is not None
        async with again:
            with pytest.raises(NotRunningError):
                await again.append(["late"])

    run(main)
    assert not list(tmp_path.glob("**/*.checkpoint"))  # the next start removes the part
