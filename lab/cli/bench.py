"""`pykraft bench`: measurements of whole quorums that anyone can repeat on their own machine.

- ``raft`` compares pykraft with Kafka, by turns; it prints the current run on a terminal's last line (elsewhere one
  line per run), and tables at the end.
- ``join`` measures what it costs a quorum when a new node joins through a large snapshot.
- ``transfer`` measures how long a leadership transfer from voter to voter takes.

Invariant: however a command ends, also by a signal, it stops the nodes and removes their files.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from rich.console import Console
from rich.markup import escape
from rich.status import Status

from pykraft.cli.parsing.group import Group
from pykraft.cli.parsing.value import DECIMAL, WHOLE, OneOf, json_option
from pykraft.errors import LocalQuorumError, UsageError
from pykraft.text.table import terminal_width
from pykraft.text.words import about, counted

if TYPE_CHECKING:  # imported when the command runs, so that --help is quick
    from lab.bench.join import Joined
    from lab.bench.measure import Contender
    from lab.bench.transfer import Transferred
    from pykraft.local.child import Children

T = TypeVar("T")
NAME_WIDTH: Final = 19
START_S: Final = 10.0
TRANSFER_S: Final = 1.5
"""A transfer with the load before it."""

throughput_option = click.option(
    "--throughput", type=WHOLE, default=2_000, show_default=True, help="Records written per second."
)
record_size_option = click.option(
    "--record-size", type=WHOLE, default=100, show_default=True, help="Size of each record, in bytes."
)
folder_option = click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    default=tempfile.gettempdir,
    help="Folder in which to keep the logs during the run; by default the system's folder for temporary files.",
)


@click.group(cls=Group)
def bench() -> None:
    """Run benchmarks on local quorums. A machine's speed varies over time, so only compare runs that took turns."""


@bench.command("raft")
@click.option("--nodes", type=WHOLE, default=3, show_default=True, help="Number of voters.")
@click.option(
    "--record-size", "sizes", default="100,256,1024", show_default=True, help="Record sizes to measure, in bytes."
)
@click.option(
    "--throughput",
    default="max",
    show_default=True,
    help="Records per second, or max for the highest rate that each sustains.",
)
@click.option("--seconds", type=DECIMAL, default=10.0, show_default=True, help="Measured seconds of each run.")
@click.option(
    "--warm-up", type=DECIMAL, default=8.0, show_default=True, help="Seconds of load before the measurement starts."
)
@click.option(
    "--runs", type=WHOLE, default=3, show_default=True, help="Number of runs of each; pykraft and Kafka take turns."
)
@click.option(
    "--linger-ms",
    type=WHOLE,
    default=25,
    show_default=True,
    help="How long the leader waits for more records before it writes, in ms.",
)
@click.option(
    "--dir",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Folder in which to keep the logs during a run; may be repeated.",
)
@click.option(
    "--peer",
    type=OneOf(["kafka", "appenders", "none"]),
    default="kafka",
    show_default=True,
    help="What to compare with; appenders are processes that only append and sync, the limit of the disk.",
)
@click.option(
    "--kafka-libs",
    type=click.Path(path_type=Path),
    help="Folder with the jars of a Kafka release; by default they are downloaded.",
)
@json_option
def bench_raft(  # noqa: PLR0913 - one argument for each option
    *,
    nodes: int,
    sizes: str,
    throughput: str,
    seconds: float,
    warm_up: float,
    runs: int,
    linger_ms: int,
    folders: tuple[Path, ...],
    peer: str,
    kafka_libs: Path | None,
    as_json: bool,
) -> None:
    """Compare pykraft and Kafka's TestRaftServer in turn: committed records per second, latency, CPU and memory.

    Kafka's load thread dies when it is asked for more records than it can write. So --throughput max first searches
    for the highest rate that Kafka sustains, which takes some minutes.
    """
    from lab.bench.appenders import Appenders
    from lab.bench.comparison import compare, document_of, failures, report
    from lab.bench.measure import machine, require_proc
    from lab.bench.options import BenchOptions, parse_sizes, parse_throughput
    from lab.bench.race import Race

    options = BenchOptions(
        nodes=nodes,
        record_sizes_bytes=parse_sizes(sizes),
        records_per_s=parse_throughput(throughput),
        seconds=seconds,
        warm_up_s=warm_up,
        runs=runs,
        linger_ms=linger_ms,
        folders=tuple(dict.fromkeys(folders)) or (Path(tempfile.gettempdir()),),
    )
    require_proc()
    contenders = _contenders(peer, kafka_libs)
    last = contenders[-1]
    measure_run = last.run_in_same_groups() if isinstance(last, Appenders) else None
    console = Console(stderr=True, highlight=False)
    searched = [each.name for each in contenders if each.breaks_when_overloaded]
    console.print(options.plan(contenders=len(contenders), searched=searched), soft_wrap=True)
    with console.status("") as status:
        laps = Race(options, contenders, ProgressLines(console, status), measure_run).laps()
    comparisons = compare(laps)
    if as_json:
        click.echo(json.dumps(document_of(options, comparisons, laps), indent=2, default=str))
    else:
        click.echo(report(comparisons, machine(), width=terminal_width()))
    failed = failures(comparisons)
    for text in failed:
        console.print(f"[red]FAILED[/red] {escape(text)}", soft_wrap=True)
    if failed:
        raise SystemExit(1)


