"""Rows are read strictly and one at a time; what is no row is named."""

import io
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.campaign.rows import (
    IDENTITIES_MAX,
    LINE_SIZE_BYTES_MAX,
    RowFile,
    digest_of,
    identity_of,
    lines_of,
    rows_of,
    summarize,
)
from pykraft.errors import UsageError
from pykraft.sim.run.campaign import Identity, Row
from tests.sim.run.campaign_rows import IDENTITY, OTHER, failed, passed, write

PATH = Path("rows.jsonl")


def read(content: bytes) -> list[Any]:
    return list(rows_of(PATH, lines_of(PATH, io.BytesIO(content))))


def test_rows_are_read_up_to_a_line_that_was_cut_off() -> None:
    rows = [passed(1), failed(2)]
    content = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    assert read(content) == rows
    assert read(content + b'{"seed": 3') == rows
    assert identity_of(rows[1]) == IDENTITY


def without(name: str, row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}


@pytest.mark.parametrize(
    "row",
    [
        "text",
        [],
        {},
        {**passed(1), "seed": "1"},
        {**passed(1), "seed": True},
        passed(1, failed=0),
        passed(1, version=1),
        passed(1, virtual_ms=None),
        passed(1, faults=[]),
        passed(1, faults={"kill": "1"}),
        passed(1, states={"kill": 1}),
        passed(1, states={"kill": {"leader": 0.5}}),
        passed(1, committed="10"),
        without("faults", passed(1)),
        without("virtual_ms", passed(1)),
        without("at_us", failed(1)),
        without("reason", failed(1)),
    ],
)
def test_what_is_no_row_is_refused_with_its_line(row: object) -> None:
    content = f"{json.dumps(passed(1))}\n{json.dumps(row)}\n".encode()
    with pytest.raises(UsageError, match=r"rows.jsonl, line 2: this is no result of `sim run --out`"):
        read(content)


def test_a_line_without_an_end_is_not_read_into_memory() -> None:
    with pytest.raises(UsageError, match=r"line 1: .* it is too long"):
        read(b"x" * (LINE_SIZE_BYTES_MAX + 1))


def test_rows_that_say_the_same_have_the_same_digest() -> None:
    row = passed(1)
    assert digest_of(row) == digest_of(dict(reversed(row.items())))
    assert digest_of(row) != digest_of(passed(1, faults={"kill": 3, "heal": 1}))


@contextmanager
def opened(path: Path, told: list[Row] | None = None) -> Iterator[RowFile]:
    known: list[Row] = [] if told is None else told
    with closing(RowFile(path, IDENTITY, on_row=known.append)) as rows:
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
        assert rows.left_of(range(1, 6)) == [3, 4, 5]
        rows.add(passed(3))
        assert rows.left_of(range(1, 6)) == [4, 5]
    added = path.read_bytes().removeprefix(whole)
    assert added.endswith(b"\n")
    assert json.loads(added) == passed(3)


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


@pytest.mark.parametrize(
    "other",
    [replace(IDENTITY, scenario="t"), replace(IDENTITY, version="2"), replace(IDENTITY, source="d")],
    ids=["scenario", "version", "source"],
)
def test_rows_of_another_scenario_version_or_source_are_refused(tmp_path: Path, other: Identity) -> None:
    path = write(tmp_path / "rows", passed(1, other))
    with pytest.raises(UsageError, match="not mixed"), opened(path):
        pass


def test_versions_are_added_up_separately(tmp_path: Path) -> None:
    one = write(tmp_path / "1", passed(1), failed(2), passed(1, OTHER))
    two = write(tmp_path / "2", failed(2), passed(3), passed(2, OTHER))
    first, second = summarize([one, two])
    assert (first.identity, first.totals.seeds, first.failed) == (IDENTITY, 3, 1)
    assert (second.identity, second.totals.seeds, second.failed) == (OTHER, 2, 0)


def test_the_number_of_versions_is_bounded(tmp_path: Path) -> None:
    rows = [passed(1, Identity(scenario="s", version="1", source=str(each))) for each in range(IDENTITIES_MAX + 1)]
    with pytest.raises(UsageError, match="rows of more than 1,000 versions"):
        summarize([write(tmp_path / "rows", *rows)])
