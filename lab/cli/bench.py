"""`pykraft bench raft` compares pykraft with Kafka, by turns, as anyone can repeat it on their own machine.

It prints the current run on a terminal's last line (elsewhere one line per run), and tables at the end. Invariant:
however it ends, also by a signal, it stops the nodes and removes their files.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape
from rich.status import Status

from pykraft.cli.parsing.group import Group
from pykraft.cli.parsing.value import DECIMAL, WHOLE, OneOf, json_option
from pykraft.errors import UsageError
from pykraft.text.table import terminal_width

if TYPE_CHECKING:  # imported when the command runs, so that --help is quick
    from lab.bench.measure import Contender


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
@click.option("--peer", type=OneOf(["kafka", "none"]), default="kafka", show_default=True, help="What to compare with.")
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
    console = Console(stderr=True, highlight=False)
    searched = [each.name for each in contenders if each.breaks_when_overloaded]
    console.print(options.plan(contenders=len(contenders), searched=searched), soft_wrap=True)
    with console.status("") as status:
        laps = Race(options, contenders, ProgressLines(console, status)).laps()
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
    from lab.bench.quorums import Ours

    if peer != "kafka":
        if kafka_libs is not None:
            raise UsageError(f"--kafka-libs {kafka_libs}: with --peer {peer} there is no Kafka to run")
        return [Ours()]
    from lab.bench.quorums import Java
    from lab.kafka.jars import KafkaUnavailableError
    from lab.kafka.java import Kafka

    try:
        return [Ours(), Java(Kafka.find(kafka_libs))]
    except KafkaUnavailableError as error:
        raise UsageError(f"{error}; or measure pykraft alone with --peer none") from error
