"""Nodes over real sockets, files and threads: they serve, they leave, and an error ends them with its cause.

Floods and repetitions are cut, a state that ends by itself waits, and alarms pass.

A node that ends while its disk stalls keeps its directory locked; an error without an owner in the loop is told.
"""

import asyncio
import gc
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from pykraft.config import NodeConfig
from pykraft.core.effects import Report
from pykraft.errors import ConfigError, StorageError
from pykraft.host.producers import Committed, ProposalOutcome
from pykraft.local.voters import free_ports
from pykraft.log.os_fs import OsFs
from pykraft.protocol.api import decode_response, encode_request, frame
from pykraft.protocol.messages import ApiKey
from pykraft.security.settings import METRICS_NAME
from pykraft.server import driver as driver_module
from pykraft.server.clock import now
from pykraft.server.driver import BURST_MAX, LINES_PER_S, REMEMBERED_MAX, REPEATED_S, Driver, Reports
from pykraft.server.prometheus import METRICS
from pykraft.types import Endpoint, Epoch, NodeId, ReportKind
from tests.security.credentials import properties, security
from tests.server.nodes import QUICK, TIMEOUT_S, StallingFs, Watcher, node_configs
from tests.server.station import turns


class Served:
    """One node that runs, its listener and the task that ends with it."""

    def __init__(self, config: NodeConfig, *, fs: OsFs | None = None) -> None:
        self.config = config
        self.node = Driver(config, asyncio.get_running_loop(), fs=fs)
        self.watcher = Watcher()
        self.node.host.register(self.watcher)
        self.task = asyncio.create_task(self.node.run())

    async def ended(self) -> None:
        """Wait for the end. Errors: what ended the node."""
        await asyncio.wait_for(self.task, TIMEOUT_S)

    async def leave(self) -> None:
        """A graceful shutdown."""
        self.node.shut_down()
        await self.ended()

    async def leave_at_once(self) -> None:
        """Without handing over: asked twice."""
        self.node.shut_down()
        await self.leave()

    def propose(self, *values: bytes, epoch: Epoch) -> asyncio.Future[ProposalOutcome]:
        """Append these values; the future is their outcome."""
        outcome: asyncio.Future[ProposalOutcome] = asyncio.get_running_loop().create_future()
        self.node.host.propose(values, epoch=epoch, now=now(), on_outcome=outcome.set_result)
        return outcome

    async def api_keys(self) -> set[int]:
        """What the node says it serves, over a connection of its own."""
        _, endpoint = next(iter(self.config.listeners))
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.writelines(frame(encode_request(ApiKey.API_VERSIONS, 0, 1, "test", {})))
        size_bytes = int.from_bytes(await asyncio.wait_for(reader.readexactly(4), TIMEOUT_S), "big")
        _, body = decode_response(ApiKey.API_VERSIONS, 0, await reader.readexactly(size_bytes))
        writer.close()
        await writer.wait_closed()
        return {api["api_key"] for api in body["api_keys"]}


async def leading(folder: Path) -> Served:
    """The only node of a quorum, which leads."""
    [config] = node_configs(folder, 1)
    served = Served(config)
    await served.watcher.leader()
    return served


async def within_time(awaitable: Awaitable[ProposalOutcome]) -> Committed:
    outcome = await asyncio.wait_for(awaitable, TIMEOUT_S)
    assert isinstance(outcome, Committed)
    return outcome


@pytest.mark.conformance(99, "H22")
async def test_one_node_serves_and_remembers(tmp_path: Path) -> None:
    [config] = node_configs(tmp_path, 1)
    first = Served(config)
    epoch, _ = await first.watcher.leader()
    committed = await within_time(first.propose(b"a", b"b", epoch=epoch))
    assert (committed.base_offset, committed.count) == (1, 2)
    assert {1, 18, 52, 53, 54, 55} <= await first.api_keys()
    await first.leave()

    second = Served(config)
    await second.watcher.wait_for(lambda: second.watcher.values == [b"a", b"b"])
    assert (await second.watcher.leader())[0] > epoch
    await second.leave()


