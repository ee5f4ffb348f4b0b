"""The demo rejects impossible options before it starts anything."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.demo.options import DemoOptions
from pykraft.errors import UsageError

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"seconds": 1.5}, r"--seconds 1.5: give 2 to 86400"),
    ({"seconds": float("nan")}, r"--seconds nan: give 2 to 86400"),
    ({"seconds": float("inf")}, r"--seconds inf: give 2 to 86400"),
    ({"nodes": 0}, r"--nodes 0: give 1 to 9"),
    ({"nodes": 10}, r"--nodes 10: give 1 to 9"),
    ({"nodes": 2, "kill_leader": True}, r"--kill-leader needs --nodes 3 or more"),
    ({"throughput": 0}, r"--throughput 0"),
    ({"record_size_bytes": 19}, r"--record-size 19: "),
]


@pytest.mark.parametrize(("options", "problem"), WRONG)
def test_wrong_options_are_refused_by_name(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        DemoOptions(**options)


def test_a_disk_that_is_too_full_is_refused_with_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=5 << 20))
    with pytest.raises(UsageError, match=r"5 MiB are free, the demo needs \d+ MiB; use --data DIR"):
        DemoOptions().check_disk(tmp_path)


def test_more_records_need_more_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    DemoOptions(seconds=20).check_disk(tmp_path)
    with pytest.raises(UsageError, match="1024 MiB are free"):
        DemoOptions(seconds=2_000).check_disk(tmp_path)
