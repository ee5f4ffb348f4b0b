"""``pykraft pipeline report`` and ``upkeep``: what the tables hold, of one run or two, and how they stay compact.

Defines the options and the output: text, JSON or a page with figures. `pykraft.spark.pipeline` computes the report,
draws the page and does the upkeep, which needs neither Spark nor Java.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from pykraft.cli.parsing.value import ExistingPath, NewFile, NumberType, json_option
from pykraft.cli.pipeline.command import COMMAND, tables_option
from pykraft.cli.printable import print_table
from pykraft.errors import UsageError
from pykraft.process.extras import imported_for
from pykraft.spark.tables.names import RETENTION_HOURS, TARGET_SIZE_BYTES
from pykraft.text.words import ms_number

if TYPE_CHECKING:  # imported when the command runs, so that --help is quick
    from pykraft.spark.pipeline.report import PipelineReport, PipelineRun
    from pykraft.spark.pipeline.upkeep import PipelineUpkeep


@click.command(short_help="Merge small files of the tables, and delete old ones.")
@click.option(
    "--tables",
    "root",
    required=True,
    type=ExistingPath("give the folder that `pykraft pipeline run` fills", is_folder=True),
    help="Folder of the tables.",
)
@click.option(
    "--target-size",
    "target_size_bytes",
    type=NumberType(int, 1),
    default=TARGET_SIZE_BYTES,
    metavar="BYTES",
    help="Size of the files that small ones become; 128 MiB by default.",
)
@click.option(
    "--retention-hours",
    type=NumberType(int, 0),
    default=RETENTION_HOURS,
    show_default=True,
    help="How long files that the tables do not have any more stay for readers.",
)
@click.option("--allow-short-retention", is_flag=True, help="Allow less than 168 hours: no reader takes longer.")
@json_option
def upkeep(
    *, root: Path, target_size_bytes: int, retention_hours: int, allow_short_retention: bool, as_json: bool
) -> None:
    """Merge small files of the Delta tables in order of replica and offset, and delete files that are out of use.

    A pipeline may be running. The rows stay the same.
    """
    if retention_hours < RETENTION_HOURS and not allow_short_retention:
        raise UsageError(
            f"--retention-hours {retention_hours}: a query that began earlier would miss its files; give at least "
            f"{RETENTION_HOURS}, or --allow-short-retention if no query takes that long"
        )
    with imported_for("the upkeep of tables"):
        from pykraft.spark.pipeline.upkeep import keep_tables
    with Console(stderr=True).status("opening the tables") as line:
        found = keep_tables(
            root,
            target_size_bytes=target_size_bytes,
            retention_hours=retention_hours,
            on_progress=lambda name, size_bytes: line.update(f"{name}: {size_bytes / 1e6:,.0f} MB merged"),
        )
    if as_json:
        click.echo(json.dumps(found.as_json(), indent=2))
    else:
        _print(found)


def _print(found: PipelineUpkeep) -> None:
    heads = ("table", "files before", "files", "MB merged", "files deleted")
    rows = [
        (
            name,
            f"{done.files_before:,}",
            f"{done.files:,}",
            f"{done.rewritten_bytes / 1e6:,.1f}",
            f"{done.deleted_files:,}",
        )
        for name, done in found.tables.items()
    ]
    print_table("upkeep", heads, rows)


@click.command(short_help="Summarize the tables, as text or as a page with figures.")
@tables_option
@click.option("--replica", help="Read this replica's log; by default the one that reaches furthest.")
@click.option(
    "--journal",
    type=ExistingPath("give the file journal.jsonl that `pykraft demo --data` keeps"),
    help="Journal of acknowledgements; its rows are kept in a table.",
)
@click.option("--write", "is_written", is_flag=True, help="Also write the results to tables named gold_*.")
@click.option("--html", "page", type=NewFile(), help="Also write a page with figures; needs the extra plots.")
@click.option(
    "--beside",
    type=ExistingPath("give the folder of the tables of another run", is_folder=True),
    help="Show these tables beside the others on the page.",
)
@json_option
def report(
    *,
    root: Path,
    replica: str | None,
    journal: Path | None,
    is_written: bool,
    page: Path | None,
    beside: Path | None,
    as_json: bool,
) -> None:
    """Summarize the tables: totals, leaders, throughput, commit latency and replica lag.

    Commit latency needs the acknowledgements: give the nodes' --journal once; a table keeps it. --html writes a page
    with figures of all this and the sizes of the tables.
    """
    if beside is not None and page is None:
        raise UsageError("--beside shows two runs on a page: give --html, too")
    with imported_for(COMMAND):
        from pykraft.spark.pipeline.report import PipelineRun, acknowledgements, make_report, read_journal, read_run
        from pykraft.spark.pipeline.status import pipeline_status
        from pykraft.spark.session.master import session_at, settings_at
        from pykraft.spark.tables.delta import DeltaTables
        from pykraft.spark.tables.names import ACKNOWLEDGED
    write_page = None if page is None else _page_writer(page)
    said = None if journal is None else read_journal(journal)
    status = pipeline_status(root)
    if beside is not None:
        pipeline_status(beside)  # report a wrong folder before Spark starts
    tables = DeltaTables(root)
    settings = settings_at("pykraft pipeline report")
    with session_at(settings) as spark, Console(stderr=True).status("asking Spark"):
        if said is not None:
            tables.replace(ACKNOWLEDGED, acknowledgements(spark, said))
        found = make_report(spark, tables, replica=replica, is_written=is_written)
        runs = [PipelineRun(name=str(root), report=found, tables=status.tables)]
        if beside is not None:
            runs.append(read_run(spark, beside))
    if write_page is not None:
        write_page(runs)
    if as_json:
        click.echo(json.dumps(found.as_json(), indent=2))
    else:
        _print_report(found)


def _page_writer(page: Path) -> Callable[[Sequence[PipelineRun]], None]:
    """A function that writes the page. Errors: UsageError, before any work, if what draws it is not installed."""
    from pykraft.spark.pipeline.figures import pipeline_page

    def write(runs: Sequence[PipelineRun]) -> None:
        page.write_text(pipeline_page(runs), encoding="utf-8")

    return write


def _print_report(found: PipelineReport) -> None:
    seconds = len(found.throughput)
    name = "what the log holds" if found.replica is None else f"what the log of {found.replica} holds"
    totals = {
        "records": f"{found.records:,}",
        "control records": f"{found.control_records:,}",
        "bytes of values": f"{found.size_bytes:,}",
        "offsets": f"{found.first_offset} to {found.last_offset}",
        "damaged places": f"{found.corrupt:,}",
        "seconds with records": f"{seconds:,}",
        "records per second with records": f"{found.records / max(1, seconds):,.0f}",
    }
    print_table(name, ("what", "value"), list(totals.items()))
    heads = ("epoch", "leader", "first offset", "last offset", "begun", "records", "gap before, ms")
    print_table("leaders", heads, [_leader(row) for row in found.epochs])
    if found.commit_latency:
        _print_latency(found.commit_latency)
    if found.replica_lag:
        _print_lag(found.replica_lag)


def _leader(row: Mapping[str, Any]) -> tuple[str, ...]:
    begun = row["begun"].isoformat(" ", "milliseconds")
    gap = "" if row["gap_ms"] is None else str(row["gap_ms"])
    cells = (row["epoch"], row["leader_id"], row["first_offset"], row["last_offset"], begun, f"{row['records']:,}", gap)
    return tuple(map(str, cells))


def _print_latency(rows: list[dict[str, Any]]) -> None:
    ordered = sorted(rows, key=lambda row: row["p50_ms"])
    chosen = {"fastest": ordered[0], "median": ordered[len(rows) // 2], "slowest": ordered[-1]}
    cells = [(name, *(ms_number(row[key]) for key in ("p50_ms", "p99_ms", "max_ms"))) for name, row in chosen.items()]
    print_table("append to commit, in ms", ("second", "p50", "p99", "slowest"), cells)


def _print_lag(rows: list[dict[str, Any]]) -> None:
    cells = []
    for node_id in sorted({row["node"] for row in rows}):
        own = [row["lag"] for row in rows if row["node"] == node_id and row["lag"] is not None]
        cells.append((str(node_id), f"{max(own, default=0):,}", f"{len(own):,}"))
    print_table("lag of the replicas", ("node", "records behind, max", "samples"), cells)
