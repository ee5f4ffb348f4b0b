"""What a listener may do within a call, and how long its node waits for it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import pytest

from pykraft.client import LeaderAndEpoch, Node, Reader, StateReader, configure, subscriptions, text_serde
from pykraft.config import LogSettings, NodeConfig
from pykraft.errors import NotLeaderError, NotRunningError, OutcomeUnknownError, UsageError
from tests.client.nodes import BOTH, QUICK, TIMEOUT_S, Gated, Recorder, alone

AN_HOUR_MS = 3_600_000
Act = Callable[[Node[str]], Awaitable[object]]


class Acting(Recorder):
    """Does something to its node in the call that brings the record ``go``, and notes how that ended."""

    def __init__(self, node: Node[str], act: Act) -> None:
        super().__init__()
        self.node, self.act = node, act
        self.outcomes: list[object] = []

    async def handle_commit(self, reader: Reader[str]) -> None:  # type: ignore[override]
        super().handle_commit(reader)
        if self.records[-1:] == ["go"]:
            try:
                self.outcomes.append(await self.act(self.node))
            except BaseException as error:
                self.outcomes.append(error)
                raise
            finally:
                self._changed.set()


class Stubborn(Recorder):
    """Swallows that it is cancelled, as often as it has patience; then its call is done."""

    def __init__(self, patience: int) -> None:
        super().__init__()
        self.patience = patience
        self.cancelled = self.calls = 0
        self.began = asyncio.Event()

    async def handle_commit(self, reader: Reader[str]) -> None:  # type: ignore[override]
        self.calls += 1
        self.began.set()
        while self.cancelled < self.patience:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                self.cancelled += 1

    def begin_shutdown(self) -> None:
        """It waits behind the call that is cancelled, and must not come after that."""
        self.calls += 1


async def propose_for_ever(node: Node[str]) -> None:
    while True:
        await node.propose(["too late"])


async def shut_down(node: Node[str]) -> None:
    await node.shutdown(AN_HOUR_MS)


async def shut_down_in_a_task(node: Node[str]) -> None:
    await asyncio.wait_for(asyncio.gather(asyncio.create_task(node.shutdown(AN_HOUR_MS))), 2 * TIMEOUT_S)


async def close(node: Node[str]) -> None:
    await node.close()


async def wait_closed(node: Node[str]) -> None:
    node._life.stop()
    await node.wait_closed()


@BOTH
@pytest.mark.parametrize("act", [shut_down, shut_down_in_a_task, close, wait_closed])
@pytest.mark.parametrize("count", [1, 2])
async def test_a_call_that_ends_its_node_goes_on_when_that_has_ended(
    tmp_path: Path, own_thread: bool, act: Act, count: int
) -> None:
    node = Node(alone(tmp_path), text_serde, own_thread=own_thread)
    listeners = [Acting(node, act) for _ in range(count)]
    for listener in listeners:
        node.register(listener)
    await node.initialize()
    await node.wait_for_leader()
    proposed = asyncio.create_task(node.propose(["go"]))
    await asyncio.wait_for(node.wait_closed(), TIMEOUT_S)
    await node.shutdown(AN_HOUR_MS)
    for listener in listeners:
        await listener.wait_for(lambda listener=listener: bool(listener.outcomes))  # type: ignore[misc]
    assert [listener.outcomes for listener in listeners] == [[None]] * count
    await asyncio.wait([proposed])
    assert not isinstance(proposed.exception(), NotRunningError), "the records are in the log"


@BOTH
async def test_a_call_that_gave_up_waiting_is_waited_for_again(tmp_path: Path, own_thread: bool) -> None:
    node = Node(alone(tmp_path), text_serde, own_thread=own_thread)
    may_end = asyncio.Event()

    async def impatient(node: Node[str]) -> None:
        await asyncio.wait([waiting := asyncio.create_task(node.shutdown(AN_HOUR_MS))], timeout=0)
        waiting.cancel()
        await asyncio.wait([waiting])
        await may_end.wait()

    listener = Acting(node, impatient)
    node.register(listener)
    await node.initialize()
    await node.wait_for_leader()
    proposed = asyncio.create_task(node.propose(["go"]))
    await node.wait_closed()
    await asyncio.wait([proposed])
    leaving = asyncio.create_task(node.shutdown())
    await asyncio.wait([leaving], timeout=0.01)
    assert not leaving.done()
    may_end.set()
    await leaving
    assert listener.outcomes == [None]


@BOTH
@pytest.mark.parametrize("ends_by", ["shutdown", "close"])
async def test_a_listener_that_swallows_its_cancellation_once_is_called_no_more(
    tmp_path: Path, own_thread: bool, ends_by: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "pykraft")
    node = Node(alone(tmp_path), text_serde, own_thread=own_thread)
    stubborn = Stubborn(1)
    node.register(stubborn)
    await node.initialize()
    await asyncio.wait_for(stubborn.began.wait(), TIMEOUT_S)
    await (node.shutdown(timeout_ms=10) if ends_by == "shutdown" else node.close())
    assert (stubborn.calls, stubborn.cancelled) == (1, 1)
    assert caplog.text == ""


@BOTH
@pytest.mark.parametrize("ends_by", ["shutdown", "close"])
async def test_a_listener_that_will_not_end_is_left_behind_and_named(
    tmp_path: Path, own_thread: bool, ends_by: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "CANCEL_TIMEOUT_S", 0.01)

    node = Node(alone(tmp_path), text_serde, own_thread=own_thread)
    stubborn, other = Stubborn(2), Recorder()
    node.register(stubborn)
    node.register(other)
    await node.initialize()
    await asyncio.wait_for(stubborn.began.wait(), TIMEOUT_S)
    await (node.shutdown(timeout_ms=10) if ends_by == "shutdown" else node.close())
    assert stubborn.cancelled == 1
    task = node._listeners._current[id(stubborn)].task
    assert task is not None
    task.cancel()
    await asyncio.wait([task])
    assert stubborn.calls == 1
    assert "was cancelled but still runs: the node has ended without it" in caplog.text
    assert "Stubborn" in caplog.text


@BOTH
async def test_a_call_may_propose_and_take_itself_out_and_come_back(tmp_path: Path, own_thread: bool) -> None:
    async with Node(alone(tmp_path), text_serde, own_thread=own_thread) as node:

        async def act(node: Node[str]) -> object:
            node.unregister(listener)
            listener.act = wait_for_the_next
            node.register(listener)
            return await node.propose(["from within"])

        async def wait_for_the_next(_: Node[str]) -> None:
            """The second time."""

        listener = Acting(node, act)
        node.register(listener)
        await node.wait_for_leader()
        await node.propose(["go"])
        await listener.sees("go", "go", "from within")
        assert [type(outcome).__name__ for outcome in listener.outcomes] == ["Committed", "NoneType"]


@BOTH
async def test_a_call_that_proposes_while_its_node_leaves_gets_an_answer(tmp_path: Path, own_thread: bool) -> None:
    node = Node(alone(tmp_path), text_serde, own_thread=own_thread)
    left = asyncio.Event()

    async def act(node: Node[str]) -> None:
        await left.wait()
        with pytest.raises((NotLeaderError, NotRunningError, OutcomeUnknownError)):
            await propose_for_ever(node)

    listener = Acting(node, act)
    node.register(listener)
    await node.initialize()
    await node.wait_for_leader()
    await node.propose(["go"])
    await listener.sees("go")  # a proposal is answered before its listener is called; leaving calls nobody any more
    leaving = asyncio.create_task(node.shutdown(AN_HOUR_MS))
    await asyncio.wait([leaving], timeout=0)
    left.set()
    await leaving
    assert listener.outcomes == [None]


@BOTH
async def test_what_was_proposed_is_applied_when_the_listener_is_done_with_it(tmp_path: Path, own_thread: bool) -> None:
    async with Node(alone(tmp_path), text_serde, own_thread=own_thread) as node:
        gated, ahead, stranger = Gated(), Recorder(), Recorder()
        node.register(gated)
        node.register(ahead, from_offset=1_000)
        await node.wait_for_leader()
        committed = await node.propose(["a", "b"])
        assert committed.end_offset == 3
        waiting = asyncio.create_task(node.wait_applied(gated, committed.end_offset))
        await asyncio.wait([waiting], timeout=0.01)
        assert not waiting.done()
        gated.may_go_on.set()
        await waiting
        assert gated.records == ["a", "b"]
        await node.wait_applied(gated, 1)
        await node.wait_applied(ahead, 1_000)
        with pytest.raises(UsageError, match="is not registered"):
            await node.wait_applied(stranger, 1)
        with pytest.raises(UsageError, match="end_offset = -1"):
            await node.wait_applied(gated, -1)
        never = asyncio.create_task(node.wait_applied(gated, 100))
        await asyncio.wait([never], timeout=0)
        node.unregister(gated)
        with pytest.raises(UsageError, match="was unregistered before"):
            await never
        forever = asyncio.create_task(node.wait_applied(ahead, 2_000))
        given_up = asyncio.create_task(node.wait_applied(ahead, 2_000))
        await asyncio.wait([forever], timeout=0)
        given_up.cancel()
    with pytest.raises(NotRunningError, match="has ended"):
        await forever
    with pytest.raises(NotRunningError, match="has ended"):
        await node.wait_applied(ahead, 1)


async def test_a_call_cannot_wait_for_what_comes_after_it(tmp_path: Path) -> None:
    node = Node(alone(tmp_path), text_serde)

    async def act(node: Node[str]) -> None:
        with pytest.raises(UsageError, match="cannot wait for a later call of the same listener"):
            await node.wait_applied(listener, 100)

    listener = Acting(node, act)
    node.register(listener)
    async with node:
        await node.wait_for_leader()
        await node.propose(["go"])
        await listener.wait_for(lambda: bool(listener.outcomes))
        assert listener.outcomes == [None]


async def test_who_waits_for_a_listener_that_fails_hears_why(tmp_path: Path) -> None:
    class Failing(Recorder):
        def handle_leader_change(self, leader_and_epoch: LeaderAndEpoch) -> None:
            raise ValueError("at a loss")

    node = Node(alone(tmp_path), text_serde)
    failing = Failing()
    node.register(failing)
    await node.initialize()
    with pytest.raises(NotRunningError, match="failed: at a loss"):
        await node.wait_applied(failing, 100)
    with pytest.raises(ValueError, match="at a loss"):
        await node.close()


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
async def test_a_plain_listener_begins_at_the_log_start_and_goes_on_there(
    tmp_path: Path, own_thread: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Each time that the log is cleaned, also after a restart; what it misses is told once, and the node goes on."""
    tidy_config = tidy(tmp_path)
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
    assert "misses offsets" in caplog.text
    assert "it continues at the log start" in caplog.text


@BOTH
async def test_a_slow_listener_that_loads_snapshots_gets_one_after_a_cleaning(tmp_path: Path, own_thread: bool) -> None:
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


@BOTH
async def test_a_slow_listener_that_named_its_offset_ends_the_node_rather_than_miss_records(
    tmp_path: Path, own_thread: bool
) -> None:
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


@BOTH
async def test_an_offset_that_the_log_has_lost_is_refused(tmp_path: Path, own_thread: bool) -> None:
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
