"""``pykraft audit``: check the directories of all replicas on Spark, each for itself and against the others."""

import json
from pathlib import Path

import click
from rich.console import Console

from pykraft.audit.directory_audit import DirectoryAudit, read_acknowledged, run_audits
from pykraft.audit.findings import audit_page, lines
from pykraft.cli.errors import EXIT_DIRECTORY
from pykraft.cli.parsing.value import ExistingPath, NewFile, json_lines_option
from pykraft.cli.printable import print_lines, printable
from pykraft.errors import UsageError
from pykraft.object_storage.files import Files
from pykraft.process.extras import imported_for
from pykraft.text.words import counted


@click.command(short_help="Check the directories of all replicas against each other, with Spark.")
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
    default="local[*]",
    show_default=True,
    metavar="URL",
    help="Spark master: local[CORES], spark://host:port, …",
)
@click.option("--conf", "-c", "conf", multiple=True, metavar="KEY=VALUE", help="Spark property; may be repeated.")
def audit(
    *,
    directories: tuple[Path, ...],
    journals: tuple[Path, ...],
    report: Path | None,
    as_json: bool,
    master: str,
    conf: tuple[str, ...],
) -> None:
    """Check each DIRECTORY as `verify` does, and compare the replicas byte by byte.

    Give one directory of each replica: an entry of log.dirs, or a partition directory in it, of pykraft or Kafka, of
    stopped nodes or copies; or its URI in object storage, s3://bucket/n1. It writes nothing there. Exits with 4 if
    something is damaged, lost or different.
    """
    with imported_for("audit"):
        from pykraft.spark.audit_job import run_on
        from pykraft.spark.session.master import parse_conf, session_at, settings_at
    settings = settings_at("pykraft audit", master=master, conf=parse_conf(conf))
    acknowledged = read_acknowledged(journals) if journals else None
    if acknowledged == []:
        raise UsageError(f"--journal {journals[0]}: nothing in it was acknowledged")
    # Report a wrong directory before Spark starts. Executors may have another working directory.
    one = DirectoryAudit(Files(), [path.absolute() for path in directories], acknowledged=acknowledged)
    with session_at(settings) as spark, Console(stderr=True).status(f"reading {one.size_bytes} bytes"):
        (found,) = run_audits([one], lambda tasks: run_on(spark, tasks))
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
