"""Snapshots of an application's state: created when asked or by hand, and loaded on the same and on a new node."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from pykraft.client import ClaimAdapter, Node, StateReader, configure, text_serde
from pykraft.config import LogSettings, NodeConfig
from pykraft.errors import NotRunningError, UsageError
from pykraft.host.snapshots.creation import SnapshotCreation
from pykraft.log.os_fs import OsFs
from pykraft.snapshot.writer import write_bootstrap
from tests.client.nodes import BOTH, QUICK, Recorder, alone, config_of, voters_of


class State(Recorder):
    """Notes what it loads, too."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[list[str]] = []

    async def handle_load_snapshot(self, reader: StateReader[str]) -> None:
        self.loaded.append([record async for batch in reader for record in batch.records])


class Saving(State):
    """Holds the last record as its state, and saves it when it is asked."""

    def handle_save_snapshot(self) -> Iterable[str]:
        return self.records[-1:]


class SavingSlowly(Saving):
    """Makes its records one after the other, whenever it likes."""

    async def handle_save_snapshot(self) -> AsyncIterator[str]:  # type: ignore[override]
        for number in range(300):
            yield f"{number} of {self.records}"


class SavingLater(Saving):
    """Waits before it says what to save."""

    async def handle_save_snapshot(self) -> Iterable[str]:  # type: ignore[override]
        await self.wait_for(lambda: True)
        return super().handle_save_snapshot()


def often(folder: Path, **log: int) -> NodeConfig:
    """A quorum of one whose application is asked for a snapshot after each batch."""
    settings = LogSettings(**{"snapshot_record_bytes_max": 1, "scrub_bytes_per_s_max": 0, **log})
    return configure(folder / "n1", node_id=1, voters={1: "127.0.0.1:0"}, raft=QUICK, log=settings)


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


@pytest.mark.parametrize("records", [{"key": "state"}, "state", {"state"}])
async def test_a_single_record_is_not_taken_for_many(tmp_path: Path, records: Any) -> None:
    async with Node(alone(tmp_path), text_serde) as node:
        leader = await node.wait_for_leader()
        committed = await node.propose(["record"])
        snapshot = await node.create_snapshot(committed.base_offset + 1, leader.epoch)
        assert snapshot is not None
        with pytest.raises(UsageError, match="give a list of records"):
            await snapshot.append(records)
        await snapshot.append(["state"])
        assert await snapshot.freeze() > 0


@pytest.mark.conformance(119, 123, "H36")
@BOTH
async def test_a_new_listener_gets_the_state_and_then_what_follows(tmp_path: Path, own_thread: bool) -> None:
    async with Node(alone(tmp_path), text_serde, own_thread=own_thread) as node:
        offset = await taken(node, "one", "two")
        state = State()
        node.register(state)
        await node.propose(["after"])
        await state.sees("after")
        assert state.loaded == [["one", "two"]]
        assert state.offsets[0][0] == offset


@pytest.mark.conformance(119, 122)
@BOTH
async def test_a_node_joins_through_a_snapshot(tmp_path: Path, own_thread: bool) -> None:
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


async def test_a_listener_that_cannot_load_a_snapshot_begins_at_the_log_start(tmp_path: Path) -> None:
    async with Node(alone(tmp_path), text_serde) as node:
        await taken(node, "one")
        recorder = Recorder()
        node.register(recorder)
        await recorder.sees("record 0", "record 1", "record 2")


async def test_a_listener_that_would_miss_records_ends_its_node(tmp_path: Path) -> None:
    async with Node(alone(tmp_path), text_serde) as node:
        await taken(node, "one")
        joiner = Node(config_of(tmp_path, 2), text_serde)
        joiner.register(Recorder(), from_offset=0)
        await joiner.bind()
        await joiner.initialize(voters_of([node]))
        with pytest.raises(UsageError, match="no method handle_load_snapshot"):
            await joiner.wait_closed()


async def test_a_listener_that_may_miss_records_goes_on_where_the_log_of_a_joiner_begins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Node(alone(tmp_path), text_serde) as node:
        await taken(node, "one")
        joiner, recorder = Node(config_of(tmp_path, 2), text_serde), Recorder()
        joiner.register(recorder)
        await joiner.bind()
        await joiner.initialize(voters_of([node]))
        committed = await node.propose(["after"])
        await joiner.wait_applied(recorder, committed.end_offset)
        assert recorder.records == ["after"]
        await joiner.close()
    assert "misses offsets 0 to 3" in caplog.text


@pytest.mark.conformance(105, 123)
async def test_a_snapshot_is_taken_once_and_only_where_one_may_be(tmp_path: Path) -> None:
    async with Node(alone(tmp_path), text_serde) as node:
        offset = await taken(node, "one")
        epoch = (await node.wait_for_leader()).epoch
        assert await node.create_snapshot(offset, epoch) is None
        with pytest.raises(UsageError, match="the committed log ends at"):
            await node.create_snapshot(offset + 1, epoch)
        with pytest.raises(UsageError, match="offset"):
            await node.create_snapshot(-1, epoch)


@pytest.mark.conformance(124)
async def test_a_snapshot_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
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
    assert not list(tmp_path.glob("**/*.checkpoint"))  # the next start removes the part


class Claims:
    """A listener in the words of 2020, with what it may do besides."""

    def __init__(self, saving: Saving) -> None:
        self.handle_commit = saving.handle_commit
        self.handle_load_snapshot = saving.handle_load_snapshot
        self.handle_save_snapshot = saving.handle_save_snapshot

    def handle_claim(self, epoch: int) -> None: ...

    def handle_resign(self, epoch: int) -> None: ...


