"""Memory that grows is told from memory that is noisy, and the nodes of a short run are looked at."""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.benchmarks import flat_memory
from lab.benchmarks.flat_memory import MIB, Sample, trends
from tests.tidy.repository import ROOT

NODES = (1, 2, 3)


def samples(resident_mib: Callable[[int], float], log_mib: Callable[[int], float] = lambda _: 20.0) -> list[Sample]:
    """A hundred samples of each node, given by the number of 100,000 commands."""
    return [
        Sample(
            commands=part * 100_000,
            sessions=part * 1_000,
            node_id=node_id,
            resident_mib=resident_mib(part),
            open_sessions=6_000,
            log_mib=log_mib(part),
            snapshots_mib=2.0,
        )
        for part in range(1, 101)
        for node_id in NODES
    ]


def risen(found: list[Sample]) -> dict[str, float]:
    return {trend.figure: trend.risen_mib for trend in trends(found) if trend.node_id == 2}


def test_a_leak_of_a_byte_for_each_command_rises() -> None:
    figures = risen(samples(lambda part: 100 + part * 100_000 / MIB))
    assert figures["resident_mib"] == pytest.approx(74 * 100_000 / MIB)
    assert figures["log_mib"] == figures["snapshots_mib"] == 0


def test_warm_up_saw_teeth_and_single_samples_do_not_count() -> None:
    def resident_mib(part: int) -> float:
        return min(part, 25) * 4 + part % 7 + (300 if part in {40, 90} else 0)

    figures = risen(samples(resident_mib, lambda part: part * 13 % 32))
    assert abs(figures["resident_mib"]) < 1
    assert abs(figures["log_mib"]) < 2


def test_all_nodes_are_judged() -> None:
    assert [(trend.node_id, trend.figure) for trend in trends(samples(float))] == [
        (node_id, figure) for node_id in NODES for figure in ("resident_mib", "log_mib", "snapshots_mib")
    ]


@pytest.mark.parametrize(("leak_mib", "status"), [(0, 0), (0.1, 0), (0.2, 1)])
def test_the_status_says_whether_all_figures_are_flat(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], leak_mib: float, status: int
) -> None:
    async def measure(*_: object) -> list[Sample]:
        return samples(lambda part: 100 + part * leak_mib)

    monkeypatch.setattr(flat_memory, "measure", measure)
    monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)
    assert flat_memory.main(argparse.Namespace(directory=None, limit_mib=8.0, json=None)) == status
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "10,000,000 commands in 100,000 sessions, of which 6,000 are open"
    assert told[-1] == ("NOT FLAT: the limit is 8 MiB" if status else "flat: the limit is 8 MiB")


@pytest.mark.processes
def test_a_short_run_looks_at_every_node(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lab.benchmarks.flat_memory", "--commands", "2400", "--sessions", "48"]
    command += ["--samples", "4", "--limit-mib", "1000", "--json", str(tmp_path / "figures.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "figures.json").read_text())
    last = told["samples"][-len(NODES) :]
    assert [(one["node_id"], one["commands"], one["sessions"]) for one in last] == [(at, 2_400, 48) for at in NODES]
    assert all(one["resident_mib"] > 10 and one["log_mib"] > 2_400 * 100 / MIB for one in last)
    assert 36 < max(one["open_sessions"] for one in last) <= 48
    assert told["is_flat"] is True
