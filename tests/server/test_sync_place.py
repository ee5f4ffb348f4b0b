"""Where groups of appends are synced: on the loop while the disk is quick, otherwise by the lane's thread."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pytest

from pykraft.core.effects import TruncateTo
from pykraft.errors import StorageError
from pykraft.host.producers import Committed
from pykraft.log.lane import AppendBytes, Job
from pykraft.protocol.records import encode_batch
from pykraft.server import lanes
from pykraft.server.lanes import RELIEVED_EVERY, OrderedThread
from pykraft.types import Epoch, Io, Offset
from tests.server.nodes import StallingFs, node_configs
from tests.server.test_driver import Served, within_time
from tests.server.test_lanes import TIMEOUT_S, Told

LOOP, THREAD = "loop", "thread"


def append(number: int, size_bytes: int = 10) -> Job:
    batch = encode_batch([bytes(size_bytes)], base_offset=Offset(number), epoch=Epoch(1), timestamp_ms=0)
    return AppendBytes(io=Io(number), batches=[batch])


class Clock:
    """Stands still unless a test moves it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Lane:
    """Notes on which thread it does which jobs; each group takes as long as the test says."""

    def __init__(self, clock: Clock) -> None:
        self.groups: list[tuple[str, list[int]]] = []
        self.takes_s = 0.0
        self.is_lazy = False
        self.error: Exception | None = None
        self.relieve_error: Exception | None = None
        self.relieved: list[str] = []
        self.settled = threading.Semaphore(0)
        self.settle_gate = threading.Event()
        self.settle_gate.set()
        self._clock = clock
        self._loop_thread = threading.current_thread()

    def perform(self, jobs: Sequence[Job]) -> Io:
        self.groups.append((self._where(), [each.io for each in jobs]))
        self._clock.now_s += self.takes_s
        if self.error is not None:
            raise self.error
        return jobs[-1].io

    def only_writes(self, job: Job) -> bool:
        return self.is_lazy and isinstance(job, AppendBytes)

    def settle(self) -> None:
        self.settled.release()
        assert self.settle_gate.wait(TIMEOUT_S)

    def relieve(self) -> None:
        self.relieved.append(self._where())
        if self.relieve_error is not None:
            raise self.relieve_error

    def check_files(self) -> None:
        """The clock stands still, so this is never due."""

    def _where(self) -> str:
        return LOOP if threading.current_thread() is self._loop_thread else THREAD


class Case:
    """One ordered lane; `do` submits a job and waits until it is durable."""

    def __init__(self, clock: Clock) -> None:
        loop = asyncio.get_running_loop()
        self.clock = clock
        self.told = Told(loop)
        self.lane = Lane(clock)
        self.ordered = OrderedThread(loop, self.lane, done=self.told.done, failed=self.told.failed)
        self.last = 0

    def submit(self) -> int:
        self.last += 1
        self.ordered.submit(append(self.last))
        return self.last

    async def do(self, count: int = 1) -> list[str]:
        """That many groups of one job; where each was done."""
        for _ in range(count):
            self.wait_for_thread()
            number = self.submit()
            await self.told.wait_for(lambda number=number: self.told.durable[-1:] == [number])  # type: ignore[misc]
        return [where for where, _ in self.lane.groups[-count:]]

    async def trusted(self) -> Self:
        """The disk was quick for long enough."""
        assert await self.do(lanes.QUICK_COUNT) == [THREAD] * lanes.QUICK_COUNT
        self.wait_for_thread()
        return self

    def wait_for_thread(self) -> None:
        """The thread may have told of its last group and still relieve the lane."""
        assert self.ordered._uses_lane.acquire(timeout=TIMEOUT_S)
        self.ordered._uses_lane.release()

    def end(self) -> None:
        self.ordered.leave_to_thread()
        assert self.ordered.stop(TIMEOUT_S)


