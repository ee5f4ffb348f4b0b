"""Lanes: order, group commit, and a stalled or failed disk that blocks nothing else."""

import asyncio
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any

import pytest

from pykraft.core.effects import TruncateTo
from pykraft.errors import StorageError
from pykraft.host.ports import CheckInSteps
from pykraft.log.lane import Job
from pykraft.server import lanes
from pykraft.server.lanes import BulkThread, CheckThread, OrderedThread
from pykraft.types import Io, Offset

TIMEOUT_S = 10.0


def job(number: int) -> Job:
    return TruncateTo(io=Io(number), end_offset=Offset(0))


class FakeLane:
    """Does jobs as fast as the gate lets it, and fails at one if it is told to."""

    def __init__(self) -> None:
        self.turns: list[list[int]] = []
        self.settled = threading.Event()
        self.has_begun = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.fails_at: int | None = None
        self.settle_error: Exception | None = None
        self.relieved: list[int] = []
        self.relieve_error: Exception | None = None
        self.looks = threading.Semaphore(0)
        self.look_error: Exception | None = None

    def perform(self, jobs: Sequence[Job]) -> Io:
        self.turns.append([each.io for each in jobs])
        self.has_begun.set()
        assert self.gate.wait(TIMEOUT_S)
        if any(each.io == self.fails_at for each in jobs):
            raise StorageError("log", "no space left on device")
        return jobs[-1].io

    def only_writes(self, job: Job) -> bool:
        del job
        return False

    def settle(self) -> None:
        self.settled.set()
        if self.settle_error is not None:
            raise self.settle_error

    def relieve(self) -> None:
        self.relieved.append(len(self.turns))
        if self.relieve_error is not None:
            raise self.relieve_error

    def check_files(self) -> None:
        self.looks.release()
        if self.look_error is not None:
            raise self.look_error


