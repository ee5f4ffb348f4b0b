"""A file is continued where it ended, durable row by row, and of one campaign only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.campaign.report import summarize
from lab.campaign.row_file import RowFile
from pykraft.errors import UsageError
from pykraft.sim.run.campaign import Identity, Row
from tests.sim.run.campaign_rows import IDENTITY, OTHER, failed, passed, write


@contextmanager
def opened(path: Path, told: list[Row] | None = None) -> Iterator[RowFile]:
    known: list[Row] = [] if told is None else told
    with closing(RowFile(path, IDENTITY, tell=known.append)) as rows:
        yield rows


def seeds(rows: list[Row]) -> list[int]:
    return [row["seed"] for row in rows]


def test_a_file_is_continued_and_tells_each_seed_once(tmp_path: Path) -> None:
    path = write(tmp_path / "rows", passed(1), failed(2), passed(1))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"seed": 3, "fai')
    told: list[Row] = []
    with opened(path, told) as rows:
        assert seeds(told) == [1, 2]
        assert rows.left_of(range(1, 6)).ranges == (range(3, 6),)
        rows.add(passed(3))
        assert rows.left_of(range(1, 6)).ranges == (range(4, 6),)
    added = path.read_bytes().removeprefix(whole)
    assert added.endswith(b"\n")
    assert json.loads(added) == passed(3)


def test_a_new_file_is_empty(tmp_path: Path) -> None:
    with opened(tmp_path / "rows") as rows:
        assert rows.left_of(range(3)).ranges == (range(3),)
    assert (tmp_path / "rows").read_bytes() == b""


def test_two_runs_do_not_write_to_one_file(tmp_path: Path) -> None:
    with (
        opened(tmp_path / "rows"),
        pytest.raises(UsageError, match="another run writes to it"),
        opened(tmp_path / "rows"),
    ):
        pass
    with opened(tmp_path / "rows"):
        pass


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (passed(1, OTHER), "seed 1 is a result of version 2.0, not of 1.0: results of different runs are not mixed"),
        (passed(1, committed=11), "seed 1 has another row already"),
    ],
)
def test_what_does_not_belong_there_is_neither_read_nor_added(tmp_path: Path, row: dict[str, Any], words: str) -> None:
    path = write(tmp_path / "rows", passed(1))
    whole = path.read_bytes()
    with opened(path) as rows, pytest.raises(UsageError, match=words):
        rows.add(row)
    assert path.read_bytes() == whole
    write(path, passed(1), row)
    with pytest.raises(UsageError, match=words), opened(path):
        pass


def test_what_is_no_row_is_refused_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text("my diary\n")
    with pytest.raises(UsageError, match="line 1: this is no result"), opened(path):
        pass
    assert path.read_text() == "my diary\n"


def test_a_seed_that_stands_twice_counts_once_if_both_agree(tmp_path: Path) -> None:
    one = write(tmp_path / "a", passed(1), failed(2))
    two = write(tmp_path / "b", failed(2), passed(3))
    other = write(tmp_path / "c", passed(1, committed=11))
    [summary] = summarize([one, two])
    assert (summary.totals.seeds, summary.failed) == (3, 1)
    with pytest.raises(UsageError, match="seed 1 has another row"):
        summarize([one, other])


@pytest.mark.parametrize("line", ["", "x", "[]", "{}", '{"seed": "1"}', '{"seed": 1, "failed": false}', '{"seed": 1}'])
def test_a_line_that_is_no_row_is_refused_with_its_number(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "rows", passed(1))
    with path.open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(UsageError, match="line 2: this is no result"):
        summarize([path])
    with pytest.raises(UsageError, match="line 2: this is no result"), opened(path):
        pass


@pytest.mark.parametrize(
    "other",
    [replace(IDENTITY, scenario="t"), replace(IDENTITY, version="2"), replace(IDENTITY, source="d")],
    ids=["scenario", "version", "source"],
)
def test_rows_of_another_scenario_version_or_source_are_refused(tmp_path: Path, other: Identity) -> None:
    path = write(tmp_path / "rows", passed(1, other))
    with pytest.raises(UsageError, match="not mixed"), opened(path):
        pass


def test_a_row_of_another_campaign_is_not_added(tmp_path: Path) -> None:
    with opened(tmp_path / "rows") as rows, pytest.raises(UsageError, match="not mixed"):
        rows.add(passed(1, replace(IDENTITY, source="d")))
    assert (tmp_path / "rows").read_bytes() == b""
