"""The report of campaigns: outcomes by version of the code, what failed and how to replay it, and coverage of faults.

The words and rows are the same on a terminal, in JSON and on the page. Invariants: no sentence adds up several versions
of the code. A replay command names options only if they give the very scenario of the row, by this code. On the page,
what comes from a file is escaped, and there is no external address and no code; its size does not depend on the number
of seeds.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

import pykraft
from pykraft.errors import UsageError
from pykraft.page import render_page
from pykraft.sim.run.campaign import CampaignSummary, Identity, Row, Totals, rule_and_story
from pykraft.sim.run.simulation import replay_command
from pykraft.sim.scenario.file import load, shipped_names
from pykraft.sim.scenario.scenario import Scenario
from pykraft.text.words import counted

LIKELY: Final = "all"
"""The shipped scenario of most campaigns."""
ROLES: Final = (
    *("leader", "follower", "observer", "candidate", "prospective", "prospective-voted", "unattached"),
    *("unattached-voted", "resigned", "recovering", "down"),
)
"""Roles of a node in the order of the page; a role that is not here comes last."""
VERSION_HEADS: Final = ("source", "seeds", "passed", "failed", "virtual s", "committed", "version", "scenario")
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
class Replays:
    """How the seeds of one summary are replayed."""

    words: tuple[str, ...] | None
    """The options that choose the scenario; None if they are not known."""
    is_this_code: bool
    """Whether the code that is running now is the one that ran the seeds."""

    def command(self, seed: int) -> str | None:
        """The command; None if the options are not known."""
        return None if self.words is None else replay_command(seed, self.words)


def find_replays(
    summaries: Sequence[CampaignSummary], given: tuple[Scenario, tuple[str, ...]] | None = None
) -> list[Replays]:
    """For each summary, how its seeds are replayed; ``given`` is a scenario with its options, tried first.

    Errors: UsageError if no summary is of the given scenario.
    """
    words_of: dict[str, tuple[str, ...]] = {}
    known = {each.identity.scenario for each in summaries}
    wanted = {each.identity.scenario for each in summaries if each.failed}
    here = ""
    for scenario, words in _candidates(given, is_asked=bool(wanted)):
        identity = Identity.of(scenario)  # it reads all of the code, so the search ends as soon as it can
        if given is not None and scenario is given[0] and identity.scenario not in known:
            raise UsageError(f"{' '.join(words)}: none of the rows is of this scenario")
        here = identity.source
        words_of.setdefault(identity.scenario, words)
        if words_of.keys() >= wanted:
            break
    return [
        Replays(words=words_of.get(each.identity.scenario), is_this_code=each.identity.source == here)
        for each in summaries
    ]


def _candidates(
    given: tuple[Scenario, tuple[str, ...]] | None, *, is_asked: bool
) -> Iterator[tuple[Scenario, tuple[str, ...]]]:
    if given is not None:
        yield given
    if is_asked:
        yield load([LIKELY]), ("--faults", LIKELY)
        yield load(), ()
        yield from ((load([name]), ("--faults", name)) for name in shipped_names() if name != LIKELY)


def title_of(summaries: Sequence[CampaignSummary]) -> str:
    """The verdict in a few words."""
    if not summaries:
        return "No seed has a result"
    if len(summaries) == 1:
        (only,) = summaries
        if only.failed:
            return f"{only.failed:,} of {counted(only.totals.seeds, 'seed')} failed"
        return f"{counted(only.totals.seeds, 'seed')} passed"
    failing = sum(bool(each.failed) for each in summaries)
    if failing:
        return f"Seeds of {failing} of {counted(len(summaries), 'version')} of the code failed"
    return f"{counted(len(summaries), 'version')} of the code passed"


def name_of(summary: CampaignSummary) -> str:
    """The version of the code and the scenario."""
    one = summary.identity
    return f"version {one.version}, source {one.source}, scenario {one.scenario}"


def version_row(summary: CampaignSummary) -> tuple[str, ...]:
    """The cells for `VERSION_HEADS`."""
    one, totals = summary.identity, summary.totals
    virtual_s = round(totals.sums["virtual_ms"] / 1_000)
    counts = (totals.seeds, summary.passed, summary.failed, virtual_s, totals.sums["committed"])
    return one.source, *(f"{count:,}" for count in counts), one.version, one.scenario


def failure_row(row: Row, replays: Replays) -> dict[str, Any]:
    """A failing seed: what it broke, what happened, and how to see it again."""
    rule, story = rule_and_story(row)
    return {"seed": row["seed"], "rule": rule, "story": story, "replay": replays.command(row["seed"])}


def summary_row(summary: CampaignSummary, replays: Replays) -> dict[str, Any]:
    """All that the page says of one version, as plain values."""
    one, totals = summary.identity, summary.totals
    return {
        "scenario": one.scenario,
        "version": one.version,
        "source": one.source,
        "seeds": totals.seeds,
        "failed": summary.failed,
        "rules": dict(summary.rules.most_common()),
        "failures": [failure_row(row, replays) for row in summary.failures],
        "sums": totals.sums,
        "faults": totals.faults,
        "worlds_with": totals.worlds_with,
        "states": totals.states,
    }


def roles_of(totals: Totals) -> list[str]:
    """The roles of nodes that a fault happened to."""
    found = {role for counts in totals.states.values() for role in counts}
    return [*(role for role in ROLES if role in found), *sorted(found.difference(ROLES))]


def coverage_rows(totals: Totals) -> Iterator[tuple[str, int, int, list[int]]]:
    """For each kind of fault: its name, how often it happened, in how many worlds, and how often to each role."""
    roles = roles_of(totals)
    for kind in sorted(totals.faults):
        counts = totals.states.get(kind, Counter())
        yield kind, totals.faults[kind], totals.worlds_with[kind], [counts.get(role, 0) for role in roles]


def replay_note(summary: CampaignSummary, replays: Replays) -> str:
    """What one must know to replay the failing seeds; empty if the command says it all."""
    if replays.words is None:
        options = "with the options that chose their scenario; name these options to `pykraft sim report`, too"
        return f"Replay them {options}, and with the code of source {summary.identity.source}."
    if not replays.is_this_code:
        return f"These seeds are results of other code than this: replay them with source {summary.identity.source}."
    return ""


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