class ProgressLines:
    """Prints each result on a line, and what is running on a terminal's last one. See `lab.progress.ReportProgress`."""

    def __init__(self, console: Console, status: Status) -> None:
        self._console = console
        self._status = status

    def __call__(self, text: str, *, is_passing: bool = False) -> None:
        self._status.update(escape(text))
        if not is_passing:
            self._console.print(escape(text), soft_wrap=True)


def _contenders(peer: str, kafka_libs: Path | None) -> list[Contender]:
    """Errors: UsageError when Kafka cannot be run here."""
    from lab.bench.appenders import Appenders
    from lab.bench.quorums import Ours

    if peer != "kafka":
        if kafka_libs is not None:
            raise UsageError(f"--kafka-libs {kafka_libs}: with --peer {peer} there is no Kafka to run")
        return [Ours(), *([Appenders()] if peer == "appenders" else [])]
    from lab.bench.quorums import Java
    from lab.kafka.jars import KafkaUnavailableError
    from lab.kafka.java import Kafka

    try:
        return [Ours(), Java(Kafka.find(kafka_libs))]
    except KafkaUnavailableError as error:
        raise UsageError(f"{error}; or measure pykraft alone with --peer none") from error


@bench.command("join")
@click.option("--snapshot-mib", type=WHOLE, default=1_024, show_default=True, help="Size of the snapshot, in MiB.")
@throughput_option
@record_size_option
@click.option(
    "--seconds", type=DECIMAL, default=15.0, show_default=True, help="Seconds to measure commits before the node joins."
)
@folder_option
@json_option
def bench_join(
    *, snapshot_mib: int, throughput: int, record_size: int, seconds: float, folder: Path, as_json: bool
) -> None:
    """Add a node that needs a snapshot to a quorum of three under load; measure memory and commit latency.

    Exits with 1 if the new node or the leader uses 150 MiB or more, or if the p99 commit latency is more than three
    times what it was before the node joined.
    """
    from lab.bench.join import JoinOptions, failures, join
    from lab.bench.measure import require_proc

    options = JoinOptions(
        snapshot_mib=snapshot_mib,
        records_per_s=throughput,
        record_size_bytes=record_size,
        before_s=seconds,
        folder=folder,
    )
    require_proc()
    plan = f"{seconds:g} s of load, then a node joins with a snapshot of {snapshot_mib:,} MiB: a minute or a few in all"
    joined = run_in(folder, lambda children, home: join(children, home, options), plan=plan)
    document = {**asdict(joined), "slowdown": round(joined.slowdown, 3)}
    print_figures(document, _join_lines(joined), failures(joined), as_json=as_json)


