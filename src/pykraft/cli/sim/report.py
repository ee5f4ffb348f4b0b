"""`pykraft sim report`: add up what the machines of a campaign found, for each version of the code.

Defines the arguments, the output and the exit status; `pykraft.campaign` reads the files and writes the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from pykraft.campaign.page import campaign_page
from pykraft.campaign.replays import Replays, find_replays
from pykraft.campaign.report import summarize
from pykraft.campaign.summary import CampaignSummary
from pykraft.campaign.words import VERSION_HEADS, name_of, replay_note, summary_row, title_of, version_row
from pykraft.cli.json_option import json_lines_option
from pykraft.cli.parsing.value import ExistingPath, NewFile
from pykraft.cli.printable import print_lines, printable
from pykraft.cli.sim.options import Choice, scenario_options
from pykraft.cli.sim.table import coverage_option, summary_lines
from pykraft.text.table import table_lines, terminal_width

FAILURES_SHOWN = 20


@click.command(short_help="Add up the files of `sim run --out`.")
@click.argument("files", nargs=-1, required=True, type=ExistingPath("give files that `pykraft sim run --out` wrote"))
@scenario_options
@coverage_option
@click.option("--html", "page", type=NewFile(), help="Also write a page with outcomes, failures and coverage.")
@json_lines_option("per version of the code")
def report(files: tuple[Path, ...], choice: Choice, page: Path | None, *, with_coverage: bool, as_json: bool) -> None:
    """Add up the FILES of `pykraft sim run --out`; each seed counts once. Exits with 1 if a seed failed.

    Rows of different scenarios, versions or sources are added up separately. A replay command needs the options that
    chose the scenario: those of a shipped scenario are found, others are given with --faults or --scenario.
    """
    summaries = summarize(files)
    found = find_replays(summaries, (choice.scenario, choice.words) if choice.words else None)
    if page is not None:
        page.write_text(campaign_page(summaries, found), encoding="utf-8")
    if as_json:
        for summary, replays in zip(summaries, found, strict=True):
            click.echo(json.dumps(summary_row(summary, replays)))
    else:
        print_lines(_lines(summaries, found, with_coverage=with_coverage))
    if any(summary.failed for summary in summaries):
        raise SystemExit(1)


def _lines(summaries: list[CampaignSummary], found: list[Replays], *, with_coverage: bool) -> Iterator[str]:
    for summary, replays in zip(summaries, found, strict=True):
        if len(summaries) > 1:
            yield printable(name_of(summary))
        yield from map(printable, _failure_lines(summary, replays))
        yield from summary_lines(summary, with_coverage=with_coverage)
        if len(summaries) > 1:
            yield ""
    if not summaries:
        yield title_of(summaries)
    if len(summaries) > 1:
        yield from map(printable, table_lines(VERSION_HEADS, map(version_row, summaries), width=terminal_width()))
        yield f"{'FAILED' if any(each.failed for each in summaries) else 'PASSED'}: {title_of(summaries)}"


def _failure_lines(summary: CampaignSummary, replays: Replays) -> Iterator[str]:
    for row in summary.failures[:FAILURES_SHOWN]:
        yield f"seed {row['seed']} failed: {row['reason']}"
        command = replays.command(row["seed"])
        if command is not None:
            yield f"replay it: {command}"
    if summary.failed > FAILURES_SHOWN:
        yield f"and {summary.failed - FAILURES_SHOWN:,} more"
    if summary.failed and (note := replay_note(summary, replays)):
        yield note
