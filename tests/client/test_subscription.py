"""One delivery at a time: the registration is held until the application has handled it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pykraft.client import Node as ClientNode
from pykraft.client import StableRecords
from pykraft.client.life import NodeLoops
from pykraft.client.serde import text_serde
from pykraft.client.subscription import ListenerCall, Subscription, open_calls, read_by
from pykraft.core.status import Status
from pykraft.errors import DeserializeError, SnapshotFailedError, UsageError
from pykraft.host.delivery import CommittedBatch
from pykraft.host.snapshots.creation import Loader, OnSkipped
from pykraft.snapshot.writer import RawWriter
from pykraft.types import Epoch, NodeId, Offset
from tests.client.nodes import BOTH, Recorder
from tests.client.states import opened_snapshot, records
from tests.client.test_reader import committed
from tests.client.test_snapshot import Saving, State, often
from tests.snapshot.snapshots import ID


class Registered:
    """A host and its registration in one: notes when it is held."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.from_offset: Offset | None = None
        self.loader: Loader | None = None
        self.status = Status()

    def register(
        self,
        listener: object,
        from_offset: Offset | None,
        *,
        is_held: bool,
        loader: Loader | None,
        on_skipped: OnSkipped,
    ) -> Registered:
        assert is_held
        self.loader = loader
        self.on_skipped = on_skipped
        self.from_offset = from_offset
        self.next_offset = self.status.log_start_offset
        return self

    def hold(self) -> None:
        self.heard.append("hold")

    def release(self) -> None:
        self.heard.append("release")

    def remove(self) -> None:
        self.heard.append("remove")


class Owner:
    """Calls the host at once, and notes failures."""

    def __init__(self) -> None:
        self.loops: NodeLoops = NodeLoops()
        self.host: Any = Registered()
        self.failures: list[BaseException] = []

    async def ask(self, act: Callable[[Any, Callable[[Any], None]], object], *, doubt: str | None = None) -> Any:
        del doubt
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        act(self.host, answered.set_result)
        return await answered

    def call_host(self, act: Callable[[Any], object]) -> None:
        act(self.host)

    def listener_failed(self, error: BaseException) -> None:
        self.failures.append(error)


def batch(base_offset: int, *values: bytes) -> CommittedBatch:
    return committed(*values, base_offset=base_offset)


async def test_a_delivery_holds_the_registration_until_it_is_handled() -> None:
    owner, recorder = Owner(), Recorder()
    subscription = Subscription(owner, recorder, text_serde, from_offset=Offset(6))
    subscription.attach(owner.host)
    assert owner.host.heard == ["release"]
    subscription.on_commit([batch(5, b"a", b"b"), batch(7, b"c")])
    assert owner.host.heard == ["release", "hold"]
    subscription.start()
    await recorder.sees("b", "c")
    assert (owner.host.from_offset, recorder.offsets) == (6, [(6, 6), (7, 7)])
    subscription.on_leader_change(Epoch(3), NodeId(1))
    await recorder.wait_for(lambda: len(recorder.leaders) == 1)
    subscription.end()
    assert subscription.task is not None
    await subscription.task
    assert owner.host.heard == ["release", "hold", "release", "hold", "release"]
    subscription.detach(owner.host)
    assert owner.host.heard[-1] == "remove"


async def test_what_has_arrived_is_handled_before_the_end_unless_it_is_to_be_dropped() -> None:
    for drop, expected in ((False, ["a"]), (True, [])):
        owner, recorder = Owner(), Recorder()
        subscription = Subscription(owner, recorder, text_serde)
        subscription.attach(owner.host)
        subscription.on_commit([batch(0, b"a")])
        subscription.end(drop=drop)
        subscription.on_commit([batch(1, b"b")])
        subscription.start()
        assert subscription.task is not None
        await subscription.task
        assert recorder.records == expected


async def test_the_goodbye_comes_before_what_has_arrived() -> None:
    owner, recorder = Owner(), Recorder()
    subscription = Subscription(owner, recorder, text_serde)
    subscription.attach(owner.host)
    subscription.on_commit([batch(0, b"a")])
    subscription.begin_shutdown()
    subscription.end()
    subscription.start()
    assert subscription.task is not None
    await subscription.task
    assert (recorder.goodbyes, recorder.records) == (1, ["a"])


async def test_a_fault_is_told_with_what_was_given_and_ends_the_calls() -> None:
    class Faulty(Recorder):
        def handle_commit(self, reader: Any) -> None:
            raise ZeroDivisionError

        def begin_shutdown(self) -> None:
            raise KeyError

    for begin_shutdown in (False, True):
        owner = Owner()
        subscription = Subscription(owner, Faulty(), text_serde)
        subscription.attach(owner.host)
        subscription.on_commit([batch(5, b"a", b"b")])
        if begin_shutdown:
            subscription.begin_shutdown()
        subscription.start()
        assert subscription.task is not None
        await subscription.task
        [fault] = owner.failures
        story = "in begin_shutdown;" if begin_shutdown else "in handle_commit, given offsets 5 to 6;"
        assert story in fault.__notes__[0]
        assert owner.host.heard == ["release", "hold"]


async def test_one_that_comes_again_waits_for_the_task_before_it() -> None:
    owner, recorder = Owner(), Recorder()
    former: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def finish() -> None:
        await former

    task = asyncio.create_task(finish())
    subscription = Subscription(owner, recorder, text_serde, after=task)
    subscription.attach(owner.host)
    subscription.on_commit([batch(0, b"a")])
    subscription.start()
    assert subscription.task is not None
    await asyncio.wait([subscription.task], timeout=0.01)
    assert recorder.records == []
    former.set_result(None)
    await recorder.sees("a")
    subscription.end()
    await subscription.task


