"""A result file that cannot be written is an error before the work begins, and an old one is removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.cli.json_file import make_room_for
from pykraft.errors import UsageError


def test_an_old_result_is_removed(tmp_path: Path) -> None:
    make_room_for(None)
    path = tmp_path / "result.json"
    path.write_text("old")
    make_room_for(path)
    assert not path.exists()


def test_a_place_that_takes_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        make_room_for(tmp_path / "none" / "result.json")
    with pytest.raises(UsageError, match="--json"):
        make_room_for(tmp_path)
