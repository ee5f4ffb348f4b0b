"""Before a run the suite looks how much of the machine other programs use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.benchmarks.suite.busy import busy_cores


def test_a_busy_program_is_seen() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as program:
        try:
            found = busy_cores(look_s=1.0)
        finally:
            program.kill()
    assert 0.1 < found <= (os.cpu_count() or 1)


def test_where_the_system_does_not_tell_it_is_the_load_average(tmp_path: Path) -> None:
    assert busy_cores(tmp_path / "none") == os.getloadavg()[0]


def test_cores_that_wait_for_a_disk_are_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = tmp_path / "stat"
    texts = iter(["cpu  10 0 10 100 100 0 0 0 0 0\n", "cpu  20 0 20 130 150 0 0 0 0 0\n"])
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: next(texts))
    assert busy_cores(stat, look_s=0.0) == 4 * 20 / 100
