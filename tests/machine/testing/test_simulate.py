"""A program's own test: a good state machine passes, and a bad one is told so that it can be repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.errors import UsageError
from pykraft.machine.testing import SimulationFailedError, simulate
from tests.machine.counters import Counters
from tests.machine.testing.bugs import ForgetfulCounters, draw


@pytest.mark.sim
def test_counters_pass_in_all_worlds() -> None:
    report = simulate(Counters, draw, seeds=range(10))
    assert report.worlds == 10
    assert report.commands > 300
    assert report.faults > 30


@pytest.mark.sim
def test_a_failure_is_made_smaller_and_drawn(tmp_path: Path) -> None:
    page = tmp_path / "failure.html"
    with pytest.raises(SimulationFailedError) as raised:
        simulate(ForgetfulCounters, draw, seeds=range(20), page=page)
    text = str(raised.value)
    assert "EqualReplicas: " in text
    assert f"repeat it with simulate(..., seeds=[{raised.value.failure.seed}])" in text
    assert "EqualReplicas" in page.read_text()


def test_no_worlds_and_an_unknown_scenario_are_refused() -> None:
    with pytest.raises(UsageError, match="no world"):
        simulate(Counters, draw, seeds=())
    with pytest.raises(UsageError, match="either commands or a program"):
        simulate(Counters, seeds=(1,))
    with pytest.raises(UsageError, match="everything"):
        simulate(Counters, draw, seeds=(1,), faults="everything")
