"""``pykraft pipeline``: write a quorum's log into tables, show how far they are, summarize them, and keep them compact.

Prints a line of progress while it runs or, if asked, a JSON object for each micro-batch. A signal ends it; the next run
continues from there. ``--master`` and ``--conf`` are Spark's own options; the upkeep needs neither Spark nor Java.
Invariant: an address for ``--metrics-port`` that cannot be used is an error before Spark starts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console

from pykraft.cli.client_options import client_properties, command_config_option
from pykraft.cli.config_file import read_properties
from pykraft.cli.parsing import value
from pykraft.cli.parsing.group import Group
from pykraft.cli.printable import print_table
from pykraft.config.properties import Properties, with_origins
from pykraft.errors import UsageError
from pykraft.process.extras import imported_for
from pykraft.security.settings import Security
from pykraft.spark.tables.names import RETENTION_HOURS, TARGET_SIZE_BYTES, UPKEEP_INTERVAL
from pykraft.text.table import table_lines, terminal_width
from pykraft.text.words import counted
from pykraft.types import Endpoint

if TYPE_CHECKING:  # imported when the command runs, so that --help is quick
    from pykraft.spark.pipeline.run import KeptQuery
    from pykraft.spark.pipeline.status import PipelineStatus
    from pykraft.spark.pipeline.stream_metrics import StreamMetrics

OPTION: Final = "--metrics-port"
HOST: Final = "localhost"


def _address(ctx: click.Context, param: click.Parameter, text: str | None) -> Endpoint | None:
    del ctx, param
    return None if text is None else value.listen_address(OPTION, text, host=HOST)


metrics_option = click.option(
    OPTION,
    "metrics_at",
    callback=_address,
    metavar="[HOST:]PORT",
    help="Serve metrics for Prometheus at this port of localhost, or of HOST; port 0 is any free one.",
)


@contextmanager
def served_metrics(at: Endpoint | None, command_config: Path | None = None) -> Iterator[StreamMetrics]:
    """The metrics of the pipeline's query; within this block they are served, if an address is given.

    The file may have what protects them, in the properties of a node.

    Errors: ConfigError for an address or property that cannot be used; UsageError without the client library.
    """
    from pykraft.spark.pipeline.stream_metrics import StreamMetrics, metrics_at_address
    from pykraft.spark.tables.names import QUERY

    metrics = StreamMetrics(QUERY)
    if at is None:
        yield metrics
        return
    properties = Properties() if command_config is None else client_properties(command_config)
    with ExitStack() as stack:
        with with_origins(properties):
            security = Security.of_metrics(properties)
            bound = stack.enter_context(metrics_at_address(at, OPTION, metrics.render, security))
        click.echo(f"metrics are at {'https' if security.uses_tls else 'http'}://{bound}/metrics", err=True)
        yield metrics


POLL_S = 0.5
_OPTIONS: Mapping[str, str] = {"bootstrap.controllers": "--bootstrap-controller", "startingOffsets": "--from"}
"""Options of the data source, and of the command."""
COMMAND = "the pipeline"

tables_option = click.option(
    "--tables",
    "root",
    required=True,
    type=value.NewFolder(may_be_uri=True),
    help="Folder of the tables, or a URI such as s3://bucket/tables.",
)
"""An option of each command that reads or writes tables."""


@click.group(cls=Group, short_help="Write a quorum's log into tables with Spark.")
def pipeline() -> None:
    """Write a quorum's log into tables: bronze (batches) and silver (records), each row exactly once."""


