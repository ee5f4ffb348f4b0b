"""``pykraft audit``: check the directories of all replicas, each for itself and against the others."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from pykraft.audit.directory_audit import DirectoryAudit, RunTasks, read_acknowledged, run_audits, run_here
from pykraft.audit.findings import audit_page, lines
from pykraft.cli.errors import EXIT_DIRECTORY
from pykraft.cli.parsing.value import ExistingPath, NewFile, json_lines_option
from pykraft.cli.printable import print_lines, printable
from pykraft.errors import UsageError
from pykraft.object_storage.files import Files
from pykraft.process.extras import imported_for, install
from pykraft.text.words import counted

SPARK_SIZE_BYTES_MIN: Final = 16 * 1024**3
"""So much takes two cores 30 s to 3 minutes, which is more than it takes to start a Spark session."""


@click.command(short_help="Check the directories of all replicas against each other.")
@click.argument(
    "directories",
    nargs=-1,
    required=True,
    metavar="DIRECTORY...",
    type=ExistingPath("give a directory of log.dirs, or a partition in it", is_folder=True, may_be_uri=True),
)
@click.option(
    "--journal",
    "journals",
    multiple=True,
    type=ExistingPath("give a file journal.jsonl with what nodes acknowledged"),
    help="Look for the records that this journal says were acknowledged; may be repeated.",
)
@click.option("--report", type=NewFile(), help="Also write a page with the findings to this file.")
@json_lines_option("per log, finding and note, and a last one with the totals")
@click.option(
    "--master",
    metavar="URL",
    help="Let Spark do the work: spark://host:port, local[CORES], …  [default: processes of this machine]",
)
@click.option("--conf", "-c", "conf", multiple=True, metavar="KEY=VALUE", help="Spark property; may be repeated.")
def audit(
    *,
    directories: tuple[Path, ...],
    journals: tuple[Path, ...],
    report: Path | None,
    as_json: bool,
    master: str | None,
    conf: tuple[str, ...],
) -> None:
    """Check each DIRECTORY as `verify` does, and compare the replicas byte by byte.

    Give one directory of each replica: an entry of log.dirs, or a partition directory in it, of pykraft or Kafka, of
    stopped nodes or copies; or its URI in object storage, s3://bucket/n1. It writes nothing there. Exits with 4 if
    something is damaged, lost or different.
    """
    acknowledged = read_acknowledged(journals) if journals else None
    if acknowledged == []:
        raise UsageError(f"--journal {journals[0]}: nothing in it was acknowledged")
    # Report a wrong directory before Spark starts. Executors may have another working directory.
    one = DirectoryAudit(Files(), [path.absolute() for path in directories], acknowledged=acknowledged)
    with (
        _executors(master, conf, one.size_bytes) as run,
        Console(stderr=True).status(f"reading {one.size_bytes} bytes"),
    ):
        (found,) = run_audits([one], run)
    if report is not None:
        report.write_text(audit_page(found), encoding="utf-8")
    if as_json:
        for row in found.rows():
            click.echo(json.dumps(row))
    else:
        print_lines(map(printable, lines(found)))
    if not found.is_sound:
        click.echo(f"pykraft: {counted(found.damage_count, 'place')} damaged", err=True)
        raise SystemExit(EXIT_DIRECTORY)


@contextmanager
def _executors(master: str | None, conf: Sequence[str], size_bytes: int) -> Iterator[RunTasks]:
    """What carries out the tasks: this machine, or Spark if it was asked for. Errors: UsageError; those of Spark."""
    if master is None and not conf:
        if size_bytes >= SPARK_SIZE_BYTES_MIN:
            advice = f"{install('spark')}, then --master spark://host:port"
            click.echo(
                f"pykraft: {size_bytes / 2**30:,.0f} GiB are read by this machine alone; those of a Spark cluster "
                f"would share them: {advice}",
                err=True,
            )
        yield run_here
        return
    with imported_for("audit --master"):
        from pykraft.spark.audit_job import run_on
        from pykraft.spark.session.master import parse_conf, session_at, settings_at
    given = parse_conf(conf)
    where = master or given.get("spark.master", "local[*]")
    with session_at(settings_at("pykraft audit", master=where, conf=given)) as spark:
        yield partial(run_on, spark)
