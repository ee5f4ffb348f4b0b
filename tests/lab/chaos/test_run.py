"""A run of one episode on real nodes: its progress and its outcome."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.chaos.ground import ChaosOptions
from lab.chaos.outcome import Done
from lab.chaos.plan import FaultKind
from lab.chaos.run import _peak_bytes, run_chaos


class Heard:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.faults: list[Done] = []

    def passing(self, text: str, elapsed_s: float) -> None:
        assert elapsed_s >= 0
        self.passed.append(text)

    def done(self, fault: Done) -> None:
        self.faults.append(fault)


@pytest.mark.processes
def test_an_episode_is_done_told_and_checked(tmp_path: Path) -> None:
    heard = Heard()
    outcome = run_chaos(ChaosOptions(seed=2, seconds=60, kinds=(FaultKind.KILL,), episodes_max=1), tmp_path, heard)
    assert outcome.episodes == 1
    assert outcome.verdict.is_clean
    assert outcome.verdict.acknowledged >= 200
    assert list(outcome.faults) == heard.faults
    assert {fault.kind for fault in heard.faults} == {"kill"}
    assert all(0 < fault.pause_ms < 60_000 for fault in heard.faults)
    assert heard.passed[0] == "starting the nodes"
    assert heard.passed[-2:] == ["ending all faults", "stopping the load, comparing the logs"]
    assert outcome.elections >= 1
    assert outcome.memory_max_bytes > 10_000_000


def test_the_memory_of_a_process_that_is_gone_is_nothing() -> None:
    assert _peak_bytes(2**22 + 1) == 0
    assert _peak_bytes(os.getpid()) > 10_000_000
