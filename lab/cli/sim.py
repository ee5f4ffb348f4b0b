"""`pykraft sim` in a clone, which has more than the package's: campaigns of several machines, and planted bugs.

- ``run`` also keeps rows in a file, writes a page of the campaign, and runs the seeds on Spark.
- ``report`` adds up what the machines of a campaign found, for each version of the code.
- ``mutants`` plants known bugs in production code; the worlds must notice them. They are in ``tests/sim/mutants``.

`lab.campaign` has the formats of files and pages.
"""

import importlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import click

from lab.campaign.page import (
    VERSION_HEADS,
    Replays,
    RunPace,
    campaign_page,
    find_replays,
    name_of,
    replay_note,
    summary_row,
    title_of,
    version_row,
)
from lab.campaign.rows import RowFile, summarize
from pykraft.cli.parsing.group import Group
from pykraft.cli.parsing.value import ExistingPath, NewFile, any_of, json_lines_option
from pykraft.cli.printable import print_lines, printable
from pykraft.cli.sim.run import (
    Choice,
    SeedRows,
    conclude,
    coverage_option,
    parse_seeds,
    replay,
    report_rows,
    run_options,
    scenario_options,
    seed_rows,
    summary_lines,
    workers_option,
)
from pykraft.errors import UsageError
from pykraft.process.extras import imported_for
from pykraft.sim.run.campaign import CampaignSummary, Identity, Row
from pykraft.text.table import table_lines, terminal_width
from pykraft.text.words import did_you_mean

FAILURES_SHOWN: Final = 20
PLANTED_BUGS: Final = "tests.sim.mutants.search"


@click.group(cls=Group)
def sim() -> None:
    """Run the simulator: the production node on a virtual disk, network and clock."""


sim.add_command(replay)


@sim.command(short_help="Run a range of seeds.")
@run_options
@click.option("--spark", metavar="MASTER", help="Run the seeds on this Spark master: local[2], spark://host:port, …")
@click.option(
    "--out", type=NewFile(), help="Append a row for each seed to this file, and skip the seeds that it already holds."
)
@click.option("--report", type=NewFile(), help="Write a page with the outcome, failures and coverage to this file.")
def run(  # noqa: PLR0913 - one argument for each option
    *,
    seeds: range,
    choice: Choice,
    workers: int,
    trace: bool,
    as_json: bool,
    with_coverage: bool,
    folder: Path | None,
    spark: str | None,
    out: Path | None,
    report: Path | None,
) -> None:
    """Run a range of seeds. Exits with 1 if one fails, and prints the command that replays it.

    With --out, a run can be stopped and continued, and several machines can share the work: `pykraft sim report` adds
    up their files.
    """
    if spark is not None and trace:
        raise UsageError("--trace runs in one process: leave out --spark")
    began_s = time.monotonic()
    summary = CampaignSummary(identity=Identity.of(choice.scenario))
    with kept_rows(out, seeds, summary) as (left, keep):
        known = summary.totals.seeds
        echo = partial(click.echo, err=as_json) if trace else None
        rows = seed_rows(left, choice, workers=workers, echo=echo) if spark is None else _on_spark(spark, left, choice)
        report_rows(rows, len(left), choice, summary, is_traced=trace, as_json=as_json, folder=folder, keep=keep)
    if report is not None:
        ran, took_s = summary.totals.seeds - known, time.monotonic() - began_s
        write_report(report, summary, choice.words, ran=ran, took_s=took_s)
    conclude(summary, began_s, as_json=as_json, with_coverage=with_coverage)


def _on_spark(master: str, seeds: Sequence[int], choice: Choice) -> SeedRows:
    """The rows of seeds that run on this master. A failure's traceback stays there: the seed is run again here."""
    from pykraft.spark.session.master import session_at, settings_at

    settings = settings_at("pykraft sim", master=master, option="--spark")
    with imported_for("--spark"):
        from lab.campaign.on_spark import run_seeds

    with session_at(settings) as session:
        yield from ((row, None) for row in run_seeds(session, seeds, choice.scenario))


@contextmanager
def kept_rows(
    out: Path | None, seeds: range, summary: CampaignSummary
) -> Iterator[tuple[Sequence[int], Callable[[Row], None]]]:
    """The seeds still to run, and a function that keeps a result; results of earlier runs are counted at once.

    Errors: UsageError for rows of another campaign, while another run writes, or if the file cannot be opened.
    """
    if out is None:
        yield seeds, lambda _: None
        return

    def count(row: Row) -> None:
        if row["seed"] in seeds:
            summary.add(row)

    try:
        opened = RowFile(out, summary.identity, on_row=count)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}") from error
    with closing(opened) as rows:
        yield rows.left_of(seeds), rows.add


