"""The page of campaigns: outcomes by version of the code, what failed and how to replay it, and coverage of faults.

Invariant: what comes from a file is escaped, and the page has no external address and no code. Its size does not depend
on the number of seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

import pykraft
from lab.campaign.replays import Replays
from lab.campaign.words import (
    VERSION_HEADS,
    coverage_rows,
    failure_row,
    name_of,
    replay_note,
    roles_of,
    title_of,
    version_row,
)
from pykraft.page import render_page
from pykraft.sim.run.totals import CampaignSummary, Totals
from pykraft.text.words import counted

HERE: Final = Path(__file__).parent
FAILURES_SHOWN_MAX: Final = 200
"""Failing seeds of each version on the page; the rows have all."""
STORY_LENGTH_MAX: Final = 600
HEAT_STEPS: Final = 5
COVERAGE_READING: Final = (
    "Worlds are those in which the fault happened at least once. A fault may happen to several nodes, or to none. "
    "The stronger the color of a cell, the more often it happened to such a node, on a log scale."
)
TEXT_HEADS: Final = frozenset({"source", "version", "scenario"})
"""Columns of text; the others are numbers."""
NUMBER: Final = ' class="number"'


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPace:
    """How many seeds a run took in which time, both without those of earlier runs."""

    seeds: int
    seconds: float


def campaign_page(summaries: Sequence[CampaignSummary], replays: Sequence[Replays], pace: RunPace | None = None) -> str:
    """The page as one HTML document; ``pace`` is known while a campaign runs."""
    title = title_of(summaries)
    are_named = len(summaries) > 1
    sections = [_version(summary, found, is_named=are_named) for summary, found in zip(summaries, replays, strict=True)]
    return render_page(
        HERE,
        {
            "title": escape(f"Campaign: {title}"),
            "outcome": "failed" if any(each.failed for each in summaries) else "passed",
            "verdict": escape(title),
            "pace": _pace(pace),
            "versions": _versions(summaries),
            "sections": "\n".join(sections),
            "version": escape(pykraft.__version__),
        },
    )


def _pace(pace: RunPace | None) -> str:
    if pace is None or not pace.seconds:
        return ""
    rate = pace.seeds / pace.seconds
    return f"<p>{counted(pace.seeds, 'seed')} ran in {pace.seconds:,.0f} s, {rate:,.1f} seeds/s.</p>"


def _versions(summaries: Sequence[CampaignSummary]) -> str:
    kinds = ["" if head in TEXT_HEADS else NUMBER for head in VERSION_HEADS]
    heads = "".join(f'<th scope="col"{kind}>{head}</th>' for head, kind in zip(VERSION_HEADS, kinds, strict=True))
    rows = []
    for summary in summaries:
        cells = zip(version_row(summary), kinds, strict=True)
        line = "".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in cells)
        rows.append(f'<tr class="{"failed" if summary.failed else "passed"}">{line}</tr>')
    return _table(heads, rows, "outcomes by version of the code")


def _version(summary: CampaignSummary, replays: Replays, *, is_named: bool) -> str:
    head = f'<h2 class="version">{escape(name_of(summary))}</h2>' if is_named else ""
    parts = (_tiles(summary), _failures(summary, replays), _coverage(summary.totals))
    return "\n".join(["<section>", head, *parts, "</section>"])


def _tiles(summary: CampaignSummary) -> str:
    totals = summary.totals
    numbers = (
        (f"{totals.seeds:,}", "seeds"),
        (f"{summary.passed:,}", "passed"),
        (f"{summary.failed:,}", "failed"),
        (f"{totals.sums['committed']:,}", "records committed"),
        (f"{totals.sums['acknowledged']:,}", "records acknowledged"),
        (f"{sum(totals.faults.values()):,}", f"faults of {counted(len(totals.faults), 'kind')}"),
        (_hours(totals.sums["virtual_ms"]), "of virtual time"),
    )
    tiles = "".join(f"<div><strong>{value}</strong><span>{meaning}</span></div>" for value, meaning in numbers)
    return f'<div class="tiles">{tiles}</div>'


def _hours(duration_ms: int) -> str:
    hours = duration_ms / 3_600_000
    return f"{hours:,.1f} h" if hours >= 1 else f"{duration_ms / 1_000:,.0f} s"


def _failures(summary: CampaignSummary, replays: Replays) -> str:
    if not summary.failed:
        return ""
    note = replay_note(summary, replays)
    rules = [
        f"<tr><td>{escape(rule)}</td><td{NUMBER}>{count:,}</td></tr>" for rule, count in summary.rules.most_common()
    ]
    cards = [_card(failure_row(row, replays)) for row in summary.failures[:FAILURES_SHOWN_MAX]]
    more = summary.failed - len(cards)
    return "\n".join(
        [
            "<h3>What failed</h3>",
            f"<p>{escape(note)}</p>" if note else "",
            _table(f'<th scope="col">rule</th><th scope="col"{NUMBER}>seeds</th>', rules, "failing seeds by rule"),
            *cards,
            f"<p>and {counted(more, 'more failing seed')}; the rows have them</p>" if more else "",
        ]
    )


def _card(failure: dict[str, object]) -> str:
    story = str(failure["story"])
    if len(story) > STORY_LENGTH_MAX:
        story = f"{story[:STORY_LENGTH_MAX]}…"
    replay = f"<pre><code>{escape(str(failure['replay']))}</code></pre>" if failure["replay"] else ""
    head = f"seed {failure['seed']}: {failure['rule']}"
    return f'<article id="seed-{failure["seed"]}"><h4>{escape(head)}</h4><p>{escape(story)}</p>{replay}</article>'


def _coverage(totals: Totals) -> str:
    if not totals.faults:
        return ""
    roles = roles_of(totals)
    heads = '<th scope="col">fault</th>' + "".join(
        f'<th scope="col"{NUMBER}>{escape(head)}</th>' for head in ("times", "worlds", *roles)
    )
    rows = list(coverage_rows(totals))
    most = max((count for *_, counts in rows for count in counts), default=0)
    lines = [
        f'<tr><th scope="row">{escape(kind)}</th><td{NUMBER}>{times:,}</td><td{NUMBER}>{worlds:,}</td>'
        f"{''.join(_heat(counts, most))}</tr>"
        for kind, times, worlds, counts in rows
    ]
    return "\n".join(
        [
            "<h3>Faults, and the role of the node that each happened to</h3>",
            f"<p>{escape(COVERAGE_READING)}</p>",
            _table(heads, lines, "faults by kind and role"),
        ]
    )


def _heat(counts: Sequence[int], most: int) -> Iterator[str]:
    for count in counts:
        step = 0 if not count else 1 + round((HEAT_STEPS - 1) * math.log(count) / math.log(max(2, most)))
        yield f'<td class="number heat-{step}">{f"{count:,}" if count else "·"}</td>'


def _table(heads: str, rows: Sequence[str], label: str) -> str:
    body = "\n".join(rows)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{label}"><table><thead><tr>{heads}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )
