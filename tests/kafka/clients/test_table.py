"""The table of docs/kafka-releases.md is the one that its JSON gives, and new runs take the place of older ones."""

from typing import Any

import pytest

from tests.kafka.clients.table import DOCUMENT, MARK, merged, table_of
from tests.kafka.tables import PAGE, page_with, runs_in


def run(client: str = "x", *, is_idempotent: bool = True, **changes: Any) -> dict[str, Any]:
    verdict = {"doubled": 0}
    return {
        "client": client,
        "version": "1",
        "is_idempotent": is_idempotent,
        "compressions": ["none", "lz4"],
        "records": 1_000,
        "kills": 3,
        "verdict": verdict,
        "problems": [],
        "date": "2026-11-23",
    } | changes


def test_the_page_has_the_table_of_its_document(request: pytest.FixtureRequest) -> None:
    page = page_with(table_of(runs_in(DOCUMENT)), PAGE.read_text(), MARK)
    if request.config.getoption("--rewrite"):
        PAGE.write_text(page)
    assert PAGE.read_text() == page


def test_a_new_run_replaces_the_older_one_of_its_client_and_mode() -> None:
    known = [run("b"), run("A", version="1"), run("A", is_idempotent=False)]
    found = merged(known, [run("A", version="2")])
    assert [(each["client"], each["is_idempotent"], each["version"]) for each in found] == [
        ("A", True, "2"),
        ("A", False, "1"),
        ("b", True, "1"),
    ]


def test_a_row_says_what_was_promised_and_what_broke() -> None:
    rows = table_of(
        [run(), run(is_idempotent=False, verdict={"doubled": 2}), run(problems=["1 record acknowledged and lost"])]
    ).splitlines()[2:]
    assert [row.split(" | ")[5] for row in rows] == [
        "none lost, none doubled, order kept",
        "none lost; 2 records doubled, which this mode allows",
        "**1 record acknowledged and lost**",
    ]
    assert rows[0].startswith("| x | 1 | idempotent | none, lz4 | 1,000, 3 |")