def write_report(page: Path, summary: CampaignSummary, words: tuple[str, ...], *, ran: int, took_s: float) -> None:
    """Write the page of a run: ``words`` chose its scenario, ``ran`` seeds took ``took_s``. Errors: OSError."""
    replays = Replays(words=words, is_this_code=True)
    page.write_text(campaign_page([summary], [replays], RunPace(seeds=ran, seconds=took_s)), encoding="utf-8")


@sim.command(short_help="Add up the files of `sim run --out`.")
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


@sim.command(short_help="Plant known bugs, and check that each is noticed.")
@click.argument("names", nargs=-1, shell_complete=any_of(lambda: _known("MUTANTS")))
@click.option("--list", "is_list", is_flag=True, help="List the bugs and their stories, and plant none.")
@click.option(
    "--seeds",
    metavar="A:B",
    help="Search these seeds for the first that notices the bug, instead of using the recorded one.",
)
@click.option(
    "--oracle",
    metavar="NAME",
    shell_complete=any_of(lambda: _known("ORACLES")),
    help="Watch with this oracle only; without NAMES, plant the bug that is recorded for it.",
)
@click.option(
    "--rewrite",
    is_flag=True,
    help="Record what --seeds finds for these bugs, and for each oracle that must notice one of them alone.",
)
@workers_option("Number of processes for a search.")
@json_lines_option("per bug")
def mutants(
    names: tuple[str, ...],
    *,
    is_list: bool,
    seeds: str | None,
    oracle: str | None,
    rewrite: bool,
    workers: int,
    as_json: bool,
) -> None:
    """Plant each bug, or only NAMES, and run its recorded seed with and without the bug.

    Exits with 1 unless the recorded oracle fails the run with the bug and passes the run without it. With --seeds, it
    tries seeds in order until one notices the bug, and exits with 1 if none does.
    """
    search = importlib.import_module(PLANTED_BUGS)
    chosen = _chosen(search, names)
    if oracle is not None and oracle not in search.ORACLES:
        listed = did_you_mean(oracle, search.ORACLES) or f": choose one of {', '.join(search.ORACLES)}"
        raise UsageError(f"there is no oracle {oracle!r}{listed}")
    if rewrite and (oracle or seeds is None):
        raise UsageError("--rewrite records bugs and what each oracle notices alone: give it --seeds, and no --oracle")
    if is_list:
        for name in chosen:
            bug = search.MUTANTS[name]
            _print_bug({"mutant": name, "story": bug.story, "source": bug.source}, as_json=as_json)
        return
    if oracle is not None and not names:
        chosen = [search.ALONE[oracle]]
    if seeds is None:
        is_good = _replay(search, chosen, oracle, as_json=as_json)
    else:
        jobs = [(name, oracle) for name in chosen] + (search.alone_jobs(chosen) if rewrite else [])
        found = _search(search, jobs, parse_seeds(seeds), workers, as_json=as_json)
        is_good = all(catch is not None for *_, catch in found)
        if rewrite:
            search.record_found(found)
    if not is_good:
        raise SystemExit(1)


def _replay(search: ModuleType, names: Sequence[str], oracle: str | None, *, as_json: bool) -> bool:
    is_good = True
    for name in names:
        row = search.replay(name, oracle)
        is_good &= row["verdict"] == search.CAUGHT
        _print_bug(row, as_json=as_json)
    return is_good


def _search(
    search: ModuleType, jobs: Sequence[tuple[str, str | None]], seeds: range, workers: int, *, as_json: bool
) -> list[tuple[str, str | None, Any]]:
    found = []
    for name, watching, catch in search.search_all(jobs, seeds, workers=workers):
        found.append((name, watching, catch))
        row = {"mutant": name, "alone": watching, "seed": None, "noticed_by": None, "seen": f"survives {seeds}"}
        _print_bug(row if catch is None else {**row, **catch.row()}, as_json=as_json)
    return found


def _print_bug(row: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(row))
        return
    told = [f"{row['mutant']}: {row.get('verdict', '')}".rstrip(": ")]
    if row.get("seed") is not None:
        told.append(f"scenario {row['scenario']}, seed {row['seed']}, noticed by {row.get('noticed_by')}")
    told += [str(row[key]) for key in ("seen", "story", "source") if row.get(key)]
    click.echo("\n    ".join(told))


def _chosen(search: ModuleType, names: Sequence[str]) -> Sequence[str]:
    for name in names:
        if name not in search.MUTANTS:
            hint = did_you_mean(name, search.MUTANTS)
            raise UsageError(f"there is no planted bug {name!r}: `pykraft sim mutants --list` lists them{hint}")
    return names or list(search.MUTANTS)


def _known(kind: str) -> Iterable[str]:
    return tuple(getattr(importlib.import_module(PLANTED_BUGS), kind))
