"""The limit is measured like a quorum: what real processes appended and synced."""

import os
from pathlib import Path

import pytest

from lab.bench.measure import RunLimits, Task, measure
from lab.benchmarks.suite.appenders import Appenders, AppendingProcesses, append_for_ever
from pykraft.local.child import Children

TASK = Task(nodes=3, record_size_bytes=100, records_per_s=None, linger_ms=25)
LIMITS = RunLimits(warm_up_s=0.3, window_s=0.5, size_bytes_max=200_000_000)


@pytest.mark.processes
def test_three_processes_append_and_sync(tmp_path: Path) -> None:
    with Children() as children:
        run = measure(Appenders(8_192).quorum(children, tmp_path, TASK), TASK, LIMITS)
    assert run.failure is None
    assert run.records_per_s > 0
    assert run.batch_size_bytes == 8_192
    assert run.latency_ms == {}
    sizes = [path.stat().st_size for path in sorted(tmp_path.glob("*.log"))]
    assert len(sizes) == 3
    assert all(size and size % 4_096 == 0 for size in sizes)


def test_an_appender_that_cannot_write_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "2.log").mkdir()
    with Children() as children:
        quorum = AppendingProcesses(children, tmp_path, TASK, 4_096)
        quorum.start()
        broken = next(child for child in quorum.processes if child.name == "appender 2")
        broken.wait()
        failure = quorum.failure()
    assert failure is not None
    assert failure.startswith("appender 2 ended with 1: ")


def test_each_group_is_appended_and_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    sizes: list[int] = []
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: sizes.append(os.fstat(descriptor).st_size))
    append_for_ever(str(path), 4_096, iter(range(3)))
    assert sizes == [4_096, 8_192, 12_288]
    written = path.read_bytes()
    assert written[:4_096] == written[4_096:8_192] == written[8_192:]


def test_a_write_that_the_system_cuts_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:1_000]))
    append_for_ever(str(path), 2_500, iter(range(2)))
    assert path.stat().st_size == 5_000