@pytest.mark.conformance(99)
async def test_three_nodes_elect_replicate_and_hand_over(tmp_path: Path) -> None:
    nodes = {config.node_id: Served(config) for config in node_configs(tmp_path, 3)}
    leaders = [await served.watcher.leader() for served in nodes.values()]
    epoch, leader_id = max(leaders)
    values = [str(number).encode() for number in range(100)]
    outcomes = [nodes[leader_id].propose(value, epoch=epoch) for value in values]
    for outcome in outcomes:
        await within_time(outcome)
    for served in nodes.values():
        await served.watcher.wait_for(lambda served=served: served.watcher.values == values)  # type: ignore[misc]

    await nodes.pop(leader_id).leave()
    for served in nodes.values():
        news = served.watcher.leaders
        await served.watcher.wait_for(lambda news=news: news[-1][0] > epoch and news[-1][1] is not None)  # type: ignore[misc]
    for served in nodes.values():
        await served.leave_at_once()


async def test_a_timer_whose_time_was_moved_takes_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = await leading(tmp_path)
    node, ticks = served.node, list[int]()
    monkeypatch.setattr(node.host, "on_tick", lambda at: ticks.append(at.mono_ms))
    later_ms = now().mono_ms + 60_000
    node.wake_at(now().mono_ms + 1)
    node.wake_at(later_ms)
    assert node._timer_ms < later_ms, "the timer is not set anew at each step"
    while node._timer_ms != later_ms:
        await asyncio.wait([served.task], timeout=0.001)
    assert ticks == []
    node.wake_at(now().mono_ms)
    while not ticks:
        await asyncio.wait([served.task], timeout=0.001)
    await served.leave_at_once()


async def test_a_disk_that_stalls_holds_up_nothing_but_what_waits_for_it(tmp_path: Path) -> None:
    [config] = node_configs(tmp_path, 1, raft=replace(QUICK, fetch_timeout_ms=60_000))
    fs = StallingFs()
    served = Served(config, fs=fs)
    epoch, _ = await served.watcher.leader()
    fs.gate.clear()
    outcome = served.propose(b"a", epoch=epoch)
    while not fs.is_stalled.is_set():
        await asyncio.wait([outcome], timeout=0.001)
    assert await served.api_keys()
    assert not outcome.done()
    fs.gate.set()
    await within_time(outcome)
    await served.leave()