@pytest.mark.conformance(123)
@pytest.mark.parametrize("saving", [Saving, SavingLater])
@BOTH
async def test_who_can_save_is_asked_and_the_next_start_begins_there(
    tmp_path: Path, own_thread: bool, saving: type[Saving]
) -> None:
    first, again = saving(), saving()
    async with Node(often(tmp_path), text_serde, own_thread=own_thread) as node:
        node.register(ClaimAdapter(Claims(first), node.node_id))
        await node.wait_for_leader()
        for number, record in enumerate(told := ("one", "two", "last"), start=1):
            await node.propose([record])
            await first.sees(*told[:number])  # one call at a time: with "two" it was saved before "last" came
    async with Node(often(tmp_path), text_serde, own_thread=own_thread) as node:
        node.register(again)
        await node.wait_for_leader()
        await node.propose(["after"])
        await again.wait_for(lambda: "after" in again.records)
    (loaded,) = again.loaded
    assert [*loaded, *again.records] in (["two", "last", "after"], ["last", "after"])


@BOTH
async def test_who_can_save_is_asked_after_a_time_too(tmp_path: Path, own_thread: bool) -> None:
    class Noting(Saving):
        def handle_save_snapshot(self) -> Iterable[str]:
            saved.set()
            return super().handle_save_snapshot()

    saved = asyncio.Event()
    config = often(tmp_path, snapshot_record_bytes_max=2**40, snapshot_interval_ms=1)
    async with Node(config, text_serde, own_thread=own_thread) as node:
        node.register(Noting())
        await saved.wait()


async def test_a_state_of_any_size_is_made_piece_by_piece(tmp_path: Path) -> None:
    async with Node(often(tmp_path), text_serde) as node:
        slow, state = SavingSlowly(), State()
        node.register(slow)
        await node.wait_for_leader()
        await node.propose(["one"])
        await node.propose(["two"])
        await slow.sees("one", "two")
        node.register(state)
        await state.wait_for(lambda: state.loaded != [])
        assert len(state.loaded[0]) == 300


@BOTH
async def test_what_goes_wrong_in_saving_ends_the_node_with_its_story(tmp_path: Path, own_thread: bool) -> None:
    class Broken(Saving):
        def handle_save_snapshot(self) -> Iterable[str]:
            yield "one"
            raise ValueError("the state is not to be had")

    node = Node(often(tmp_path), text_serde, own_thread=own_thread)
    await node.initialize()
    node.register(Broken())
    with pytest.raises(ValueError, match="not to be had") as caught:
        await node.wait_closed()
    assert "in handle_save_snapshot, asked for the snapshot up to offset" in caught.value.__notes__[0]
    assert not list(tmp_path.glob("**/*.checkpoint"))


@pytest.mark.parametrize(("answer", "is_told"), [(UsageError("not here"), True), (None, False)])
async def test_a_place_where_none_may_be_taken_now_is_passed_by(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    answer: UsageError | None,
    is_told: bool,
) -> None:
    def begin(_: SnapshotCreation, *arguments: Any) -> None:
        arguments[-1](answer)

    monkeypatch.setattr(SnapshotCreation, "begin", begin)
    with caplog.at_level(logging.WARNING, "pykraft"):
        async with Node(often(tmp_path), text_serde) as node:
            saving = Saving()
            node.register(saving)
            await node.wait_for_leader()
            await node.propose(["one"])
            await node.propose(["two"])
            await saving.sees("one", "two")
    assert ("not here; the node asks the application again later" in caplog.text) is is_told


async def test_a_state_that_is_too_large_ends_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """All replicas have it: all would end."""
    async with Node(often(tmp_path, snapshot_size_bytes_max=100), text_serde) as node:
        saving = Saving()
        node.register(saving)
        await node.wait_for_leader()
        await node.propose(["one" * 100])
        await saving.sees("one" * 100)
        await node.propose(["two"])
        await saving.sees("one" * 100, "two")
    assert "grows beyond 100 bytes: no snapshot is taken, and the log keeps growing" in caplog.text
    assert not list(tmp_path.glob("**/*.checkpoint"))


def test_one_listener_of_a_node_saves(tmp_path: Path) -> None:
    node = Node(often(tmp_path), text_serde)
    saving = Saving()
    node.register(saving)
    with pytest.raises(UsageError, match="already saves this node's state"):
        node.register(Saving())
    node.register(State())
    node.unregister(saving)
    node.register(Saving())


class Formatted(State):
    """Takes what formatting wrote, too."""

    def __init__(self) -> None:
        super().__init__()
        self.bootstrapped: list[tuple[int, ...]] = []

    def handle_load_bootstrap(self, reader: StateReader[str]) -> None:
        assert self.offsets == []
        self.bootstrapped.append((reader.last_contained_log_offset, reader.last_contained_log_epoch))


@pytest.mark.conformance(128)
@BOTH
async def test_the_checkpoint_of_formatting_is_given_before_the_first_record(tmp_path: Path, own_thread: bool) -> None:
    config = often(tmp_path)
    write_bootstrap(OsFs(), config.partition_directory, None)
    async with Node(config, text_serde, own_thread=own_thread) as node:
        listener = Formatted()
        node.register(listener)
        await node.wait_for_leader()
        await node.propose(["first"])
        await listener.sees("first")
        assert (listener.bootstrapped, listener.loaded) == ([(-1, 0)], [])
        assert listener.offsets[0][0] == 0
