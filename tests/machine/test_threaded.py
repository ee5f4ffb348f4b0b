"""A state machine for threads: results and errors, and refusals where a call would wait for ever."""

import asyncio
import os
import threading
import warnings
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pykraft import errors
from pykraft.machine import Applied, Replicated, ThreadedReplicated
from pykraft.machine.submission import Submission
from pykraft.recipes import JobQueue, KeyValues, KeyValueStore, lock, try_lock
from tests.client.nodes import alone
from tests.machine.counters import Add, Counters


def made(folder: Path, machine: Counters | None = None) -> ThreadedReplicated[Counters]:
    return Replicated.in_thread(alone(folder), machine or Counters())


def test_threads_execute_and_read(tmp_path: Path) -> None:
    with made(tmp_path) as node, ThreadPoolExecutor(4) as pool:
        results = [*pool.map(lambda _: node.execute(Add("x", 1)), range(20))]
        assert sorted(results) == [*range(1, 21)]
        assert node.read(lambda state: state.totals["x"]) == 20
        assert node.read(lambda state: dict(state.totals), stale=True) == {"x": 20}
        with pytest.raises(errors.CommandRejectedError, match="y would be -1"):
            node.execute(Add("y", -1))
        with pytest.raises(KeyError):
            node.read(lambda state: state.totals["none"])
        with pytest.raises(TypeError):
            node.execute("text")  # type: ignore[arg-type]
    with made(tmp_path) as node:  # it has left its directory
        assert node.execute(Add("x", 1)) == 21


def test_a_call_says_whether_the_command_was_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(_: Submission[Any, Any], record: bytes) -> None:
        del record
        raise errors.NotLeaderError(None, 1)

    with made(tmp_path) as node:
        with monkeypatch.context() as patch:
            patch.setattr(Submission, "_send", refused)
            with pytest.raises(errors.NotAppliedError, match="was not applied, and will not be"):
                node.execute(Add("x", 1), timeout_ms=50)
        entered = threading.Event()

        async def endless(_: Any) -> None:
            entered.set()
            await asyncio.Event().wait()

        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(node.call, endless)
            entered.wait()
            node.close()
            with pytest.raises(errors.OutcomeUnknownError, match="closed before there was an answer"):
                waiting.result()


def test_a_second_use_is_refused(tmp_path: Path) -> None:
    node = made(tmp_path)
    with pytest.raises(errors.NotRunningError, match="is not started"):
        node.execute(Add("x", 1))
    with node:
        with pytest.raises(errors.UsageError, match="was started before"):
            node.start()
        with pytest.raises(errors.UsageError, match="the node's own thread"):
            node.read(lambda _: node.execute(Add("x", 1)))
    with pytest.raises(errors.NotRunningError):
        node.execute(Add("x", 1))
    with pytest.raises(errors.UsageError):
        node.start()
    node.close()
    unused = made(tmp_path)
    unused.close()
    with pytest.raises(errors.UsageError, match="was started before"):
        unused.start()


def test_a_forked_process_is_refused(tmp_path: Path) -> None:
    with made(tmp_path) as node:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads is what the test is about
            child = os.fork()
        if child == 0:
            status = 2
            try:
                node.execute(Add("x", 1))
            except errors.UsageError as error:
                status = 0 if "forked" in str(error) else 1
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert node.execute(Add("x", 1)) == 1


def test_a_node_that_cannot_start_or_fails_says_why(tmp_path: Path) -> None:
    class Broken(Counters):
        def apply(self, command: Add, context: Applied) -> int:
            raise OSError("a bug")

    with made(tmp_path / "first"):
        node = made(tmp_path / "first")
        with pytest.raises(errors.PykraftError):
            node.start()
    node = made(tmp_path / "second", Broken()).start()
    with pytest.raises((errors.NotRunningError, errors.OutcomeUnknownError, OSError)):
        node.execute(Add("x", 1))
    with pytest.raises(OSError, match="a bug"):
        node.close()
    with pytest.raises(errors.UsageError, match="is not a state machine"):
        Replicated.in_thread(alone(tmp_path), object())  # type: ignore[type-var]