class Node:
    """It is its own host, which reads at once."""

    def __init__(self) -> None:
        self.reads = 0

    def read_snapshot(self, read: Callable[[], Any], then: Callable[[Any], None]) -> None:
        self.reads += 1
        then(read())

    async def ask(self, act: Callable[[Any, Callable[[Any], None]], object], *, doubt: str | None = None) -> Any:
        assert doubt is None, "a read has no effect"
        answers: list[Any] = []
        act(self, answers.append)
        if isinstance(answers[0], Exception):
            raise answers[0]
        return answers[0]


def test_the_host_reads() -> None:
    node = Node()
    reader = read_by(node, opened_snapshot(b"one", b"two"))
    assert reader.snapshot_id == ID
    assert asyncio.run(records(reader)) == ["one", "two"]
    assert node.reads == 2, "the second one finds the end"


def test_its_errors_are_raised() -> None:
    with pytest.raises(DeserializeError):
        asyncio.run(records(read_by(Node(), opened_snapshot(b"\xff"))))


class Called:
    """Calls a listener."""

    task: asyncio.Task[None] | None = None


def test_outside_of_calls_there_are_none() -> None:
    assert open_calls() == []


def test_calls_within_calls_are_all_found_until_they_are_done() -> None:
    outer, inner = Called(), Called()
    with ListenerCall(outer):
        with ListenerCall(inner):
            assert [call.owner for call in open_calls()] == [inner, outer]
        assert [call.owner for call in open_calls()] == [outer]
    assert open_calls() == []


async def test_a_task_runs_in_the_call_that_began_it_as_long_as_that_is_open() -> None:
    async def call_count() -> int:
        return len(open_calls())

    owner = Called()
    with ListenerCall(owner):
        within = asyncio.create_task(call_count())
        assert await within == 1
        left_running = asyncio.create_task(call_count())
    assert await left_running == 0


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
async def test_commits_go_on_while_stable_records_are_written(tmp_path: Path, own_thread: bool) -> None:
    saving, state = SavingBeside("three"), State()
    async with ClientNode(often(tmp_path), text_serde, own_thread=own_thread) as node:
        node.register(saving)
        await node.wait_for_leader()
        for at, record in enumerate(told := ["one", "two", "three"], start=1):
            await node.propose([record])
            await saving.sees(*told[:at])
            assert saving.asked <= 1  # one snapshot at a time
        while not await asyncio.to_thread(lambda: [*tmp_path.glob("**/*.checkpoint")]):
            pass
    async with ClientNode(often(tmp_path), text_serde, own_thread=own_thread) as node:
        node.register(state)
        await node.wait_for_leader()
        await node.propose(["after"])
        await state.wait_for(lambda: "after" in state.records)
        assert len({*state.loaded[0]}) == 1
        assert len(state.loaded[0]) >= MANY


@BOTH
async def test_what_goes_wrong_beside_the_calls_ends_the_node_with_its_story(tmp_path: Path, own_thread: bool) -> None:
    class Broken(Saving):
        def handle_save_snapshot(self) -> Iterable[str]:
            return StableRecords(self._broken())

        def _broken(self) -> Iterator[str]:
            yield "one"
            raise ValueError("the state is not to be had")

    node = ClientNode(often(tmp_path), text_serde, own_thread=own_thread)
    await node.initialize()
    node.register(Broken())
    with pytest.raises(ValueError, match="not to be had") as caught:
        await node.wait_closed()
    assert "It was raised by the records of" in caught.value.__notes__[0]
    assert not list(tmp_path.glob("**/*.checkpoint"))


@BOTH
async def test_the_end_of_the_node_or_of_the_listener_gives_a_snapshot_up(tmp_path: Path, own_thread: bool) -> None:
    async with ClientNode(often(tmp_path), text_serde, own_thread=own_thread) as node:
        await node.wait_for_leader()
        first, second = SavingBeside("never"), SavingBeside("never")
        for saving in (first, second):
            node.register(saving)
            await node.propose(["one"])
            await saving.wait_for(lambda saving=saving: saving.asked == 1)  # type: ignore[misc]
            if saving is first:
                node.unregister(first)
    assert not list(tmp_path.glob("**/*.checkpoint"))


def test_a_single_record_is_not_taken_for_many() -> None:
    with pytest.raises(UsageError, match="give a list of records"):
        StableRecords("state")
    assert [*StableRecords(["a", "b"])] == ["a", "b"]


@pytest.mark.parametrize("failing", ["create", "append", "freeze"])
async def test_disk_without_room_for_a_snapshot_ends_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    failed: list[str] = []

    def full(self: RawWriter, *_: object, **__: object) -> None:
        failed.append(failing)
        raise SnapshotFailedError(self, "cannot write: No space left on device")

    monkeypatch.setattr(RawWriter, failing, full)

    saving = Saving()
    async with ClientNode(often(tmp_path), text_serde) as node:
        node.register(saving)
        await node.wait_for_leader()
        while not failed:
            await node.propose(["one"])
        await node.propose(["two"])
        await saving.wait_for(lambda: "two" in saving.records)
        assert (await node.metrics())["failed-snapshots-total"] == 1
    assert not list(tmp_path.glob("**/*.checkpoint*"))
