"""Commits follow each other, whichever stream wrote them, and are read back from text."""

from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.transaction import CommitProperties

from pykraft.errors import UsageError
from pykraft.spark.tables.commit import (
    VERSIONS_FIRST,
    Commit,
    add_action,
    carried,
    check_first,
    is_new,
    named_commit,
    newest_commit,
)
from tests.spark.tables.files import append, commit, forget_log, log_rows, make_table, written

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


def maintain(table: DeltaTable) -> None:
    """A commit of ours that is no append, from what this table object knows."""
    properties = CommitProperties(custom_metadata=carried(table))
    table.create_write_transaction([], "append", table.schema(), commit_properties=properties)


def test_an_action_has_what_the_file_has(tmp_path: Path) -> None:
    file = written(tmp_path, log_rows(range(3)))
    action = add_action(file, data_change=False)
    assert (action.path, action.size, action.modification_time) == (file.name, file.size_bytes, file.modified_ms)
    assert (action.stats, action.data_change, action.partition_values) == (file.statistics, False, {})


def test_the_newest_append_is_found_behind_commits_of_others(tmp_path: Path) -> None:
    make_table(tmp_path, appends=3)
    for _ in range(VERSIONS_FIRST + 1):
        DeltaTable(tmp_path).create_write_transaction([], "append", DeltaTable(tmp_path).schema())
    assert newest_commit(DeltaTable(tmp_path)) == commit(2)


def test_the_newest_append_outlives_the_entries_of_the_log(tmp_path: Path) -> None:
    make_table(tmp_path, appends=3)
    for _ in range(2):
        maintain(DeltaTable(tmp_path))
        forget_log(tmp_path)
        assert newest_commit(DeltaTable(tmp_path)) == commit(2)


def test_an_append_that_came_before_upkeep_was_committed_is_newer_than_what_it_carries(tmp_path: Path) -> None:
    make_table(tmp_path, appends=2)
    table = DeltaTable(tmp_path)
    append(tmp_path, 2)
    maintain(table)
    assert newest_commit(DeltaTable(tmp_path)) == commit(2)
    maintain(DeltaTable(tmp_path))
    append(tmp_path, 3)
    assert newest_commit(DeltaTable(tmp_path)) == commit(3)


def test_an_append_is_found_by_its_name(tmp_path: Path) -> None:
    make_table(tmp_path, appends=3)
    maintain(DeltaTable(tmp_path))
    append(tmp_path, 3)
    table = DeltaTable(tmp_path)
    assert [named_commit(table, "s", number) for number in range(5)] == [*map(commit, range(4)), None]
    assert named_commit(table, "another", 0) is None
    maintain(table)
    forget_log(tmp_path)
    assert [named_commit(DeltaTable(tmp_path), "s", number) for number in (2, 3)] == [None, commit(3)]


def test_a_table_without_appends_carries_none(tmp_path: Path) -> None:
    make_table(tmp_path, appends=0)
    assert carried(DeltaTable(tmp_path)) == {}
    maintain(DeltaTable(tmp_path))
    assert newest_commit(DeltaTable(tmp_path)) is None
