"""Whether memory stays flat while a quorum executes millions of commands of very many clients.

    python -m lab.benchmarks.flat_memory [--commands N] [--sessions N] [--samples N] [--limit-mib MIB] [--directory DIR]
        [--json FILE]

Three nodes in processes of their own. On each of them clients come one after the other: each opens a session, executes
its share of the commands, and never comes again; its session ends 60 s of log time later. Snapshots are written and
old segments deleted all the time.

After each part of the commands it notes for each node the resident memory, the open sessions, and the bytes of log and
snapshots on disk. The first quarter is warm-up: caches and pools fill, and no session has ended yet. Through the rest
it fits a line. The exit status is 1 if the line of any memory, log or snapshots rises by more than the limit; 8 MiB in
7.5 million commands is about one byte a command, or a hundred a session. With --json it also writes all samples.

Source: the fit is that of Theil and Sen, the median of the slopes of all pairs, so that single samples do not matter.
"""

import argparse
import asyncio
import gc
import json
import secrets
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import ceil
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from lab.benchmarks.machine_quorum import CALLERS_ID, KEY_SIZE_BYTES, NODES, NodeSetting, OtherProcess, quorum
from pykraft.config import LogSettings
from pykraft.machine import Replicated
from pykraft.machine.replica import CommandVerdict
from pykraft.machine.submission import Submission
from pykraft.server.run import SWITCH_INTERVAL_S, loop_factory

MIB: Final = 1 << 20
KEYS: Final = 10_000
SIZE_BYTES: Final = 100
LANES: Final = 8
"""Clients of a node at one time."""
TIMEOUT_MS: Final = 30_000
LOG: Final = LogSettings(
    segment_size_bytes=4 * MIB,
    snapshot_record_bytes_max=16 * MIB,
    retention_size_bytes_max=32 * MIB,
    clean_interval_ms=2_000,
    delete_delay_ms=1_000,
)
"""Small, so that each sample sees many snapshots and deleted segments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One node after so many commands and sessions of all nodes."""

    commands: int
    sessions: int
    node_id: int
    resident_mib: float
    open_sessions: int
    log_mib: float
    snapshots_mib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """How one figure of one node went, after the warm-up."""

    node_id: int
    figure: str
    median_mib: float
    risen_mib: float
    """By how much the fitted line rises."""


