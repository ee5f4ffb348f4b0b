"""A process that holds file systems is asked and answers, or its end is told."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lab.chaos.holder import Holder

ANSWERS_TWO = """
import sys
print("done", flush=True)
for line in sys.stdin:
    print("heard", line.strip(), sys.argv[1:] if line == "7\\n" else "", flush=True)
    if line == "8\\n":
        break
"""


@pytest.fixture
def pretend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Write a module that stands for one that mounts; returns its name."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def write(text: str) -> str:
        (tmp_path / "stand_in.py").write_text(text)
        return "stand_in"

    return write


def test_each_line_is_answered(tmp_path: Path, pretend: Callable[[str], str]) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    with closing(Holder(pretend(ANSWERS_TWO), 4096, folders)) as holder:
        assert all(folder.is_dir() for folder in folders)
        assert holder.ask(1, 2) == "heard 1 2"
        assert holder.ask(7) == f"heard 7 ['4096', '{tmp_path / 'a'}', '{tmp_path / 'b'}']"
        assert str(holder.folder(1)).startswith("/proc/")
        assert str(holder.folder(1)).endswith(f"/root{tmp_path / 'b'}")
        assert holder.ask(8) == "heard 8"
        assert holder._answer() == "its process ended"


def test_what_is_not_mounted_is_an_error(tmp_path: Path, pretend: Callable[[str], str]) -> None:
    with pytest.raises(OSError, match="mount: Operation not permitted"):
        Holder(pretend("print('mount: Operation not permitted')"), 4096, [tmp_path / "a"])
