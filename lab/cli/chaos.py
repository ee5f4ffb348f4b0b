"""`pykraft chaos`: real nodes under load with faults drawn from one seed; checks that no acknowledged record is lost.

Prints a line for each fault, on a terminal also a bar, and a table at the end. However it ends, also by a
signal, it stops the nodes. When it fails, it keeps the files and prints where they are and how to repeat the faults.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pykraft.cli.parsing.value import DECIMAL, WHOLE, NumberType, OneOf, json_option, several_of
from pykraft.errors import LocalQuorumError, UsageError
from pykraft.text.table import table_lines, terminal_width
from pykraft.text.words import counted, did_you_mean

if TYPE_CHECKING:  # imported when the command runs, so that --help is quick
    from lab.chaos.ground import ChaosOptions
    from lab.chaos.plan import FaultKind
    from lab.chaos.run import ChaosOutcome, Done
    from lab.kafka.java import Kafka

SEED_END: Final = 2**32
MIB: Final = 1024 * 1024


def _kind_names() -> list[str]:
    from lab.chaos.plan import FaultKind

    return [kind.value for kind in FaultKind]


@click.command()
@click.option("--minutes", type=DECIMAL, default=5.0, show_default=True, help="Minutes to inject faults for.")
@click.option(
    "--seed", type=NumberType(int, 0), help="Seed that decides the faults and their order; random by default."
)
@click.option("--episodes", type=NumberType(int, 1), help="Stop after this many episodes, even if time is left.")
@click.option("--nodes", type=WHOLE, default=3, show_default=True, help="Number of voters.")
@click.option(
    "--quorum", type=OneOf(["static", "dynamic"]), help="Static or dynamic voters; by default the seed decides."
)
@click.option(
    "--only",
    metavar="KIND[,…]",
    shell_complete=several_of(_kind_names),
    help="Inject only these kinds of faults; --plan lists them.",
)
@click.option(
    "--without",
    metavar="KIND[,…]",
    shell_complete=several_of(_kind_names),
    help="Inject all kinds of faults except these.",
)
@click.option("--throughput", type=WHOLE, default=500, show_default=True, help="Records written per second.")
@click.option("--record-size", type=WHOLE, default=100, show_default=True, help="Size of each record, in bytes.")
@click.option(
    "--java",
    "with_java",
    is_flag=True,
    help="Run Kafka's TestRaftServer as the last voter; it is kept from becoming the leader.",
)
@click.option(
    "--kafka-libs",
    type=click.Path(path_type=Path),
    help="Folder with the jars of a Kafka release; by default they are downloaded.",
)
@click.option("--plan", "is_plan", is_flag=True, help="Print the kinds of faults and the first episodes, then exit.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    default=tempfile.gettempdir,
    help="Folder in which to keep logs and journal during the run; by default the system's folder for temporary files.",
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
    """Kill, freeze, disconnect, fill, slow down and wipe the nodes of a quorum under load, then check every record.

    Some faults need root, such as power cuts; the first lines say which are left out, and why.

    Exit status 0 means that no acknowledged record was lost or duplicated, and that all logs are identical. The seed
    decides the faults and their order, but not their exact timing, nor which node leads at the time.
    """
    from lab.chaos.ground import ChaosOptions
    from pykraft.server.workload import TELLING_SIZE_BYTES_MIN

    if record_size < TELLING_SIZE_BYTES_MIN:
        raise UsageError(f"--record-size {record_size}: give at least {TELLING_SIZE_BYTES_MIN}")
    if throughput < 1:
        raise UsageError(f"--throughput {throughput}: give at least 1")
    if not folder.is_dir():
        raise UsageError(f"--dir {folder}: there is no such folder")
    drawn = random.SystemRandom().randrange(SEED_END) if seed is None else seed
    drawn_quorum = "dynamic" if random.Random(drawn).random() < 0.5 and not with_java else "static"
    is_dynamic = (quorum or drawn_quorum) == "dynamic"
    kinds = _kinds(only, without)
    absent = _left_out(kinds, folder, is_dynamic=is_dynamic, is_named=only is not None)
    options = ChaosOptions(
        seed=drawn,
        seconds=minutes * 60,
        kinds=tuple(kind for kind in kinds if kind not in absent),
        episodes_max=episodes,
        nodes=nodes,
        is_dynamic=is_dynamic,
        throughput=throughput,
        record_size_bytes=record_size,
        kafka=_kafka(kafka_libs) if with_java else None,
        left_out=absent,
    )
    if is_plan:
        _print_plan(options)
        return
    outcome = _run(options, folder)
    if as_json:
        click.echo(json.dumps(outcome.as_json(), indent=2))
    else:
        click.echo("\n".join(_lines(outcome)))


def _run(options: ChaosOptions, folder: Path) -> ChaosOutcome:
    """Run in a new folder below this one; keep it when the run fails."""
    from lab.chaos.run import run_chaos
    from pykraft.local.child import temporary_folder

    def is_kept(error: BaseException | None) -> bool:
        if not isinstance(error, Exception) or isinstance(error, UsageError):
            return False
        if isinstance(error, LocalQuorumError):
            console.print(f"to repeat the same faults, with different timing: {_again(options)}", soft_wrap=True)
        console.print(f"logs, journal and the nodes' output are in {home}", markup=False, soft_wrap=True)
        return True

    console = Console(stderr=True, highlight=False)
    console.print("\n".join(_heading(options)), markup=False, soft_wrap=True)
    # The folder's block is the inner one: on a closed terminal the end of the bar raises an error of its own.
    bar = _bar(console, options.seconds)
    with bar as watcher, temporary_folder("pykraft-chaos-", folder, is_kept=is_kept) as home:
        return run_chaos(options, home, watcher)


def _kinds(only: str | None, without: str | None) -> tuple[FaultKind, ...]:
    """The kinds of faults to inject. Errors: UsageError."""
    from lab.chaos.plan import FaultKind

    if only is not None and without is not None:
        raise UsageError("--only and --without: give one of them")
    names = {kind.value: kind for kind in FaultKind}
    given = [name.strip() for name in (only or without or "").split(",") if name.strip()]
    for name in given:
        if name not in names:
            option = "--without" if only is None else "--only"
            hint = did_you_mean(name, names)
            raise UsageError(f"{option} {name}: there is no such kind of fault; the kinds are {', '.join(names)}{hint}")
    return tuple(kind for kind in FaultKind if (kind.value in given) == (only is not None))


def _kafka(libs: Path | None) -> Kafka:
    """Errors: UsageError when Kafka cannot be run here."""
    from lab.kafka import java

    return java.Kafka.find(libs)


def _left_out(kinds: Sequence[FaultKind], folder: Path, *, is_dynamic: bool, is_named: bool) -> Mapping[FaultKind, str]:
    """Kinds that cannot be injected here, and why. Errors: UsageError if the command line names one of them."""
    from lab.chaos.loop_disks import left_out

    found = left_out(kinds, folder, is_dynamic=is_dynamic)
    if is_named:
        for kind, why in found.items():
            raise UsageError(f"--only {kind.value}: {why}")
    return found


def _heading(options: ChaosOptions) -> Sequence[str]:
    voters = "dynamic" if options.is_dynamic else "static"
    load = f"{counted(options.throughput, 'record')} per second"
    absent = [f"left out: {kind.value}: {why}" for kind, why in options.left_out.items()]
    return [f"seed {options.seed}: {counted(options.nodes, f'{voters} voter')}, {load}", *absent]


def _again(options: ChaosOptions) -> str:
    from lab.chaos.plan import FaultKind

    words = ["pykraft", "chaos", "--seed", str(options.seed), "--minutes", f"{options.seconds / 60:g}"]
    words += ["--nodes", str(options.nodes), "--quorum", "dynamic" if options.is_dynamic else "static"]
    words += ["--throughput", str(options.throughput), "--record-size", str(options.record_size_bytes)]
    if options.kafka is not None:
        words += ["--java"]
    if options.episodes_max is not None:
        words += ["--episodes", str(options.episodes_max)]
    if len(options.kinds) < len(FaultKind):
        words += ["--only", ",".join(kind.value for kind in options.kinds)]
    return " ".join(words)


def _print_plan(options: ChaosOptions) -> None:
    """Print the kinds, and as many episodes as fit into the time if each takes its minimum."""
    click.echo("\n".join(_heading(options)))
    for kind in options.kinds:
        click.echo(f"  {kind.value:<16} {kind.meaning}")
    left_s = options.seconds
    for number, episode in enumerate(options.plan(), start=1):
        click.echo(f"{number:>4}  " + "; then ".join(map(str, episode)))
        left_s -= max(fault.ends_s for fault in episode) + 1
        if left_s <= 0:
            return


class _Lines:
    """Shows progress: the bar, if there is one, and a line for each fault."""

    def __init__(self, progress: Progress, seconds: float) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=seconds)

    def passing(self, text: str, elapsed_s: float) -> None:
        self._progress.update(self._task, description=text, completed=elapsed_s)

    def done(self, fault: Done) -> None:
        failover = "" if fault.failover_ms is None else f", fail-over {fault.failover_ms:,} ms"
        who = "all nodes" if fault.node_id is None else f"node {fault.node_id}"
        line = f"{fault.at_s:>7.1f} s  {fault.told} ({who}): pause {fault.pause_ms:,} ms{failover}"
        self._progress.console.print(line, markup=False, soft_wrap=True)


@contextmanager
def _bar(console: Console, seconds: float) -> Iterator[_Lines]:
    columns = (BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield _Lines(progress, seconds)


def _lines(outcome: ChaosOutcome) -> Sequence[str]:
    from lab.chaos.run import rows

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
    faulty = f"{verdict.missing} missing, {verdict.duplicates} duplicated, {verdict.steps_back} out of order"
    return [
        *table_lines(heads, cells, width=terminal_width()),
        "",
        f"{counted(outcome.episodes, 'episode')} in {outcome.seconds:,.0f} s, {counted(outcome.elections, 'election')}",
        f"{counted(verdict.acknowledged, 'record')} acknowledged: {faulty}; all logs identical",
        f"peak memory of a node: {outcome.memory_max_bytes / MIB:,.0f} MiB",
    ]


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