async def turn_ended() -> None:
    """Everything that was due has run."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    loop.call_soon(ended.set_result, None)
    await ended


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(lanes, "monotonic", clock)
    return clock


async def test_after_quick_groups_the_loop_syncs_at_the_end_of_its_turn(clock: Clock) -> None:
    case = await Case(clock).trusted()
    case.submit()
    assert len(case.lane.groups) == lanes.QUICK_COUNT, "what this turn sends leaves before the loop waits for the disk"
    last = case.submit()
    await case.told.wait_for(lambda: case.told.durable[-1] == last)
    assert case.lane.groups[-1] == (LOOP, [last - 1, last])
    assert await case.do(20) == [LOOP] * 20
    case.end()
    assert case.told.durable == sorted(case.told.durable)
    assert case.told.failures == []


async def test_what_is_only_written_is_written_on_the_loop_whatever_else_it_does(clock: Clock) -> None:
    case = Case(clock)
    case.lane.is_lazy = True
    case.submit()
    clock.now_s += 10 * lanes.TURN_S_MAX
    await case.told.wait_for(lambda: case.told.durable == [1])
    assert await case.do(3) == [LOOP] * 3
    # Another kind of job waits for the disk.
    case.submit()
    case.last += 1
    case.ordered.submit(TruncateTo(io=Io(case.last), end_offset=Offset(0)))
    clock.now_s += 10 * lanes.TURN_S_MAX
    await case.told.wait_for(lambda: case.told.durable[-1] == case.last)
    assert case.lane.groups[-1] == (THREAD, [case.last - 1, case.last])
    case.wait_for_thread()
    case.lane.takes_s = 1.0
    assert await case.do() == [LOOP]
    assert await case.do() == [THREAD], "a disk that stalls stalls writes, too"
    case.end()


async def test_after_a_stall_the_thread_gets_the_groups_for_many_times_its_length(clock: Clock) -> None:
    case = await Case(clock).trusted()
    case.lane.takes_s = 1.0
    assert await case.do() == [LOOP]
    case.lane.takes_s = 0.0
    rest_s = (1.0 - lanes.SLOW_S_MAX) / lanes.SLOW_SHARE
    clock.now_s += rest_s - 0.1
    assert await case.do(2 * lanes.QUICK_COUNT) == [THREAD] * (2 * lanes.QUICK_COUNT)
    clock.now_s += 0.2
    assert await case.do() == [LOOP]
    case.end()


async def test_a_disk_that_is_still_slow_is_left_to_the_thread(clock: Clock) -> None:
    case = await Case(clock).trusted()
    case.lane.takes_s = 2 * lanes.SLOW_S
    assert await case.do() == [LOOP]
    clock.now_s += 60
    assert await case.do(20) == [THREAD] * 20
    case.lane.takes_s = lanes.SLOW_S / 2
    assert await case.do(lanes.QUICK_COUNT + 1) == [THREAD] * lanes.QUICK_COUNT + [LOOP]
    case.end()


async def test_a_loop_with_other_work_leaves_groups_to_the_thread(clock: Clock) -> None:
    case = await Case(clock).trusted()
    last = case.submit()
    clock.now_s += 2 * lanes.TURN_S_MAX
    await case.told.wait_for(lambda: case.told.durable[-1] == last)
    assert case.lane.groups[-1] == (THREAD, [last])
    assert await case.do(lanes.BUSY_COUNT) == [THREAD] * (lanes.BUSY_COUNT - 1) + [LOOP]
    case.end()


async def test_a_group_is_not_done_on_the_loop_while_the_thread_uses_the_lane(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "IDLE_S", 0.001)
    case = await Case(clock).trusted()
    while case.lane.settled.acquire(blocking=False):
        pass
    case.lane.settle_gate.clear()
    await case.do()  # wakes the thread, which settles again
    assert await asyncio.to_thread(case.lane.settled.acquire, timeout=TIMEOUT_S)
    last = case.submit()
    await turn_ended()
    await turn_ended()
    assert case.told.durable[-1] == last - 1, "the loop does not wait for the thread"
    case.lane.settle_gate.set()
    await case.told.wait_for(lambda: case.told.durable[-1] == last)
    assert case.lane.groups[-1] == (THREAD, [last])
    case.end()


async def test_the_loop_does_not_overtake_the_thread(clock: Clock) -> None:
    case = await Case(clock).trusted()
    case.last += 1
    case.ordered.submit(append(case.last, lanes.SIZE_BYTES_MAX))
    last = case.submit()
    await case.told.wait_for(lambda: case.told.durable[-1] == last)
    done = [number for _, numbers in case.lane.groups for number in numbers]
    assert done == list(range(1, last + 1))
    assert [where for where, numbers in case.lane.groups if last in numbers] == [THREAD]
    case.end()


async def test_the_thread_settles_what_the_loop_has_done(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "IDLE_S", 0.001)
    case = await Case(clock).trusted()
    for _ in range(3):
        assert await asyncio.to_thread(case.lane.settled.acquire, timeout=TIMEOUT_S)
        while case.lane.settled.acquire(blocking=False):
            pass
        await case.do()
    assert await asyncio.to_thread(case.lane.settled.acquire, timeout=TIMEOUT_S)
    case.end()


async def test_the_lane_is_relieved_now_and_then(clock: Clock) -> None:
    case = await Case(clock).trusted()
    await case.do(2 * RELIEVED_EVERY)
    await turn_ended()
    assert case.lane.relieved.count(LOOP) == 2
    case.lane.relieve_error = StorageError("recovery-point", "input/output error")
    await case.do(RELIEVED_EVERY)
    await case.told.wait_for(lambda: case.told.failures == [case.lane.relieve_error])
    case.end()


async def test_a_failure_on_the_loop_is_told(clock: Clock) -> None:
    case = await Case(clock).trusted()
    case.lane.error = StorageError("log", "no space left on device")
    last = case.submit()
    await case.told.wait_for(lambda: case.told.failures == [case.lane.error])
    assert case.lane.groups[-1] == (LOOP, [last])
    assert case.told.durable[-1] == last - 1
    case.end()


async def test_what_a_turn_has_gathered_is_finished_at_the_end(clock: Clock) -> None:
    case = await Case(clock).trusted()
    await case.do(RELIEVED_EVERY - 1)
    last = case.submit()
    case.end()
    assert case.lane.groups[-1] == (THREAD, [last])
    relieved = len(case.lane.relieved)
    await turn_ended()
    assert len(case.lane.relieved) == relieved, "the files may be closed already"


@pytest.mark.parametrize("job", [TruncateTo(io=Io(1), end_offset=Offset(0)), append(1, lanes.SIZE_BYTES_MAX)])
def test_only_small_appends_are_synced_on_the_loop(job: Job) -> None:
    place = lanes.SyncPlace()
    for _ in range(lanes.QUICK_COUNT):
        assert not place.may_be_loop(append(1), 0.0)
        place.took(0.0)
    assert place.may_be_loop(append(1), 0.0)
    assert not place.may_be_loop(job, 0.0)


class NotingFs(StallingFs):
    """Notes on which thread the log was synced last."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""

    def pass_gate(self, path: Path) -> None:
        if path.suffix == ".log":
            self.last = threading.current_thread().name
        super().pass_gate(path)


async def test_a_disk_that_fails_under_the_loop_ends_the_node(clock: Clock, tmp_path: Path) -> None:
    [config] = node_configs(tmp_path, 1)
    fs = NotingFs()
    served = Served(config, fs=fs)
    epoch, _ = await served.watcher.leader()
    for _ in range(4 * lanes.QUICK_COUNT):
        await within_time(served.propose(b"a", epoch=epoch))
    assert fs.last == threading.main_thread().name
    fs.fails = True
    outcome = served.propose(b"b", epoch=epoch)
    with pytest.raises(StorageError, match="input/output error"):
        await served.ended()
    assert not isinstance(outcome.result(), Committed)
    fs.fails = False
    again = Served(config, fs=fs)
    epoch, _ = await again.watcher.leader()
    await again.watcher.wait_for(
        lambda: again.watcher.values[: 4 * lanes.QUICK_COUNT] == [b"a"] * (4 * lanes.QUICK_COUNT)
    )
    await again.leave()