class Told:
    """What lanes tell on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.durable: list[int] = []
        self.results: list[object] = []
        self.failures: list[BaseException] = []
        self._loop = loop
        self._changed = asyncio.Event()

    def done(self, io: Io) -> None:
        self.durable.append(io)
        self._note()

    def result(self, result: object) -> None:
        self.results.append(result)
        self._note()

    def failed(self, error: BaseException) -> None:
        self.failures.append(error)
        self._note()

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                await self._changed.wait()
                self._changed.clear()

    def _note(self) -> None:
        assert asyncio.get_running_loop() is self._loop
        self._changed.set()


def ordered(lane: FakeLane) -> tuple[Told, OrderedThread]:
    loop = asyncio.get_running_loop()
    told = Told(loop)
    return told, OrderedThread(loop, lane, done=told.done, failed=told.failed)


def reads() -> tuple[Told, BulkThread]:
    loop = asyncio.get_running_loop()
    told = Told(loop)
    return told, BulkThread(loop, failed=told.failed)


@pytest.mark.conformance(115)
async def test_jobs_are_done_in_order_and_told_on_the_loop() -> None:
    lane = FakeLane()
    told, thread = ordered(lane)
    for number in range(1, 100):
        thread.submit(job(number))
    await told.wait_for(lambda: told.durable[-1:] == [99])
    assert thread.stop(TIMEOUT_S)
    assert told.durable == sorted(told.durable)
    assert [number for turn in lane.turns for number in turn] == list(range(1, 100))
    assert told.failures == []


@pytest.mark.conformance(115)
async def test_what_waits_while_the_disk_is_busy_is_done_in_one_turn() -> None:
    lane = FakeLane()
    lane.gate.clear()
    told, thread = ordered(lane)
    thread.submit(job(1))
    assert lane.has_begun.wait(TIMEOUT_S)
    for number in range(2, 50):
        thread.submit(job(number))
    assert told.durable == []
    lane.gate.set()
    await told.wait_for(lambda: told.durable == [1, 49])
    assert lane.turns == [[1], list(range(2, 50))]
    assert thread.stop(TIMEOUT_S)


async def test_an_idle_lane_settles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "IDLE_S", 0.001)
    lane = FakeLane()
    told, thread = ordered(lane)
    assert lane.settled.wait(TIMEOUT_S)
    thread.submit(job(1))
    await told.wait_for(lambda: told.durable == [1])
    assert thread.stop(TIMEOUT_S)


async def test_a_failure_is_told_and_ends_the_lane() -> None:
    lane = FakeLane()
    lane.fails_at = 2
    told, thread = ordered(lane)
    thread.submit(job(1))
    await told.wait_for(lambda: told.durable == [1])
    thread.submit(job(2))
    await told.wait_for(lambda: bool(told.failures))
    thread.submit(job(3))
    assert thread.stop(TIMEOUT_S)
    assert lane.turns[-1] == [2]
    assert isinstance(told.failures[0], StorageError)


async def test_a_failure_to_settle_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "IDLE_S", 0.001)
    lane = FakeLane()
    lane.settle_error = StorageError("recovery-point", "input/output error")
    told, thread = ordered(lane)
    await told.wait_for(lambda: told.failures == [lane.settle_error])
    assert thread.stop(TIMEOUT_S)


async def test_a_lane_looks_after_its_files_while_it_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "IDLE_S", 0.001)
    monkeypatch.setattr(lanes, "LOOK_S", 0.001)
    lane = FakeLane()
    told, thread = ordered(lane)
    for _ in range(3):
        assert lane.looks.acquire(timeout=TIMEOUT_S)
    lane.look_error = StorageError("0.log", "is gone")
    await told.wait_for(lambda: told.failures == [lane.look_error])
    assert thread.stop(TIMEOUT_S)


async def test_a_busy_lane_looks_after_its_files_between_two_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "IDLE_S", TIMEOUT_S)
    monkeypatch.setattr(lanes, "LOOK_S", 0.0)
    lane = FakeLane()
    told, thread = ordered(lane)
    for number in (1, 2):
        thread.submit(job(number))
        assert lane.looks.acquire(timeout=TIMEOUT_S)
    lane.look_error = StorageError("0.log", "is gone")
    thread.submit(job(3))
    await told.wait_for(lambda: told.failures == [lane.look_error])
    assert thread.stop(TIMEOUT_S)


@pytest.mark.conformance(115)
async def test_stopping_does_what_is_queued_and_nothing_later() -> None:
    lane = FakeLane()
    lane.gate.clear()
    _, thread = ordered(lane)
    thread.submit(job(1))
    assert lane.has_begun.wait(TIMEOUT_S)
    thread.submit(job(2))
    assert not thread.stop(0.01), "the disk stalls, and the loop is not held up for ever"
    thread.submit(job(3))
    lane.gate.set()
    assert thread.stop(TIMEOUT_S)
    assert lane.turns == [[1], [2]]


def test_a_lane_that_outlives_its_loop_tells_nobody(runner: asyncio.Runner) -> None:
    lane = FakeLane()
    lane.gate.clear()
    reading, may_return = threading.Event(), threading.Event()

    def slow_read() -> None:
        reading.set()
        assert may_return.wait(TIMEOUT_S)

    async def main() -> tuple[OrderedThread, BulkThread, Told]:
        loop = asyncio.get_running_loop()
        told = Told(loop)
        return (
            OrderedThread(loop, lane, done=told.done, failed=told.failed),
            BulkThread(loop, failed=told.failed),
            told,
        )

    ordered, bulk, told = runner.run(main())
    ordered.submit(job(1))
    bulk.submit(slow_read, told.result)
    assert lane.has_begun.wait(TIMEOUT_S)
    assert reading.wait(TIMEOUT_S)
    runner.close()
    lane.gate.set()
    may_return.set()
    assert ordered.stop(TIMEOUT_S)
    assert bulk.stop(TIMEOUT_S)
    assert (told.durable, told.results, told.failures) == ([], [], [])


@pytest.mark.conformance(115)
async def test_reads_come_back_to_the_loop_in_order() -> None:
    told, bulk = reads()
    for number in range(10):
        bulk.submit(lambda number=number: (number, threading.current_thread().name), told.result)  # type: ignore[misc]
    await told.wait_for(lambda: len(told.results) == 10)
    assert told.results == [(number, "pykraft-bulk-lane") for number in range(10)]
    assert bulk.stop(TIMEOUT_S)


async def test_a_read_that_fails_is_told() -> None:
    def read() -> None:
        raise StorageError("log", "input/output error")

    told, bulk = reads()
    bulk.submit(read, told.result)
    await told.wait_for(lambda: bool(told.failures))
    assert bulk.stop(TIMEOUT_S)
    assert isinstance(told.failures[0], StorageError)
    assert told.results == []


async def test_reads_that_have_not_begun_are_dropped_at_the_end() -> None:
    gate, begun = threading.Event(), threading.Event()
    late: list[int] = []

    def first() -> None:
        begun.set()
        assert gate.wait(TIMEOUT_S)

    told, bulk = reads()
    bulk.submit(first, told.result)
    assert begun.wait(TIMEOUT_S)
    bulk.submit(lambda: late.append(1), told.result)
    assert not bulk.stop(0.01)
    gate.set()
    assert bulk.stop(TIMEOUT_S)
    assert late == []


async def test_a_turn_is_reported_before_the_lane_does_what_nobody_waits_for() -> None:
    lane = FakeLane()
    lane.relieve_error = StorageError("log", "read-only file system")
    told, thread = ordered(lane)
    thread.submit(job(1))
    await told.wait_for(lambda: bool(told.failures))
    assert told.durable == [1]
    assert told.failures == [lane.relieve_error]
    assert lane.relieved == [1]
    assert thread.stop(TIMEOUT_S)


class Checks:
    """A check thread on a running loop, and what it ended with."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        self.done: list[object] = []
        self._changed = asyncio.Event()
        self.thread = CheckThread(asyncio.get_running_loop(), failed=lambda error: self._note(self.failures, error))

    def check(self, name: str, *rank: int, gate: threading.Event | None = None, count: int = 3) -> CheckInSteps:
        """A check of so many steps; the first waits for the gate."""

        def steps() -> Generator[None, None, str]:
            if gate is not None:
                assert gate.wait(TIMEOUT_S)
            for _ in range(count):
                yield
            return name

        return CheckInSteps(steps(), lambda found: self._note(self.done, found), rank)

    async def ended(self, count: int) -> list[object]:
        async with asyncio.timeout(TIMEOUT_S):
            while len(self.done) + len(self.failures) < count:
                await self._changed.wait()
                self._changed.clear()
        return self.done

    def _note(self, to: list[Any], found: object) -> None:
        to.append(found)
        self._changed.set()