def test_a_disk_that_never_comes_back_does_not_keep_the_node(
    runner: asyncio.Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(driver_module, "LANE_STOP_TIMEOUT_S", 0.01)
    [config] = node_configs(tmp_path, 1)
    fs = StallingFs()

    async def main() -> None:
        served = Served(config, fs=fs)
        epoch, _ = await served.watcher.leader()
        fs.gate.clear()
        outcome = served.propose(b"a", epoch=epoch)
        while not fs.is_stalled.is_set():
            await asyncio.wait([served.task], timeout=0.001)
        await served.leave_at_once()
        assert not isinstance(outcome.result(), Committed)

    runner.run(main())
    assert "the disk did not finish" in caplog.text
    fs.gate.set()
    for thread in threading.enumerate():
        if thread.name == "pykraft-ordered-lane":
            thread.join(TIMEOUT_S)


@pytest.mark.conformance(99)
async def test_a_disk_that_fails_ends_the_node(tmp_path: Path) -> None:
    [config] = node_configs(tmp_path, 1)
    fs = StallingFs()
    served = Served(config, fs=fs)
    epoch, _ = await served.watcher.leader()
    fs.fails = True
    outcome = served.propose(b"a", epoch=epoch)
    with pytest.raises(StorageError, match="input/output error"):
        await served.ended()
    assert not isinstance(outcome.result(), Committed)
    fs.fails = False
    again = Served(config, fs=fs)
    await again.watcher.leader()
    await again.leave()


@pytest.mark.conformance(99)
async def test_a_bug_below_the_host_ends_the_node(tmp_path: Path) -> None:
    [config] = node_configs(tmp_path, 1)

    def break_down(epoch: Epoch, leader_id: NodeId | None) -> None:
        raise AssertionError(f"a bug in epoch {epoch} of {leader_id}")

    served = Served(config)
    served.watcher.on_news = break_down
    with pytest.raises(AssertionError, match="a bug in epoch"):
        await served.ended()


@pytest.mark.conformance(99)
async def test_a_bug_in_any_callback_or_task_ends_the_node(tmp_path: Path) -> None:
    [config] = node_configs(tmp_path, 1)

    def break_down() -> None:
        raise AssertionError("a bug of ours")

    served = Served(config)
    await served.watcher.leader()
    asyncio.get_running_loop().call_soon(break_down)
    with pytest.raises(AssertionError, match="a bug of ours"):
        await served.ended()


@pytest.mark.conformance(99)
async def test_a_complaint_of_the_loop_without_an_exception_ends_the_node(tmp_path: Path) -> None:
    served = await leading(tmp_path)
    asyncio.get_running_loop().call_exception_handler({"message": "something was lost"})
    with pytest.raises(RuntimeError, match="something was lost"):
        await served.ended()


async def test_an_address_that_is_taken_is_a_bad_property_and_leaves_nothing_open(tmp_path: Path) -> None:
    first_config, second_config = node_configs(tmp_path, 2)
    taken = replace(second_config, listeners=first_config.listeners)
    first = Served(first_config)
    await asyncio.wait([first.task], timeout=0.001)
    with pytest.raises(ConfigError) as caught:
        await Served(taken).ended()
    assert caught.value.key == "listeners"
    assert str(next(iter(first_config.listeners))[1]) in str(caught.value.value)
    second = Served(second_config)
    await second.watcher.leader()
    await first.leave_at_once()
    await second.leave_at_once()


@pytest.mark.conformance(99)
async def test_who_is_asked_to_leave_twice_leaves_at_once(tmp_path: Path) -> None:
    config, _ = node_configs(tmp_path, 2)
    served = Served(config)
    await asyncio.wait([served.task], timeout=0.001)
    served.node.shut_down(timeout_ms=3_600_000)
    await served.leave()


@pytest.mark.conformance(99)
async def test_a_failure_while_closing_does_not_hide_what_ended_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = await leading(tmp_path)
    close = served.node.host.close

    def close_and_fail() -> None:
        close()
        raise StorageError("log", "a second failure")

    monkeypatch.setattr(served.node.host, "close", close_and_fail)
    served.node.fail(AssertionError("the first failure"))
    served.node.fail(AssertionError("a later one"))
    with pytest.raises(AssertionError, match="the first failure"):
        await served.ended()


async def test_a_loop_that_is_held_up_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    [config] = node_configs(tmp_path, 1, raft=replace(QUICK, fetch_timeout_ms=40))
    served = Served(config)
    await served.watcher.leader()
    threading.Event().wait(driver_module.LAG_PERIOD_S + 0.05)
    await served.leave()
    assert "the event loop was blocked for" in caplog.text


@pytest.mark.conformance(54)
async def test_metrics_of_the_host_and_the_machine_are_told_from_the_first_step_to_the_end(tmp_path: Path) -> None:
    [config] = node_configs(tmp_path, 1)
    served = Served(config)
    assert served.node.metrics() == {}
    await served.watcher.leader()
    told = served.node.metrics()
    assert set(told) == {metric.name for metric in METRICS}
    assert (told["current-state"], told["accepted-connections"], told["dialed-connections"]) == ("leader", 0, 0)
    _, endpoint = next(iter(config.listeners))
    reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    assert await asyncio.wait_for(reader.read(), TIMEOUT_S) == b""
    writer.close()
    assert served.node.metrics()["closed-for-violation-total"] == 1
    served.node.fail(AssertionError("a bug"))
    assert served.node.metrics() == {}
    with pytest.raises(AssertionError, match="a bug"):
        await served.ended()
    assert served.node.metrics() == {}


async def test_metrics_are_served_where_the_configuration_says(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = node_configs(tmp_path, 2)
    [port] = free_ports(1)
    first = replace(first, prometheus_listener=Endpoint("127.0.0.1", port))
    taken = replace(second, prometheus_listener=first.prometheus_listener)
    caplog.set_level(logging.INFO, "pykraft")
    served = Served(first)
    await asyncio.wait([served.task], timeout=0.001)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    assert b"pykraft_raft_number_of_voters 2.0\n" in await asyncio.wait_for(reader.read(), TIMEOUT_S)
    writer.close()
    with pytest.raises(ConfigError) as caught:
        await Served(taken).ended()
    assert (caught.value.key, caught.value.value) == ("pykraft.prometheus.listener", f"127.0.0.1:{port}")
    await served.leave_at_once()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    assert f"metrics are at http://127.0.0.1:{port}/metrics" in caplog.text


async def test_metrics_over_tls_are_said_to_be_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    [config], [port] = node_configs(tmp_path, 1), free_ports(1)
    values = properties(tmp_path / "certificates")
    caplog.set_level(logging.INFO, "pykraft")
    of_metrics = ((METRICS_NAME, security(values)),)
    served = Served(replace(config, prometheus_listener=Endpoint("127.0.0.1", port), security=of_metrics))
    await asyncio.wait([served.task], timeout=0.001)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    with suppress(ConnectionError):
        assert b"HTTP" not in await asyncio.wait_for(reader.read(), TIMEOUT_S)
    writer.close()
    await served.leave_at_once()
    assert f"metrics are at https://127.0.0.1:{port}/metrics" in caplog.text
    assert "a TLS handshake for metrics failed, with 127.0.0.1: it does not speak TLS" in caplog.text


BAD = "closing connection 7 on CONTROLLER: no frames"
NEW, EMPTIED = "new directory: it waits", "UNPROVEN DIRECTORY: it waits"
UNPROVEN_S = 2.0


class Desk:
    """Reports, and what was logged of them."""

    def __init__(self) -> None:
        self.logged: list[tuple[int, str]] = []
        self.reports = Reports(lambda level, text: self.logged.append((level, text)), 0.0, unproven_s=UNPROVEN_S)

    @property
    def lines(self) -> list[str]:
        """What is logged at INFO and above."""
        return [text for level, text in self.logged if level >= logging.INFO]


def test_a_few_lines_pass_and_a_flood_is_cut_and_counted() -> None:
    desk = Desk()
    for _ in range(10 * BURST_MAX):
        desk.reports.report(Report(text=BAD, kind=ReportKind.CONNECTION), 0.0)
    assert desk.lines == [BAD] * BURST_MAX
    desk.reports.report(Report(text=BAD, kind=ReportKind.CONNECTION), 1 / LINES_PER_S)
    assert desk.lines[-1] == f"{BAD} (left out before this: {9 * BURST_MAX} lines about connections)"
    desk.reports.report(Report(text=BAD, kind=ReportKind.CONNECTION), 1 / LINES_PER_S)
    assert len(desk.lines) == BURST_MAX + 1


def test_a_lasting_lack_of_a_leader_is_a_warning() -> None:
    """It is what a program sees of its node that never configured logging."""
    desk = Desk()
    desk.reports.report(Report(text="no leader for 3 s"), 3.0)
    desk.reports.report(Report(text="no leader for 9 s", kind=ReportKind.LEADERLESS), 9.0)
    assert desk.logged == [(logging.INFO, "no leader for 3 s"), (logging.WARNING, "no leader for 9 s")]


def test_a_quiet_time_makes_room_for_one_burst_and_no_more() -> None:
    desk = Desk()
    for _ in range(10 * BURST_MAX):
        desk.reports.report(Report(text=BAD, kind=ReportKind.CONNECTION), 1_000_000.0)
    assert len(desk.lines) == BURST_MAX


def test_a_repeated_line_is_for_debugging_until_it_was_quiet_for_a_while() -> None:
    desk = Desk()
    now_s = 0.0
    for _ in range(100):
        for text in ("prospective in epoch 2", "follower in epoch 2: node 3 leads"):
            desk.reports.report(Report(text=text), now_s)
            now_s += REPEATED_S / 4
    assert desk.lines == ["prospective in epoch 2", "follower in epoch 2: node 3 leads"]
    assert len(desk.logged) == 200
    desk.reports.report(Report(text="prospective in epoch 2"), now_s + REPEATED_S)
    assert desk.lines[2:] == ["prospective in epoch 2"]


def test_alarms_are_always_logged() -> None:
    desk = Desk()
    for _ in range(3):
        desk.reports.report(Report(text="DAMAGED LOG", is_alarm=True), 0.0)
    assert desk.logged == [(logging.ERROR, "DAMAGED LOG")] * 3


def test_the_lines_that_are_remembered_are_bounded() -> None:
    desk = Desk()
    for number in [*range(REMEMBERED_MAX + 1), 0]:
        desk.reports.report(Report(text=f"candidate in epoch {number}"), 0.0)
    assert len(desk.lines) == REMEMBERED_MAX + 2


def test_a_first_start_that_is_over_in_a_moment_is_not_logged() -> None:
    desk = Desk()
    desk.reports.log_due(0.0, is_proven=False)
    desk.reports.report(Report(text=NEW, kind=ReportKind.UNPROVEN), 0.25)
    desk.reports.log_due(0.3, is_proven=False)
    desk.reports.log_due(0.4, is_proven=True)
    desk.reports.log_due(9.0, is_proven=False)
    assert desk.logged == []


@pytest.mark.parametrize(("text", "is_alarm"), [(NEW, False), (EMPTIED, True)])
def test_a_directory_that_stays_unproven_is_logged_once_as_it_was_reported(text: str, *, is_alarm: bool) -> None:
    desk = Desk()
    desk.reports.report(Report(text=f"{text} for node 2, 3", is_alarm=is_alarm, kind=ReportKind.UNPROVEN), 0.25)
    desk.reports.report(Report(text=f"{text} for node 3", is_alarm=is_alarm, kind=ReportKind.UNPROVEN), 1.0)
    desk.reports.log_due(0.25 + UNPROVEN_S - 0.1, is_proven=False)
    assert desk.logged == []
    for now_s in (0.25 + UNPROVEN_S, 9.0):
        desk.reports.log_due(now_s, is_proven=False)
    level = logging.ERROR if is_alarm else logging.INFO
    assert desk.logged == [(level, f"{text} for node 3")]
    # What changes later is logged at the next look.
    desk.reports.report(Report(text=EMPTIED, is_alarm=True, kind=ReportKind.UNPROVEN), 10.0)
    desk.reports.log_due(10.1, is_proven=False)
    assert desk.logged[1:] == [(logging.ERROR, EMPTIED)]


LANES = ("pykraft-ordered-lane", "pykraft-bulk-lane", "pykraft-closing")


BOTH_LANES = pytest.mark.parametrize(
    "lane", [lambda stall, node: stall.ordered(node), lambda stall, node: stall.bulk(node)], ids=["ordered", "bulk"]
)
TURNS = 1_000


class Stall:
    """What keeps a lane busy until it is let go."""

    def __init__(self) -> None:
        self.fs = StallingFs()
        self.gate = threading.Event()
        self.has_begun = threading.Event()

    def ordered(self, node: Driver) -> None:
        """The ordered lane waits for a sync."""
        self.has_begun = self.fs.is_stalled
        self.fs.gate.clear()
        node.host.propose([b"a"], epoch=node.host.status.epoch, now=now(), on_outcome=lambda _: None)

    def bulk(self, node: Driver) -> None:
        """The bulk lane waits for a read; syncs go on, so nothing but this read is in the way of closing."""
        node.submit_read(self._read, lambda _: None)

    def let_go(self) -> None:
        """The disk answers again."""
        self.gate.set()
        self.fs.gate.set()

    def end(self) -> None:
        """The disk answers, and all lanes end."""
        self.let_go()
        for thread in threading.enumerate():
            if thread.name in LANES:
                thread.join(TIMEOUT_S)
        gc.collect()

    def _read(self) -> None:
        self.has_begun.set()
        assert self.gate.wait(TIMEOUT_S)


@pytest.fixture
def stall() -> Iterator[Stall]:
    """It ends with the test, so that no thread outlives it."""
    made = Stall()
    yield made
    made.end()


async def ending(stall: Stall, config: NodeConfig, lane: Callable[[Stall, Driver], None]) -> asyncio.Task[None]:
    """A node that leads, was told to shut down, and waits for a lane."""
    node = Driver(config, asyncio.get_running_loop(), fs=stall.fs)
    watcher = Watcher()
    node.host.register(watcher)
    task = asyncio.create_task(node.run())
    await watcher.leader()
    lane(stall, node)
    while not stall.has_begun.is_set():
        await asyncio.wait([task], timeout=0.001)
    node.shut_down()
    node.shut_down()
    return task


@BOTH_LANES
def test_the_directory_stays_locked_while_one_lane_is_at_work(
    stall: Stall,
    runner: asyncio.Runner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lane: Callable[[Stall, Driver], None],
) -> None:
    monkeypatch.setattr(driver_module, "LANE_STOP_TIMEOUT_S", 0.05)
    [config] = node_configs(tmp_path, 1)

    async def main() -> None:
        await asyncio.wait_for(await ending(stall, config, lane), TIMEOUT_S)
        asyncio.get_running_loop().set_exception_handler(None)

    runner.run(main())
    gc.collect()
    with pytest.raises(StorageError, match="cannot lock"):
        OsFs().lock(config.log_dir / ".lock")
    stall.end()
    OsFs().lock(config.log_dir / ".lock").release()


@BOTH_LANES
async def test_the_loop_of_the_application_turns_while_its_node_waits_for_the_disk(
    stall: Stall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lane: Callable[[Stall, Driver], None]
) -> None:
    """The loop stood still for as long as the node waited. The node still waits after many turns of the loop here."""
    monkeypatch.setattr(driver_module, "LANE_STOP_TIMEOUT_S", TIMEOUT_S)
    [config] = node_configs(tmp_path, 1)
    task = await ending(stall, config, lane)
    while not any(thread.name == "pykraft-closing" for thread in threading.enumerate()):
        assert not task.done()
        await asyncio.wait([task], timeout=0.001)
    await turns(asyncio.get_running_loop(), TURNS)
    assert not task.done()
    stall.let_go()
    await asyncio.wait_for(task, TIMEOUT_S)
    asyncio.get_running_loop().set_exception_handler(None)


async def test_trouble_of_the_network_is_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pykraft")
    served = await leading(tmp_path)
    error = OSError(24, "Too many open files")
    asyncio.get_running_loop().call_exception_handler({"message": "accept failed", "exception": error})
    assert await served.api_keys()
    await served.leave()
    assert "accept failed: [Errno 24] Too many open files" in caplog.text


def raise_full_disk() -> None:
    raise OSError(28, "No space left on device")


async def raise_full_disk_in_a_task() -> None:
    raise_full_disk()


@pytest.mark.parametrize("in_a_task", [False, True])
async def test_an_os_error_without_a_socket_is_ours(tmp_path: Path, in_a_task: bool) -> None:
    served = await leading(tmp_path)
    loop = asyncio.get_running_loop()
    if in_a_task:
        await asyncio.wait([loop.create_task(raise_full_disk_in_a_task())])
        gc.collect()
    else:
        loop.call_soon(raise_full_disk)
    with pytest.raises(OSError, match="No space left on device"):
        await served.ended()


async def test_a_flood_of_failed_connections_is_a_few_lines(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pykraft")
    served = await leading(tmp_path)
    context = {"message": "accept failed", "exception": OSError(24, "Too many open files"), "socket": None}
    for _ in range(10 * BURST_MAX):
        asyncio.get_running_loop().call_exception_handler(context)
    await served.leave()
    assert BURST_MAX <= caplog.text.count("accept failed") < 2 * BURST_MAX
