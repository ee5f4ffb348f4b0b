"""CPU and memory as Linux reports them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.bench.usage import require_proc, usage_of
from pykraft.errors import LocalQuorumError, UsageError


def put_process(proc: Path, *, status: str = "Name:\ta\nVmHWM:\t  51200 kB\n") -> None:
    (proc / "7").mkdir()
    (proc / "7" / "stat").write_text("7 (a name) with) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0\n")
    (proc / "7" / "status").write_text(status)


def test_processor_time_and_peak_memory(tmp_path: Path) -> None:
    put_process(tmp_path)
    usage = usage_of(7, "node 1", tmp_path)
    assert usage.cpu_s == pytest.approx(200 / os.sysconf("SC_CLK_TCK"))
    assert usage.memory_mib == 50


def test_a_process_that_has_ended_is_named(tmp_path: Path) -> None:
    with pytest.raises(LocalQuorumError, match="node 1 has ended"):
        usage_of(7, "node 1", tmp_path)
    put_process(tmp_path, status="Name:\ta\nState:\tZ (zombie)\n")
    with pytest.raises(LocalQuorumError, match="node 1 has ended"):
        usage_of(7, "node 1", tmp_path)


def test_this_process_has_used_something() -> None:
    require_proc()
    usage = usage_of(os.getpid(), "this one")
    assert usage.cpu_s > 0
    assert usage.memory_mib > 1


def test_a_system_without_proc_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="only be measured on Linux"):
        require_proc(tmp_path)