async def test_checks_go_on_by_rank_and_a_cancelled_one_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "CHECK_STEPS_S", 0.0)
    checks, gate = Checks(), threading.Event()
    checks.thread.submit(checks.check("first", 0, 9, gate=gate))
    gone = checks.check("gone", 0, 0)
    for check in (checks.check("doubtful", 2, 1), checks.check("large", 0, 50), gone, checks.check("small", 0, 3)):
        checks.thread.submit(check)
    gone.is_cancelled = True
    gate.set()
    assert await checks.ended(4) == ["small", "first", "large", "doubtful"]
    assert checks.failures == []
    assert checks.thread.stop(TIMEOUT_S)


async def test_what_many_cancelled_checks_hold_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "PRUNED_EVERY", 4)
    checks, gate = Checks(), threading.Event()
    checks.thread.submit(checks.check("busy", 0, 0, gate=gate, count=1))
    many = [checks.check("gone", 5, number) for number in range(8)]
    for check in many:
        check.is_cancelled = True
        checks.thread.submit(check)
    gate.set()
    await checks.ended(1)
    assert checks.thread.stop(TIMEOUT_S)
    assert len(checks.thread._waiting) <= 1


async def test_a_check_that_fails_ends_the_node_and_a_thread_without_checks_ends_at_once() -> None:
    checks = Checks()
    assert checks.thread.stop()

    def steps() -> Generator[None, None, None]:
        yield
        raise AssertionError("our bug")

    checks = Checks()
    checks.thread.submit(CheckInSteps(steps(), checks.done.append, (0,)))
    await checks.ended(1)
    assert [str(each) for each in checks.failures] == ["our bug"]


async def test_a_doubtful_check_lets_others_go_on_at_once() -> None:
    checks, gate = Checks(), threading.Event()
    doubtful = checks.check("doubtful", 2, 0, gate=gate, count=5)
    doubtful.is_doubtful = True
    checks.thread.submit(doubtful)
    checks.thread.submit(checks.check("sound", 0, 0))
    gate.set()
    assert set(await checks.ended(2)) == {"doubtful", "sound"}
    assert checks.thread.stop(TIMEOUT_S)
