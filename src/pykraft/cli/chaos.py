"""`pykraft chaos`: real nodes under load, real faults from one seed, and whether anything acknowledged was lost.

Owns what a person sees: on a terminal a bar and a line for each fault, elsewhere the lines; a table at the end. However
it ends, by Ctrl-C and SIGTERM too, the nodes end with it. When it fails the files are kept, and it says where they are
and how the same faults are done again.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pykraft.cli.interrupt import ended_by_sigterm
from pykraft.cli.json_option import json_option
from pykraft.errors import LocalQuorumError, UsageError

if TYPE_CHECKING:
    from pykraft.chaos.ground import ChaosOptions
    from pykraft.chaos.outcome import Done, Outcome
    from pykraft.chaos.plan import Kind
    from pykraft.local.kafka.java import Kafka

SEED_END: Final = 2**32
MIB: Final = 1024 * 1024


@click.command()
@click.option("--minutes", default=5.0, show_default=True, help="How long faults are done.")
@click.option("--seed", type=click.IntRange(0), help="Decides the faults and their order; drawn when it is not given.")
@click.option("--episodes", type=click.IntRange(1), help="End after so many, even if there is time left.")
@click.option("--nodes", default=3, show_default=True, help="Voters.")
@click.option("--quorum", type=click.Choice(["static", "dynamic"]), help="Its voters; by default the seed decides.")
@click.option("--only", metavar="KIND[,…]", help="Do these kinds of faults; see --plan for their names.")
@click.option("--without", metavar="KIND[,…]", help="Leave these kinds out.")
@click.option("--throughput", default=500, show_default=True, help="Records a second.")
@click.option("--record-size", default=100, show_default=True, help="Bytes of each record.")
@click.option("--java", "with_java", is_flag=True, help="The last voter is Kafka's TestRaftServer, and never leads.")
@click.option("--kafka-libs", type=click.Path(path_type=Path), help="Jars of a Kafka release; by default fetched.")
@click.option("--plan", "is_plan", is_flag=True, help="Print the kinds and the first episodes, and do nothing.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    default=tempfile.gettempdir,
    help="For logs and journal; a temporary folder by default.",
)
@json_option
def chaos(  # noqa: PLR0913 - one argument for each option
    *,
    minutes: float,
    seed: int | None,
    episodes: int | None,
    nodes: int,
    quorum: str | None,
    only: str | None,
    without: str | None,
    throughput: int,
    record_size: int,
    with_java: bool,
    kafka_libs: Path | None,
    is_plan: bool,
    folder: Path,
    as_json: bool,
) -> None:
    """Kill, freeze, fill, cut, slow down and wipe the nodes of a quorum under load; then look for every record.

    Exit code 0: nothing that was acknowledged is lost or doubled, and all logs are the same. The faults and their order
    come from the seed; when exactly they strike, and who leads then, does not.
    """
    from pykraft.chaos.ground import ChaosOptions
    from pykraft.server.workload import TELLING_SIZE_BYTES_MIN

    if record_size < TELLING_SIZE_BYTES_MIN:
        raise UsageError(f"--record-size {record_size}: give at least {TELLING_SIZE_BYTES_MIN}")
    if throughput < 1:
        raise UsageError(f"--throughput {throughput}: give at least 1")
    drawn = random.SystemRandom().randrange(SEED_END) if seed is None else seed
    drawn_quorum = "dynamic" if random.Random(drawn).random() < 0.5 and not with_java else "static"
    options = ChaosOptions(
        seed=drawn,
        seconds=minutes * 60,
        kinds=_kinds(only, without),
        episodes_max=episodes,
        nodes=nodes,
        is_dynamic=(quorum or drawn_quorum) == "dynamic",
        throughput=throughput,
        record_size_bytes=record_size,
        kafka=_kafka(kafka_libs) if with_java else None,
    )
    if is_plan:
        _print_plan(options)
        return
    if not folder.is_dir():
        raise UsageError(f"--dir {folder}: there is no such folder")
    outcome = _run(options, Path(tempfile.mkdtemp(prefix="pykraft-chaos-", dir=folder)))
    if as_json:
        click.echo(json.dumps(outcome.as_json(), indent=2))
    else:
        click.echo("\n".join(_lines(outcome)))


def _run(options: ChaosOptions, home: Path) -> Outcome:
    """Run it in this folder, which is kept when it fails."""
    from pykraft.chaos.run import run_chaos

    console = Console(stderr=True, highlight=False)
    console.print(_heading(options), markup=False, soft_wrap=True)
    try:
        with ended_by_sigterm(), _bar(console, options.seconds) as watcher:
            outcome = run_chaos(options, home, watcher)
    except UsageError:
        shutil.rmtree(home, ignore_errors=True)
        raise
    except BaseException as error:
        if isinstance(error, LocalQuorumError):
            console.print(f"the same faults again, though not at the same moments: {_again(options)}", soft_wrap=True)
        console.print(f"logs, journal and what the nodes said are in {home}", markup=False, soft_wrap=True)
        raise
    shutil.rmtree(home)
    return outcome


def _kinds(only: str | None, without: str | None) -> tuple[Kind, ...]:
    """Which kinds of faults are done. Errors: UsageError."""
    from pykraft.chaos.plan import Kind

    if only is not None and without is not None:
        raise UsageError("--only and --without: give one of them")
    names = {kind.value: kind for kind in Kind}
    given = [name.strip() for name in (only or without or "").split(",") if name.strip()]
    for name in given:
        if name not in names:
            option = "--without" if only is None else "--only"
            raise UsageError(f"{option} {name}: there is no such kind of fault; there are {', '.join(names)}")
    return tuple(kind for kind in Kind if (kind.value in given) == (only is not None))


def _kafka(libs: Path | None) -> Kafka:
    """Errors: UsageError when Kafka cannot be run here."""
    from pykraft.local.kafka import java

    return java.Kafka.find(libs)


def _heading(options: ChaosOptions) -> str:
    voters = "dynamic" if options.is_dynamic else "static"
    return f"seed {options.seed}: {options.nodes} {voters} voters, {options.throughput} records a second"


def _again(options: ChaosOptions) -> str:
    """The command that does the same faults in the same order."""
    from pykraft.chaos.plan import Kind

    words = ["pykraft", "chaos", "--seed", str(options.seed), "--minutes", f"{options.seconds / 60:g}"]
    words += ["--nodes", str(options.nodes), "--quorum", "dynamic" if options.is_dynamic else "static"]
    words += ["--throughput", str(options.throughput), "--record-size", str(options.record_size_bytes)]
    if options.kafka is not None:
        words += ["--java"]
    if options.episodes_max is not None:
        words += ["--episodes", str(options.episodes_max)]
    if len(options.kinds) < len(Kind):
        words += ["--only", ",".join(kind.value for kind in options.kinds)]
    return " ".join(words)


def _print_plan(options: ChaosOptions) -> None:
    """The kinds, and as many episodes as would fit into the time if nothing took longer than it must."""
    from pykraft.chaos.plan import MEANINGS

    click.echo(_heading(options))
    for kind in options.kinds:
        click.echo(f"  {kind.value:<16} {MEANINGS[kind]}")
    left_s = options.seconds
    for number, episode in enumerate(options.plan(), start=1):
        click.echo(f"{number:>4}  " + "; then ".join(map(str, episode)))
        left_s -= max(fault.ends_s for fault in episode) + 1
        if left_s <= 0:
            return


class _Lines:
    """Tells what happens: the bar where there is one, and a line for each fault."""

    def __init__(self, progress: Progress, seconds: float) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=seconds)

    def passing(self, text: str, elapsed_s: float) -> None:
        """See `pykraft.chaos.run.Watcher`."""
        self._progress.update(self._task, description=text, completed=elapsed_s)

    def done(self, fault: Done) -> None:
        """See `pykraft.chaos.run.Watcher`."""
        failover = "" if fault.failover_ms is None else f", fail-over {fault.failover_ms:,} ms"
        who = "all nodes" if fault.node_id is None else f"node {fault.node_id}"
        line = f"{fault.at_s:>7.1f} s  {fault.told} ({who}): pause {fault.pause_ms:,} ms{failover}"
        self._progress.console.print(line, markup=False, soft_wrap=True)


@contextmanager
def _bar(console: Console, seconds: float) -> Iterator[_Lines]:
    columns = (BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield _Lines(progress, seconds)


def _lines(outcome: Outcome) -> Sequence[str]:
    from pykraft.chaos.outcome import rows

    heads = ("fault", "times", "on the leader", "fail-over ms, median", "most", "longest pause ms")
    cells = [
        (
            row.kind,
            str(row.count),
            str(row.on_leader),
            _number(row.failover_median_ms),
            _number(row.failover_max_ms),
            _number(row.pause_max_ms),
        )
        for row in rows(outcome.faults)
    ]
    verdict = outcome.verdict
    faulty = f"{verdict.missing} missing, {verdict.duplicates} doubled, {verdict.steps_back} out of order"
    return [
        *_table(heads, cells),
        "",
        f"{outcome.episodes} episodes in {outcome.seconds:,.0f} s, {outcome.elections} elections",
        f"{verdict.acknowledged:,} records acknowledged: {faulty}; all logs identical",
        f"a node held {outcome.memory_max_bytes / MIB:,.0f} MiB at most",
    ]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The first column to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for first, *others in (heads, *rows):
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
