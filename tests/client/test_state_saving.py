"""Stable records of a state are written beside later commits; errors and ends are those of a snapshot."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from pykraft.client import Node, StableRecords, text_serde
from pykraft.errors import SnapshotFailedError, UsageError
from pykraft.snapshot.writer import RawWriter
from tests.client.nodes import BOTH, run
from tests.client.test_snapshot import Saving, State, often

MANY = 250
"""Records of a state: more than are written at a time."""


class SavingBeside(Saving):
    """Its records end when a later commit was handled: if commits waited for them, they would never end."""

    def __init__(self, last: str) -> None:
        super().__init__()
        self.asked = 0
        self._last = last

    def handle_save_snapshot(self) -> Iterable[str]:
        self.asked += 1
        self._changed.set()
        return StableRecords(self._until_last(f"after {len(self.records)} records"))

    def _until_last(self, state: str) -> Iterator[str]:
        yield from [state] * MANY
        while self._last not in self.records:
            yield state


@BOTH
def test_commits_go_on_while_stable_records_are_written(tmp_path: Path, own_thread: bool) -> None:
    async def main() -> None:
        saving, state = SavingBeside("three"), State()
        async with Node(often(tmp_path), text_serde, own_thread=own_thread) as node:
            node.register(saving)
            await node.wait_for_leader()
            for at, record in enumerate(told := ["one", "two", "three"], start=1):
                await node.propose([record])
                await saving.sees(*told[:at])
                assert saving.asked <= 1  # one snapshot at a time
            while not await asyncio.to_thread(lambda: [*tmp_path.glob("**/*.checkpoint")]):
                pass
        async with Node(often(tmp_path), text_serde, own_thread=own_thread) as node:
            node.register(state)
            await node.wait_for_leader()
            await node.propose(["after"])
            await state.wait_for(lambda: "after" in state.records)
            assert len({*state.loaded[0]}) == 1
            assert len(state.loaded[0]) >= MANY

    run(main)


@BOTH
def test_what_goes_wrong_beside_the_calls_ends_the_node_with_its_story(tmp_path: Path, own_thread: bool) -> None:
    class Broken(Saving):
        def handle_save_snapshot(self) -> Iterable[str]:
            return StableRecords(self._broken())

        def _broken(self) -> Iterator[str]:
            yield "one"
            raise ValueError("the state is not to be had")

    async def main() -> None:
        node = Node(often(tmp_path), text_serde, own_thread=own_thread)
        await node.initialize()
        node.register(Broken())
        with pytest.raises(ValueError, match="not to be had") as caught:
            await node.wait_closed()
        assert "It was raised by the records of" in caught.value.__notes__[0]

    run(main)
    assert not list(tmp_path.glob("**/*.checkpoint"))


@BOTH
def test_the_end_of_the_node_or_of_the_listener_gives_a_snapshot_up(tmp_path: Path, own_thread: bool) -> None:
    async def main() -> None:
        async with Node(often(tmp_path), text_serde, own_thread=own_thread) as node:
            await node.wait_for_leader()
            first, second = SavingBeside("never"), SavingBeside("never")
            for saving in (first, second):
                node.register(saving)
                await node.propose(["one"])
                await saving.wait_for(lambda saving=saving: saving.asked == 1)  # type: ignore[misc]
                if saving is first:
                    node.unregister(first)

    run(main)
    assert not list(tmp_path.glob("**/*.checkpoint"))


def test_a_single_record_is_not_taken_for_many() -> None:
    with pytest.raises(UsageError, match="give a list of records"):
        StableRecords("state")
    assert [*StableRecords(["a", "b"])] == ["a", "b"]


@pytest.mark.parametrize("failing", ["create", "append", "freeze"])
def test_disk_without_room_for_a_snapshot_ends_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    failed: list[str] = []

    def full(self: RawWriter, *_: object, **__: object) -> None:
        failed.append(failing)
        raise SnapshotFailedError(self, "cannot write: No space left on device")

    monkeypatch.setattr(RawWriter, failing, full)

    async def main() -> None:
        saving = Saving()
        async with Node(often(tmp_path), text_serde) as node:
            node.register(saving)
            await node.wait_for_leader()
            while not failed:
                await node.propose(["one"])
            await node.propose(["two"])
            await saving.wait_for(lambda: "two" in saving.records)
            assert (await node.metrics())["failed-snapshots-total"] == 1

    run(main)
    assert not list(tmp_path.glob("**/*.checkpoint*"))