def _join_lines(joined: Joined) -> dict[str, str]:
    size_mib, rate_mb = joined.snapshot_size_bytes / 2**20, joined.snapshot_size_bytes / joined.download_s / 1e6
    took = f"{joined.download_s:.1f} s ({rate_mb:,.0f} MB/s), {joined.caught_up_s:.1f} s more for the log"
    leader = f"{joined.leader_memory_mib:.0f} MiB leader ({joined.leader_memory_before_mib:.0f} before)"
    before = f"p50 {joined.before_ms['p50']:.0f} ms, p99 {joined.before_ms['p99']:.0f} ms"
    during = f"p50 {joined.during_ms['p50']:.0f} ms, p99 {joined.during_ms['p99']:.0f} ms"
    return {
        "snapshot": f"{size_mib:,.0f} MiB in {took}",
        "peak memory": f"{joined.joiner_memory_mib:.0f} MiB new node, {leader}",
        "commits before": before,
        "commits during": f"{during}: p99 × {joined.slowdown:.2f}",
        "acknowledged": f"{counted(joined.acknowledged, 'record')}, none missing",
    }


@bench.command("transfer")
@click.option("--nodes", type=WHOLE, default=5, show_default=True, help="Number of voters.")
@click.option("--runs", type=WHOLE, default=15, show_default=True, help="Number of transfers.")
@throughput_option
@record_size_option
@folder_option
@json_option
def bench_transfer(*, nodes: int, runs: int, throughput: int, record_size: int, folder: Path, as_json: bool) -> None:
    """Transfer leadership from voter to voter under load; measure how long it takes and how long commits pause.

    Exits with 1 if the median transfer takes 200 ms or more.
    """
    from lab.bench.transfer import TransferOptions, failures, transfer

    options = TransferOptions(
        nodes=nodes, runs=runs, records_per_s=throughput, record_size_bytes=record_size, folder=folder
    )
    plan = f"{counted(runs, 'transfer')} on a quorum of {counted(nodes, 'node')}: {about(runs * TRANSFER_S + START_S)}"
    transferred = run_in(folder, lambda children, home: transfer(children, home, options), plan=plan)
    print_figures(asdict(transferred), _transfer_lines(transferred), failures(transferred), as_json=as_json)


def _transfer_lines(transferred: Transferred) -> dict[str, str]:
    return {
        "until it leads": _spread(transferred.took_ms),
        "nothing committed": _spread(transferred.pause_ms),
        "went elsewhere": f"{transferred.missed} of {transferred.missed + len(transferred.took_ms)}",
        "acknowledged": f"{counted(transferred.acknowledged, 'record')}, none missing",
    }


def _spread(values_ms: Sequence[float]) -> str:
    if not values_ms:
        return "never"
    least, median, most = min(values_ms), statistics.median(values_ms), max(values_ms)
    return f"{least:.0f} / {median:.0f} / {most:.0f} ms (minimum, median, maximum)"


def run_in(folder: Path, measure: Callable[[Children, Path], T], *, plan: str) -> T:
    """Call ``measure`` with a new folder below ``folder``, remove that folder, and return the result.

    ``plan`` says beforehand what happens, and for how long.

    Errors: LocalQuorumError, after the ends of the nodes' logs were printed.
    """
    from pykraft.local.child import Children, temporary_folder

    click.echo(plan, err=True)
    with temporary_folder("pykraft-bench-", folder) as home, Children() as children:
        try:
            return measure(children, home)
        except LocalQuorumError:
            click.echo(children.log_ends(), err=True)
            raise


def print_figures(
    document: Mapping[str, Any], lines: Mapping[str, str], failures: Sequence[str], *, as_json: bool
) -> None:
    """Print the document with the machine, or the lines; then each exceeded limit, and exit with 1 if there is one."""
    from lab.bench.measure import machine

    if as_json:
        click.echo(json.dumps({**document, "failures": failures, "machine": machine()}, indent=2))
    else:
        click.echo("\n".join(f"{name:<{NAME_WIDTH}}{text}" for name, text in lines.items()))
    for text in failures:
        click.echo(f"FAILED {text}", err=True)
    if failures:
        raise SystemExit(1)