def test_another_process_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with made(tmp_path) as node:
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: -1)
            for use in (lambda: node.execute(Add("x", 1)), node.close):
                with pytest.raises(errors.UsageError, match="this process was forked from it"):
                    use()
            node._at_exit()
        assert node.execute(Add("x", 1)) == 1


def test_a_call_that_the_loop_never_ran_hears_of_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never_run(work: Coroutine[Any, Any, Any], _: object) -> Future[Any]:
        work.close()
        return Future()

    with made(tmp_path) as node:
        monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", never_run)
        raised: list[BaseException] = []

        def execute() -> None:
            try:
                node.execute(Add("x", 1))
            except errors.OutcomeUnknownError as error:
                raised.append(error)

        caller = threading.Thread(target=execute, daemon=True)
        caller.start()
        while not node._calls:
            node._thread.join(0.001)
        node.close()
        caller.join(10)
        assert raised


def test_an_interrupted_call_is_given_up(tmp_path: Path) -> None:
    with made(tmp_path) as node:
        ended = threading.Event()

        async def endless(_: Any) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(node.call, endless)
            while not node._calls:
                node._thread.join(0.001)
            [answer] = node._calls
            answer.cancel()
            with pytest.raises(errors.OutcomeUnknownError):
                waiting.result()
        ended.wait()


def store_node(folder: Path) -> ThreadedReplicated[KeyValues]:
    return Replicated.in_thread(alone(folder), KeyValues())


def test_a_thread_holds_a_lock_as_long_as_its_block(tmp_path: Path) -> None:
    with store_node(tmp_path) as node, ThreadPoolExecutor(8) as pool:
        inside, tokens = 0, []

        def work(_: int) -> None:
            nonlocal inside
            with node.block(lambda replicated: lock(KeyValueStore(replicated), "tool")) as held:
                inside += 1
                assert inside == 1
                tokens.append(held.token)
                node.call(lambda replicated: KeyValueStore(replicated).put("used", str(held.token)))
                inside -= 1

        [*pool.map(work, range(20))]
        assert tokens == sorted(set(tokens))
        assert len(tokens) == 20
        with (
            node.block(lambda replicated: lock(KeyValueStore(replicated), "tool")),
            node.block(lambda replicated: try_lock(KeyValueStore(replicated), "tool")) as second,
        ):
            assert second is None


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_an_exception_of_a_thread_ends_the_block_on_the_loop(tmp_path: Path, kind: type[BaseException]) -> None:
    with store_node(tmp_path) as node:
        queue_of: Any = lambda replicated: JobQueue(KeyValueStore(replicated), "mail", retry_ms=0)  # noqa: E731
        node.call(lambda replicated: queue_of(replicated).put("write"))
        attempts = []

        def fail() -> None:
            with node.block(lambda replicated: queue_of(replicated).take()) as job:
                attempts.append(job.attempt)
                raise kind("broken")

        with pytest.raises(kind):
            fail()
        with node.block(lambda replicated: queue_of(replicated).take()) as job:
            attempts.append(job.attempt)
        assert attempts == [1, 2], "the job was given back"
        assert node.call(lambda replicated: queue_of(replicated).count()) == 0


def test_a_block_says_that_it_was_lost_or_never_begun(tmp_path: Path) -> None:
    node = store_node(tmp_path)
    with pytest.raises(errors.NotRunningError, match="is not started"), node.block(never_held):
        raise AssertionError
    with node:
        with (
            pytest.raises(errors.UsageError, match="ttl_ms = 1"),
            node.block(lambda replicated: KeyValueStore(replicated).lease(1)),
        ):
            raise AssertionError
        with pytest.raises(errors.LeaseLostError), node.block(lost):
            lost_now.wait()
        with (
            pytest.raises(errors.OutcomeUnknownError, match="closed before the block had ended"),
            node.block(lambda replicated: lock(KeyValueStore(replicated), "tool")),
        ):
            node.close()


def never_held(_: object) -> AbstractAsyncContextManager[None]:
    raise AssertionError


lost_now = threading.Event()


@asynccontextmanager
async def lost(_: object) -> AsyncIterator[str]:
    """As a lease whose block is cancelled."""
    try:
        async with asyncio.timeout(0.001):
            yield "held"
    except TimeoutError:
        lost_now.set()
        raise errors.LeaseLostError("lost") from None
