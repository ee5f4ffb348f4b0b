"""Each group is appended whole and synced before the next one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.bench.append_loop import append_for_ever


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
