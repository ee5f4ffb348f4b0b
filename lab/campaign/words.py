"""The words and rows for a report of campaigns: the same on a terminal, in JSON and on the page.

Invariant: with several versions of the code no sentence adds them up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from lab.campaign.replays import Replays
from pykraft.sim.run.campaign import Row
from pykraft.sim.run.totals import CampaignSummary, Totals, rule_and_story
from pykraft.text.words import counted

ROLES: Final = (
    *("leader", "follower", "observer", "candidate", "prospective", "prospective-voted", "unattached"),
    *("unattached-voted", "resigned", "recovering", "down"),
)
"""Roles of a node in the order of the page; a role that is not here comes last."""
VERSION_HEADS: Final = ("source", "seeds", "passed", "failed", "virtual s", "committed", "version", "scenario")


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
