"""From a configuration to a running node and its end: signals, limits of the process, the complete journal."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from pykraft.client.journal import Acknowledged, JournalEvent, Led, Started, Stopped, parse_event
from pykraft.errors import UsageError
from pykraft.host.delivery import CommittedBatch
from pykraft.server.run import ServerOptions, loop_factory, serve
from pykraft.server.workload import Load, Workload
from pykraft.types import Offset
from tests.server.nodes import QUICK, TIMEOUT_S, node_configs

LOAD = Load(records_per_s=1_000, record_size_bytes=100)


class Starter:
    """Reads a node's journal as whoever started it would, and asks it to end once it acknowledged something."""

    def __init__(self, ask: signal.Signals) -> None:
        self.events: list[JournalEvent] = []
        self._ask = ask
        self._reading, self.writing = os.pipe()
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait for the end of the journal."""
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()

    def _read(self) -> None:
        has_asked = False
        with os.fdopen(self._reading, "rb") as pipe:
            for line in pipe:
                self.events.append(parse_event(line))
                if isinstance(self.events[-1], Acknowledged) and not has_asked:
                    has_asked = True
                    os.kill(os.getpid(), self._ask)


@pytest.fixture(autouse=True)
def process_as_before() -> Iterator[None]:
    """What `serve` changes for the process as a whole is put back."""
    interval, limit = sys.getswitchinterval(), resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    gc.unfreeze()
    sys.setswitchinterval(interval)
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("ask", [signal.SIGTERM, signal.SIGINT])
def test_a_node_serves_until_it_is_asked_to_end(tmp_path: Path, loop: str, ask: signal.Signals) -> None:
    [config] = node_configs(tmp_path, 1)
    starter = Starter(ask)
    serve(config, ServerOptions(load=LOAD, ack_descriptor=starter.writing, loop=loop))
    starter.wait()
    first, second, *acknowledged, last = starter.events
    assert isinstance(first, Started)
    assert (first.node, first.pid) == (1, os.getpid())
    assert first.port == next(iter(config.listeners))[1].port
    assert isinstance(second, Led)
    assert second.run == first.run
    assert acknowledged
    assert {event.run for event in acknowledged if isinstance(event, Acknowledged)} == {first.run}
    assert isinstance(last, Stopped)


def test_a_load_on_an_old_log_does_not_read_it_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [config] = node_configs(tmp_path, 1)
    seen: list[CommittedBatch] = []
    old_end_offset = Offset(0)
    monkeypatch.setattr(Workload, "on_commit", lambda _, batches: seen.extend(batches))
    for _ in range(2):
        old_end_offset = max((batch.end_offset for batch in seen), default=Offset(0))
        seen.clear()
        starter = Starter(signal.SIGTERM)
        serve(config, ServerOptions(load=LOAD, ack_descriptor=starter.writing))
        starter.wait()
        assert any(isinstance(event, Acknowledged) for event in starter.events)
    assert old_end_offset > 0
    assert all(batch.base_offset >= old_end_offset for batch in seen)


def test_a_node_that_fails_says_so_and_its_journal_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [config] = node_configs(tmp_path, 1)
    starter = Starter(signal.SIGTERM)

    def freeze() -> None:
        raise AssertionError("a bug of ours")

    monkeypatch.setattr(gc, "freeze", freeze)
    with pytest.raises(AssertionError, match="a bug of ours"):
        serve(config, ServerOptions(load=None, ack_descriptor=starter.writing))
    starter.wait()
    assert [type(event) for event in starter.events] == [Started, Stopped]


def test_a_node_without_a_reader_ends(tmp_path: Path) -> None:
    [config] = node_configs(tmp_path, 1)
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(UsageError, match=f"--ack-fd {writing}"):
        serve(config, ServerOptions(load=LOAD, ack_descriptor=writing))


def test_a_node_needs_neither_load_nor_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [config] = node_configs(tmp_path, 1)
    monkeypatch.setattr(gc, "freeze", lambda: os.kill(os.getpid(), signal.SIGTERM))
    serve(config, ServerOptions(load=None))
    assert config.partition_directory.is_dir()


def test_a_start_names_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    [config] = node_configs(tmp_path, 1)
    monkeypatch.setattr(gc, "freeze", lambda: os.kill(os.getpid(), signal.SIGTERM))
    with caplog.at_level("INFO"):
        serve(config, ServerOptions(load=None))
    [served] = [line for line in caplog.messages if " serves " in line]
    assert served.startswith(f"node {config.node_id} of cluster {config.cluster_id} serves ")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (ServerOptions(load=None, ack_descriptor=9_999), "--ack-fd 9999"),
        (ServerOptions(load=Load(record_size_bytes=2_000)), "--record-size 2000"),
    ],
)
def test_wrong_options_leave_the_directory_to_the_next(tmp_path: Path, options: ServerOptions, says: str) -> None:
    [config] = node_configs(tmp_path, 1, raft=replace(QUICK, batch_size_bytes_max=1_024))
    for _ in range(2):
        with pytest.raises(UsageError, match=says):
            serve(config, options)


def test_the_loop_is_the_fast_one_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert loop_factory("asyncio") is asyncio.new_event_loop
    assert loop_factory("auto") is loop_factory("uvloop")
    assert loop_factory("auto") is not asyncio.new_event_loop
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loop_factory("auto") is asyncio.new_event_loop
    with pytest.raises(UsageError, match="--loop uvloop"):
        loop_factory("uvloop")