@pipeline.command()
@tables_option
@click.option(
    "--checkpoint",
    type=value.NewFolder(may_be_uri=True),
    help="Folder of the stream's checkpoint, on this machine or where Spark can write; by default in --tables.",
)
@click.option(
    "--bootstrap-controller", metavar="LIST", help="Read a live quorum, up to the high watermark: host:port,…"
)
@click.option(
    "--path", "paths", multiple=True, help="Read these log directories instead (globs allowed); may be repeated."
)
@command_config_option
@click.option("--follow", "-f", is_flag=True, help="Keep writing new records as they commit; Ctrl-C ends it.")
@value.start_option
@click.option("--max-records-per-trigger", type=value.NumberType(int, 1), help="Limit of records per micro-batch.")
@click.option(
    "--max-bytes-per-trigger",
    type=value.NumberType(int, 1),
    help="Limit of bytes per micro-batch; 128 MiB if neither limit is given.",
)
@click.option(
    "--corrupt",
    type=value.OneOf(["fail", "mark"]),
    default="fail",
    show_default=True,
    help="What to do about damaged bytes: fail, or mark them with a row and continue.",
)
@click.option(
    "--upkeep-interval",
    type=value.NumberType(int, 0),
    default=UPKEEP_INTERVAL,
    show_default=True,
    help="Micro-batches from one merge of small files to the next, 0 for never.",
)
@metrics_option
@value.json_lines_option("per micro-batch")
@click.option("--master", metavar="URL", help="Spark master: local[CORES], spark://host:port, …")
@click.option("--conf", "-c", "conf", multiple=True, metavar="KEY=VALUE", help="Spark property; may be repeated.")
def run(  # noqa: PLR0913 - one argument for each option
    *,
    root: Path,
    checkpoint: Path | None,
    bootstrap_controller: str | None,
    paths: tuple[str, ...],
    command_config: Path | None,
    follow: bool,
    start: str,
    max_records_per_trigger: int | None,
    max_bytes_per_trigger: int | None,
    corrupt: str,
    upkeep_interval: int,
    metrics_at: Endpoint | None,
    as_json: bool,
    master: str | None,
    conf: tuple[str, ...],
) -> None:
    """Write new records into the tables; the first run starts at --from, later runs where the last one ended.

    With --master, the executors of a cluster do the work. They receive this package, and must be able to reach the
    folder and the quorum.
    """
    with imported_for(COMMAND):
        from pykraft.spark.data_source.file_plan import find_replicas
        from pykraft.spark.data_source.options import parse_options
        from pykraft.spark.pipeline.run import KeptQuery, PipelineOptions, start_pipeline
        from pykraft.spark.session.master import parse_conf, session_at, settings_at
    source = {"startingOffsets": start, "corrupt": corrupt}
    if bootstrap_controller is not None:
        source["bootstrap.controllers"] = bootstrap_controller
    if paths:
        source["paths"] = json.dumps(list(paths))
    if max_records_per_trigger is not None:
        source["maxRecordsPerTrigger"] = str(max_records_per_trigger)
    if max_bytes_per_trigger is not None:
        source["maxBytesPerTrigger"] = str(max_bytes_per_trigger)
    if command_config is not None:
        source |= connection_options(command_config)
    if bool(paths) == (bootstrap_controller is not None):
        raise UsageError("give either --bootstrap-controller or --path")
    with _options_named():
        patterns = parse_options(source).patterns
    options = PipelineOptions(
        source=source, root=root, checkpoint=checkpoint, follow=follow, upkeep_interval=upkeep_interval
    )
    settings = settings_at("pykraft pipeline", master=master, conf=parse_conf(conf))
    find_replicas(patterns)  # report a wrong path before Spark starts
    with served_metrics(metrics_at, command_config) as metrics, session_at(settings) as spark:
        _watch(KeptQuery(lambda: start_pipeline(spark, options)), metrics, as_json=as_json)


def connection_options(path: Path) -> dict[str, str]:
    """What protects connections in a file of client properties, as options of the data source.

    Not resolved: what ``${file:…}`` stands for is read by the source itself, so Spark never has it. Errors: UsageError.
    """
    from pykraft.spark.data_source.options import OF_CONNECTIONS

    given = {f"kafka.{key}": value for key, value in read_properties(path, "--command-config").items()}
    return {key: value for key, value in given.items() if key.startswith(OF_CONNECTIONS)}


@pipeline.command()
@click.argument("file", type=value.NewFile())
def package(*, file: Path) -> None:
    """Write this package as a zip FILE for spark-submit --py-files."""
    from pykraft.spark.session.master import write_package

    write_package(file)


@pipeline.command()
@tables_option
@click.option(
    "--checkpoint",
    type=value.ExistingPath("give the --checkpoint of `pykraft pipeline run`", is_folder=True, may_be_uri=True),
    help="Folder of the stream's checkpoint, if it is not in --tables.",
)
@value.json_option
def status(*, root: Path, checkpoint: Path | None, as_json: bool) -> None:
    """Show how far the tables have got; a pipeline may be running."""
    with imported_for(COMMAND):
        from pykraft.spark.pipeline.status import pipeline_status
    found = pipeline_status(root, checkpoint)
    click.echo(json.dumps(asdict(found), indent=2) if as_json else _status_line(found))


@contextmanager
def _options_named() -> Iterator[None]:
    """Within this block, an error about an option of the data source names the command's option. Errors: UsageError."""
    try:
        yield
    except UsageError as error:
        text = str(error)
        for name, option in _OPTIONS.items():
            text = text.replace(f"the option {name} = ", f"{option} ")
        raise UsageError(text) from error


def _status_line(found: PipelineStatus) -> str:
    lines = [f"{found.table_format} tables, last micro-batch {'none' if found.batch_id is None else found.batch_id}"]
    rows = [
        (name, f"{table.rows:,}", f"{table.files:,}", f"{table.size_bytes / 1e6:,.1f}")
        for name, table in found.tables.items()
    ]
    lines += table_lines(("table", "rows", "files", "MB"), rows, width=terminal_width())
    lines.append("nothing is read yet" if found.source is None else f"read up to {json.dumps(found.source)}")
    return "\n".join(lines)


