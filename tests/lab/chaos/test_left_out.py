"""What cannot be injected here is told with its reason, and nothing is tried that nobody wants."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.chaos import left_out as module
from lab.chaos.left_out import left_out
from lab.chaos.plan import FaultKind


def test_power_cuts_need_a_control_that_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "power_problem", lambda folder: f"no loop device in {folder.name}")
    assert left_out((FaultKind.KILL,), tmp_path, is_dynamic=False) == {}
    why = f"power cuts need root and loop devices (no loop device in {tmp_path.name})"
    assert left_out(tuple(FaultKind), tmp_path, is_dynamic=False) == {
        FaultKind.POWER_CUT: why,
        FaultKind.POWER_CUT_ALL: why,
    }
    assert left_out((FaultKind.POWER_CUT,), tmp_path, is_dynamic=False) == {FaultKind.POWER_CUT: why}
    monkeypatch.setattr(module, "power_problem", lambda folder: None)
    assert left_out(tuple(FaultKind), tmp_path, is_dynamic=False) == {}


def test_a_twin_needs_static_voters(tmp_path: Path) -> None:
    assert left_out((FaultKind.TWIN, FaultKind.KILL), tmp_path, is_dynamic=False) == {}
    assert list(left_out((FaultKind.TWIN, FaultKind.KILL), tmp_path, is_dynamic=True)) == [FaultKind.TWIN]
    assert left_out((FaultKind.KILL,), tmp_path, is_dynamic=True) == {}
