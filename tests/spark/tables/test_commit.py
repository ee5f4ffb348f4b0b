"""Commits follow each other, whichever stream wrote them, and are read back from text."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.errors import UsageError
from pykraft.spark.tables.commit import Commit, check_first, is_new
from tests.spark.tables.files import commit

pytestmark = pytest.mark.spark

FOLDER = Path("t")


def test_a_commit_comes_back_from_its_text() -> None:
    assert Commit.from_json(commit(3).as_json()) == commit(3)


def test_the_next_one_is_new_and_a_repeated_one_is_not() -> None:
    check_first(FOLDER, commit(0))
    assert is_new(FOLDER, commit(1), same=None, newest=commit(0))
    assert not is_new(FOLDER, commit(1), same=commit(1), newest=commit(4))


def test_an_error_tells_both_parts_and_the_way_out() -> None:
    told = r't: .* is {"cluster": "c", "offset": 10} to {"cluster": "c", "offset": 12}, .* "offset": 20} under'
    with pytest.raises(UsageError, match=told) as caught:
        is_new(FOLDER, commit(1, end=12), same=commit(1), newest=commit(1))
    assert "or write to another folder" in str(caught.value)


def test_another_cluster_does_not_follow() -> None:
    other = Commit(stream="s", batch_id=1, start={"cluster": "d", "offset": 10}, end={"cluster": "d", "offset": 20})
    with pytest.raises(UsageError, match="rows would be missing or duplicated"):
        is_new(FOLDER, other, same=None, newest=commit(0))
