"""Rows are read strictly and one at a time; what is no row is named."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from lab.campaign.rows import LINE_SIZE_BYTES_MAX, digest_of, identity_of, lines_of, rows_of
from pykraft.errors import UsageError
from tests.sim.run.campaign_rows import IDENTITY, failed, passed

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


@pytest.mark.parametrize("line", [b"", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_refused(line: bytes) -> None:
    with pytest.raises(UsageError, match=r"rows.jsonl, line 1: this is no result"):
        read(line + b"\n")


def test_a_line_without_an_end_is_not_read_into_memory() -> None:
    with pytest.raises(UsageError, match=r"line 1: .* it is too long"):
        read(b"x" * (LINE_SIZE_BYTES_MAX + 1))


def test_rows_that_say_the_same_have_the_same_digest() -> None:
    row = passed(1)
    assert digest_of(row) == digest_of(dict(reversed(row.items())))
    assert digest_of(row) != digest_of(passed(1, faults={"kill": 3, "heal": 1}))