def _watch(query: KeptQuery, metrics: StreamMetrics, *, as_json: bool) -> None:
    """Report each micro-batch until the query ends. Errors: PykraftError with the reason if the query failed."""
    console = Console(stderr=True, highlight=False)
    rows, restarts, last_id = 0, 0, -1

    def print_progress() -> None:
        nonlocal rows, restarts, last_id
        if query.restarts > restarts:
            restarts = query.restarts
            console.print("a Spark process died; the query was restarted")
            metrics.note_restarts(restarts)
        for progress in query.progress():
            metrics.note(progress)
            last_id = progress["batchId"]
            rows += progress["numInputRows"]
            if as_json:
                click.echo(json.dumps(_line(progress)))
        if query.newest is not None:
            metrics.note(query.newest)

    with console.status("waiting for batches") as line:
        while not query.wait(POLL_S):
            print_progress()
            line.update(_written(rows, last_id))
    print_progress()
    console.print(f"written: {_written(rows, last_id)}")


def _written(rows: int, last_id: int) -> str:
    return f"{counted(rows, 'batch')} in {counted(last_id + 1, 'micro-batch')}"


def _line(progress: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "batch_id": progress["batchId"],
        "batches": progress["numInputRows"],
        "duration_ms": progress["durationMs"].get("triggerExecution"),
        "end": json.loads(progress["sources"][0]["endOffset"]),
    }


if TYPE_CHECKING:  # imported when the command runs, so that --help is quick
    from pykraft.spark.pipeline.report import PipelineReport, PipelineRun
    from pykraft.spark.pipeline.upkeep import PipelineUpkeep


@pipeline.command(short_help="Merge small files of the tables, and delete old ones.")
@click.option(
    "--tables",
    "root",
    required=True,
    type=value.ExistingPath("give the folder that `pykraft pipeline run` fills", is_folder=True, may_be_uri=True),
    help="Folder of the tables, or its URI.",
)
@click.option(
    "--target-size",
    "target_size_bytes",
    type=value.NumberType(int, 1),
    default=TARGET_SIZE_BYTES,
    metavar="BYTES",
    help="Size of the files that small ones become; 128 MiB by default.",
)
@click.option(
    "--retention-hours",
    type=value.NumberType(int, 0),
    default=RETENTION_HOURS,
    show_default=True,
    help="How long files that the tables no longer use stay, for readers that still do.",
)
@click.option("--allow-short-retention", is_flag=True, help="Allow less than 168 hours, since no reader takes longer.")
@value.json_option
def upkeep(
    *, root: Path, target_size_bytes: int, retention_hours: int, allow_short_retention: bool, as_json: bool
) -> None:
    """Merge small files of the Delta tables in order of replica and offset, and delete files that they no longer use.

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
        click.echo(json.dumps(asdict(found), indent=2))
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


@pipeline.command(short_help="Summarize the tables, as text or as a page with figures.")
@tables_option
@click.option("--replica", help="Read this replica's log; by default the one that reaches furthest.")
@click.option("--write", "is_written", is_flag=True, help="Also write the results to tables named gold_*.")
@click.option("--html", "page", type=value.NewFile(), help="Also write a page with figures; needs the extra plots.")
@click.option(
    "--beside",
    type=value.ExistingPath("give the folder of the tables of another run", is_folder=True, may_be_uri=True),
    help="Show these tables beside the others on the page.",
)
@value.json_option
def report(
    *, root: Path, replica: str | None, is_written: bool, page: Path | None, beside: Path | None, as_json: bool
) -> None:
    """Summarize the tables: totals, leaders and throughput; --html writes a page with figures and the tables' sizes."""
    if beside is not None and page is None:
        raise UsageError("--beside shows two runs on a page: give --html, too")
    with imported_for(COMMAND):
        from pykraft.spark.pipeline.report import PipelineRun, make_report, read_run
        from pykraft.spark.pipeline.status import pipeline_status
        from pykraft.spark.session.master import session_at, settings_at
        from pykraft.spark.tables.delta import DeltaTables
    write_page = None if page is None else _page_writer(page)
    status = pipeline_status(root)
    if beside is not None:
        pipeline_status(beside)  # report a wrong folder before Spark starts
    tables = DeltaTables(root)
    settings = settings_at("pykraft pipeline report")
    with session_at(settings) as spark, Console(stderr=True).status("asking Spark"):
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


def _leader(row: Mapping[str, Any]) -> tuple[str, ...]:
    begun = row["begun"].isoformat(" ", "milliseconds")
    gap = "" if row["gap_ms"] is None else str(row["gap_ms"])
    cells = (row["epoch"], row["leader_id"], row["first_offset"], row["last_offset"], begun, f"{row['records']:,}", gap)
    return tuple(map(str, cells))
