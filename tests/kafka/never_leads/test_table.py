"""The tables about a voter that never leads are those that their JSON gives, and a new run replaces an older one."""

from typing import Any

import pytest

from tests.kafka.never_leads.table import DOCUMENT, courses_of, merged, outages_of, page_of
from tests.kafka.tables import PAGE, runs_in


def outage(kind: str, outage_s: float, start_s: float = 0.0) -> dict[str, Any]:
    return {"kind": kind, "kills": 1, "outage_s": outage_s, "start_s": start_s, "epoch": 2}


def run(third: str = "pykraft", kraft_version: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "third": third,
        "kraft_version": kraft_version,
        "kafka": "4.3.1",
        "date": "2026-11-23",
        "cores": 2,
        "load": 3.5,
        "kills": 4,
        "topics": 1_000,
        "refused": ["timed out"],
        "records": 3_111,
        "epochs": 5,
        "led": 1,
        "outages": [outage("leader", 2.0), outage("leader", 4.5), outage("both", 20.0, 15.5)],
    } | changes


def test_the_page_has_the_tables_of_its_document(request: pytest.FixtureRequest) -> None:
    page = page_of(runs_in(DOCUMENT), PAGE.read_text())
    if request.config.getoption("--rewrite"):
        PAGE.write_text(page)
    assert PAGE.read_text() == page


def test_a_new_run_replaces_the_older_one_of_its_quorum() -> None:
    known = [run("java"), run(kraft_version=1, kills=1), run()]
    found = merged(known, run(kraft_version=1, kills=2))
    assert [(each["kraft_version"], each["third"], each["kills"]) for each in found] == [
        (0, "pykraft", 4),
        (0, "java", 4),
        (1, "pykraft", 2),
    ]


def test_rows_tell_the_times_by_what_was_killed_and_leave_out_what_was_not() -> None:
    leader, both = outages_of([run()]).splitlines()[2:]
    assert leader == "| the leader | pykraft, never leads | 0 | 2 | 3.2 s in the median, 4.5 s at most |  |"
    assert both.endswith("| 1 | 20.0 s in the median, 20.0 s at most | 4.5 s in the median, 4.5 s at most |")
    (course,) = courses_of([run("java")]).splitlines()[2:]
    assert course.startswith("| Kafka 4.3.1 | 0 | 4 | 1,000, 1 attempt repeated | identical: 3,111 records, 5 epochs |")
    assert course.endswith("| 1 | 3.5 on 2 cores | 2026-11-23 |")
