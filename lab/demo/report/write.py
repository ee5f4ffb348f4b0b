"""Writes the report of a run: ``index.html``, one file with all pictures, and ``report.json``, its numbers.

Invariant: the numbers on the page are the story's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from lab.demo.report import plots
from lab.demo.report.page import Picture, render
from lab.demo.report.series import gap, lags, slices, spells
from lab.demo.story import Story
from pykraft.errors import StorageError
from pykraft.page.plot_theme import drawing, to_svg

PAGE = "index.html"
NUMBERS = "report.json"


def write_report(story: Story, directory: Path) -> Path:
    """Write both files into this folder, which is created if needed; returns the path of the page.

    Errors: StorageError if they cannot be written.
    """
    page = render(story, list(_pictures(story)))
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / NUMBERS).write_text(json.dumps(_numbers(story), indent=1) + "\n", encoding="utf-8")
        (directory / PAGE).write_text(page, encoding="utf-8")
    except OSError as error:
        raise StorageError(directory, f"the report cannot be written: {error.strerror}") from error
    return directory / PAGE


def _pictures(story: Story) -> Iterator[Picture]:
    yield _picture(
        "leadership",
        "Who led when",
        "A lane for each node. A wide bar is a leader with its epoch; no two bars may overlap "
        "in time. A hatched bar is a node that is down.",
        partial(plots.draw_leadership, story=story),
        height_inches=0.75 + 0.46 * story.options.nodes,
    )
    for number, kill in enumerate(story.kills):
        yield _picture(
            f"gap-{number}",
            f"The fail-over: {kill.failover_ms:,} ms without a leader that writes",
            "Each dot is an acknowledgement; its height is the number of records so far. The first bar is the time "
            f"until the others noticed that node {kill.node_id} was gone and node {kill.leader_id} was elected, the "
            "second one until a majority had its first records on disk. No record acknowledged before is lost.",
            partial(plots.draw_gap, found=gap(story, kill)),
            height_inches=3.6,
        )
    yield _picture(
        "throughput",
        "Records per second",
        "The rate that the quorum acknowledged, and the requested rate. The red range is the fail-over; the records "
        "of that time are not written later.",
        partial(plots.draw_throughput, story=story),
        height_inches=2.7,
    )
    yield _picture(
        "latency",
        "From append to commit",
        "The time until a majority had a record on disk: p50 covers half of the records, p99 covers 99 of 100.",
        partial(plots.draw_latency, story=story),
        height_inches=2.7,
    )
    yield _picture(
        "tables",
        "From the log to the tables",
        "Above: the log, and the tables, which follow in steps, one dot per micro-batch. Below: how long a record that "
        "was acknowledged at this time waited until it was in the tables. The first ones wait for Spark to start.",
        partial(plots.draw_tables, story=story),
        height_inches=4.2,
    )
    if lags(story):
        yield _picture(
            "lag",
            "Lag of the replicas",
            "How many records a node's log was behind its leader's, as the leader reported several times per "
            "second; the largest lag of each interval. A line is broken while nobody leads, and while the leader has "
            "not heard of the node.",
            partial(plots.draw_lag, story=story),
            height_inches=2.7,
        )


def _picture(name: str, title: str, reading: str, draw: Callable[[Figure], None], *, height_inches: float) -> Picture:
    drawn = {}
    for is_narrow in (False, True):
        with drawing(f"{name}-{is_narrow}", height_inches=height_inches, is_narrow=is_narrow) as figure:
            draw(figure)
            drawn[is_narrow] = to_svg(figure, label=title)
    return Picture(name=name, title=title, reading=reading, wide=drawn[False], narrow=drawn[True])


def _numbers(story: Story) -> dict[str, Any]:
    """All numbers on the page; times are in seconds since the load began, or wall ms if the name says so."""
    return {
        "result": story.result.as_json(),
        "options": asdict(story.options),
        "begin_wall_ms": story.begin_wall_ms,
        "end_wall_ms": story.end_wall_ms,
        "kills": [asdict(kill) for kill in story.kills],
        "leaders": [asdict(spell) for spell in spells(story)],
        "slices": [{**asdict(each), "records_per_s": each.records_per_s} for each in slices(story)],
        "micro_batches": [asdict(batch) for batch in story.batches],
        "lags": {str(node_id): looks for node_id, looks in lags(story).items()},
    }
