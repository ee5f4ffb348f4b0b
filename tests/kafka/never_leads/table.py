"""The table of `docs/kafka-releases.md` about a voter that never leads: made of ``docs/never-leads.json``, not by hand.

Invariant: the same document gives the same table. One row is one quorum and one way to kill its controllers.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykraft.text.words import counted
from tests.kafka.never_leads.course import BOTH, FOLLOWER, LEADER
from tests.kafka.tables import DOCS, PAGE, markdown, page_with, runs_in, write_runs

DOCUMENT: Final = DOCS / "never-leads.json"
OUTAGES: Final = "never-leads"
"""The mark of the table of the times without a topic."""
COURSES: Final = "never-leads-courses"
"""The mark of the table of the runs as a whole."""
KILLED: Final = {
    LEADER: "the leader",
    FOLLOWER: "the follower",
    BOTH: "the follower, then the leader; the follower came back",
}


def times_text(times_s: Sequence[float]) -> str:
    """Median and maximum of some times."""
    return f"{statistics.median(times_s):.1f} s in the median, {max(times_s):.1f} s at most"


def merged(known: Sequence[Mapping[str, Any]], new: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The runs with a new one in the place of that of the same quorum."""
    found = {(run["kraft_version"], run["third"] == "java"): dict(run) for run in (*known, new)}
    return [found[key] for key in sorted(found)]


def outages_of(runs: Sequence[Mapping[str, Any]]) -> str:
    """How long no topic was created after each kind of kill."""
    rows = [
        [
            KILLED[kind],
            *_quorum(run),
            str(len(found)),
            times_text([outage["outage_s"] for outage in found]),
            times_text([outage["outage_s"] - outage["start_s"] for outage in found]) if kind == BOTH else "",
        ]
        for kind in KILLED
        for run in runs
        if (found := [outage for outage in run["outages"] if outage["kind"] == kind])
    ]
    head = ("killed", "node 3", "kraft.version", "times", "no topic for", "once the restarted node listened")
    return markdown(head, rows)


def courses_of(runs: Sequence[Mapping[str, Any]]) -> str:
    """What else happened in each run."""
    rows = [
        [
            *_quorum(run),
            str(run["kills"]),
            f"{run['topics']:,}, {counted(len(run['refused']), 'attempt')} repeated",
            f"identical: {run['records']:,} records, {run['epochs']} epochs",
            str(run["led"]),
            f"{run['load']} on {counted(run['cores'], 'core')}",
            run["date"],
        ]
        for run in runs
    ]
    head = ("node 3", "kraft.version", "kills", "topics", "logs", "epochs of node 3", "load", "date")
    return markdown(head, rows)


def page_of(runs: Sequence[Mapping[str, Any]], page: str) -> str:
    """The page with both tables."""
    return page_with(courses_of(runs), page_with(outages_of(runs), page, OUTAGES), COURSES)


def write(new: Mapping[str, Any]) -> None:
    """Put this run into the document and the page."""
    runs = merged(runs_in(DOCUMENT), new)
    write_runs(DOCUMENT, runs)
    PAGE.write_text(page_of(runs, PAGE.read_text()))


def _quorum(run: Mapping[str, Any]) -> tuple[str, str]:
    third = "pykraft, never leads" if run["third"] == "pykraft" else f"Kafka {run['kafka']}"
    return third, str(run["kraft_version"])
