"""Figures say where and when they were measured."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from lab.bench import machine


def test_the_machine_is_told() -> None:
    told = machine.machine()
    assert told["python"] == platform.python_version()
    assert int(told["cores"]) >= 1
    assert all(told.values())


def test_what_is_unknown_has_a_name_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(machine, "version", absent)
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "none")
    assert machine.machine()["loop"] == "asyncio"
    assert machine.machine()["processor"] == platform.machine()