def trends(samples: Sequence[Sample]) -> list[Trend]:
    """The trends of all nodes. Needs four samples of each node, or more."""
    found = []
    for node_id in sorted({sample.node_id for sample in samples}):
        own = [sample for sample in samples if sample.node_id == node_id]
        own = own[len(own) // 4 :]
        span = own[-1].commands - own[0].commands
        for figure in ("resident_mib", "log_mib", "snapshots_mib"):
            points = [(sample.commands, getattr(sample, figure)) for sample in own]
            slopes = [(late[1] - early[1]) / (late[0] - early[0]) for early, late in combinations(points, 2)]
            found.append(
                Trend(
                    node_id=node_id,
                    figure=figure,
                    median_mib=statistics.median(value for _, value in points),
                    risen_mib=statistics.median(slopes) * span,
                )
            )
    return found


async def serve_clients(node: Replicated[Any], sessions: int, commands: int) -> tuple[int, int]:
    """Execute ``commands`` in each of ``sessions``; returns the resident bytes and the number of open sessions."""
    await asyncio.gather(*(clients(node, range(lane, sessions, LANES), commands) for lane in range(LANES)))
    gc.collect()
    return resident_bytes(), node._replica.sessions_count  # noqa: SLF001 - no metric has it


async def clients(node: Replicated[Any], sessions: range, commands: int) -> None:
    """One client after the other, each with a session of its own."""
    applier, forwarder = node._applier, node._forwarder  # noqa: SLF001 - a program has one session on its node
    submission: Submission[Any, Any] = Submission(node.node, applier, forwarder, secrets.token_bytes)

    async def execute(number: int) -> None:
        answer = await submission.execute(command_of(number), asyncio.get_running_loop().time(), TIMEOUT_MS)
        assert answer.verdict is CommandVerdict.APPLIED

    for session in sessions:
        first, *others = range(session * commands, (session + 1) * commands)
        await asyncio.gather(*map(execute, others))
        # It also says that the results of the others have come, so the session keeps one result.
        await execute(first)
        assert submission._session is not None  # noqa: SLF001 - as above
        submission._leave(submission._session)  # noqa: SLF001 - as above


def command_of(number: int) -> bytes:
    """One of `KEYS` commands."""
    return b"%0*d" % (KEY_SIZE_BYTES, number % KEYS) + bytes(SIZE_BYTES - KEY_SIZE_BYTES)


def resident_bytes() -> int:
    """The memory of this process that is in use now, unlike `lab.benchmarks.machine_quorum.memory_mib`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1_024
    raise AssertionError("Linux tells no VmRSS")


def size_mib(folder: Path, suffix: str) -> float:
    """What files of this kind take; some may go meanwhile."""
    sizes = 0
    for path in folder.rglob(f"*{suffix}"):
        try:
            sizes += path.stat().st_size
        except FileNotFoundError:
            continue
    return sizes / MIB


async def measure(folder: Path, chosen: argparse.Namespace) -> list[Sample]:
    """Execute everything, in parts; a sample of each node after each part."""
    sessions = max(1, ceil(chosen.sessions / (chosen.samples * NODES)))
    commands = max(2, ceil(chosen.commands / (chosen.samples * NODES * sessions)))
    found: list[Sample] = []
    columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("commands", total=chosen.samples * NODES * sessions * commands)
        async with quorum(NodeSetting(folder=folder, machine="bytes", log=LOG), leads=True) as (node, others):
            for part in range(1, chosen.samples + 1):
                asked = [serve_clients(node, sessions, commands)]
                asked += [ask_to_serve(other, sessions, commands) for other in others]
                for node_id, (resident, open_sessions) in enumerate(await asyncio.gather(*asked), CALLERS_ID):
                    own = folder / f"n{node_id}"
                    found.append(
                        Sample(
                            commands=part * NODES * sessions * commands,
                            sessions=part * NODES * sessions,
                            node_id=node_id,
                            resident_mib=resident / MIB,
                            open_sessions=open_sessions,
                            log_mib=size_mib(own, ".log"),
                            snapshots_mib=size_mib(own, ".checkpoint"),
                        )
                    )
                progress.update(bar, completed=found[-1].commands)
    return found


async def ask_to_serve(other: OtherProcess, sessions: int, commands: int) -> tuple[int, int]:
    """`serve_clients` on another node."""
    resident, open_sessions = await other.ask("act", serve_clients, sessions, commands)
    return resident, open_sessions


def main(chosen: argparse.Namespace) -> int:
    """Measure and judge; the exit status."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with (
        tempfile.TemporaryDirectory(dir=chosen.directory) as folder,
        asyncio.Runner(loop_factory=loop_factory("auto")) as runner,
    ):
        samples = runner.run(measure(Path(folder), chosen))
    found = trends(samples)
    last = samples[-1]
    print(f"{last.commands:,} commands in {last.sessions:,} sessions, of which {last.open_sessions:,} are open")
    for trend in found:
        print(
            f"node {trend.node_id}: {trend.figure.removesuffix('_mib'):>9} {trend.median_mib:>7.1f} MiB, "
            f"rises by {trend.risen_mib:>6.1f} MiB after the warm-up"
        )
    is_flat = all(trend.risen_mib <= chosen.limit_mib for trend in found)
    print(f"{'flat' if is_flat else 'NOT FLAT'}: the limit is {chosen.limit_mib:g} MiB")
    if chosen.json is not None:
        document = {"samples": [*map(asdict, samples)], "trends": [*map(asdict, found)], "is_flat": is_flat}
        chosen.json.write_text(json.dumps(document, indent=2) + "\n")
    return 0 if is_flat else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Whether memory stays flat over millions of commands.")
    parser.add_argument("--commands", type=int, default=10_000_000)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--samples", type=int, default=100, help="how often to look at all nodes; at least 4")
    parser.add_argument("--limit-mib", type=float, default=8.0, help="how much a fitted line may rise")
    parser.add_argument("--directory", type=Path, help="on the disk in question; a temporary folder by default")
    parser.add_argument("--json", type=Path, help="write all samples to this file, too")
    options = parser.parse_args()
    if options.samples < 4:
        parser.error("--samples: at least 4, so that a line can be fitted after the warm-up")
    sys.exit(main(options))
