"""Upkeep of a pipeline's tables, by command and by the stream."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from pykraft.errors import UsageError
from pykraft.spark.pipeline import upkeep
from pykraft.spark.pipeline.upkeep import keep_stream_tables, keep_tables
from pykraft.spark.tables import delta_upkeep
from pykraft.spark.tables.delta_log import newest_commit
from pykraft.spark.tables.delta_upkeep import files_of
from pykraft.spark.tables.names import BRONZE, COLUMNS, EPOCHS, PAYLOADS, RECORDS, TABLES
from tests.spark.tables.commits import commit
from tests.spark.tables.files import append, make_table

pytestmark = pytest.mark.spark


def test_all_tables_that_are_there_are_kept(tmp_path: Path) -> None:
    for name in (BRONZE, RECORDS, EPOCHS):
        make_table(tmp_path / name, appends=3)
    told: list[tuple[str, int]] = []
    found = keep_tables(tmp_path, on_progress=lambda name, size_bytes: told.append((name, size_bytes)))
    assert list(found.tables) == [BRONZE, RECORDS, EPOCHS]
    for name, done in found.tables.items():
        assert (done.files_before, done.files, done.deleted_files) == (3, 1, 0), name
        assert done.rewritten_bytes > 0
        assert newest_commit(DeltaTable(tmp_path / name)) == commit(2)
        assert list((tmp_path / name / "_delta_log").glob("*.checkpoint.parquet"))
    assert told[:2] == [(BRONZE, 0), (BRONZE, found.tables[BRONZE].rewritten_bytes)]
    again = keep_tables(tmp_path, retention_hours=0)
    assert [done.deleted_files for done in again.tables.values()] == [3, 3, 3]
    assert again.as_json()["tables"][BRONZE]["rewritten_bytes"] == 0


def test_folders_without_delta_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there are no tables; pykraft pipeline run creates them"):
        keep_tables(tmp_path)
    (tmp_path / BRONZE).mkdir()
    (tmp_path / BRONZE / COLUMNS).touch()
    with pytest.raises(UsageError, match=r"Parquet tables have no upkeep, .* write Delta tables to another folder"):
        keep_tables(tmp_path)


def test_a_stream_merges_now_and_then_and_deletes_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "VACUUM_INTERVAL", 2)
    deleted: list[Path] = []
    monkeypatch.setattr(delta_upkeep, "vacuum", deleted.append)
    for name in TABLES:
        make_table(tmp_path / name, appends=0)
    files = []
    for number in range(6):
        for name in TABLES:
            append(tmp_path / name, number)
        keep_stream_tables(tmp_path, number, interval=3)
        files.append(files_of(tmp_path / PAYLOADS))
    assert files == [1, 2, 1, 2, 3, 1]
    assert deleted == [tmp_path / name for name in TABLES]
    append(tmp_path / RECORDS, 6)
    keep_stream_tables(tmp_path, 8, interval=0)
    assert files_of(tmp_path / RECORDS) == 2
