"""``pykraft quorum describe``: a verdict on the quorum, then the quorum and each replica; and Kafka's own two views.

``--watch`` draws over its last picture on a terminal, and elsewhere prints one after the other. Ages are those at the
leader. Kafka's views are those of ``kafka-metadata-quorum describe``, byte for byte. Invariant: every text that came
from the quorum is escaped.

Source: Kafka's ``MetadataQuorumCommand`` and ``ToolsUtils.prettyPrintTable``; KIP-595, KIP-836, KIP-853.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from pykraft.cli.client_options import ClientOptions, admin_of
from pykraft.cli.printable import printable
from pykraft.client.remote.admin import Admin
from pykraft.client.remote.leader_search import OnWaiting, do_not_tell
from pykraft.client.remote.quorum import (
    Health,
    Quorum,
    QuorumVerdict,
    ReplicaState,
    Role,
    age,
    age_ms,
    problem_of,
    verdict_on,
)
from pykraft.errors import QuorumUnavailableError
from pykraft.text.table import block_lines, folded
from pykraft.types import ZERO_UUID, uuid_text

LABEL_WIDTH: Final = 24
COLUMNS: Final = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)


def status_lines(found: Quorum) -> Iterator[str]:
    """``describe --status``."""
    for name, value in status_json(found).items():
        shown = json.dumps(value) if isinstance(value, list) else printable(str(value))
        label = f"{name[0].upper()}{name[1:]}:"
        yield f"{label:<{LABEL_WIDTH}}{shown}"


def status_json(found: Quorum) -> dict[str, Any]:
    """The same, for programs; the names are Kafka's labels."""
    return {
        "clusterId": found.cluster_id,
        "leaderId": found.leader_id,
        "leaderEpoch": found.epoch,
        "highWatermark": -1 if found.high_watermark is None else found.high_watermark,
        "maxFollowerLag": found.max_follower_lag,
        "maxFollowerLagTimeMs": found.max_follower_lag_ms,
        "currentVoters": [_node_json(each) for each in found.voters],
        "currentObservers": [_node_json(each) for each in found.observers],
    }


def _node_json(replica: ReplicaState) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": replica.key.id}
    if replica.key.directory_id is not None:
        shown["directoryId"] = uuid_text(replica.key.directory_id)
    if len(replica.listeners):
        shown["endpoints"] = [f"{name}://{endpoint}" for name, endpoint in replica.listeners]
    return shown


def row_json(found: Quorum, replica: ReplicaState) -> dict[str, Any]:
    """One row of ``describe --replication``; offsets and times (wall ms) are -1 if unknown."""
    return {
        "nodeId": replica.key.id,
        "directoryId": uuid_text(replica.key.directory_id or ZERO_UUID),
        "logEndOffset": replica.log_end_offset,
        "lag": found.lag(replica),
        "lastFetchTimestamp": replica.last_fetch_ms,
        "lastCaughtUpTimestamp": replica.last_caught_up_ms,
        "status": replica.role.value,
    }


def table(found: Quorum, now_ms: int | None = None) -> list[list[str]]:
    """``describe --replication`` as cells; with ``now_ms`` (wall), times are shown as ages."""
    rows = [list(COLUMNS)]
    for replica in found.replicas:
        shown = row_json(found, replica)
        if now_ms is not None:
            for name in ("lastFetchTimestamp", "lastCaughtUpTimestamp"):
                if shown[name] >= 0:
                    shown[name] = f"{now_ms - shown[name]} ms ago"
        rows.append([str(value) for value in shown.values()])
    return rows


def table_lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Cells as Kafka prints a table."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True))


PATIENCE_MS_MIN: Final = 1_000
"""A look of ``--watch`` waits at least this long for a leader, however often it looks."""
_COLOURS: Final = {Health.HEALTHY: "bold green", Health.AT_RISK: "bold yellow", Health.NO_LEADER: "bold red"}
_COLUMNS: Final = ("NodeId", "Status", "Endpoint", "LogEndOffset", "Lag", "LastFetch", "LastCaughtUp", "DirectoryId")


def print_overview(found: Quorum, *, as_json: bool) -> None:
    """Print a quorum that has a leader."""
    _show_below(Console(highlight=False), verdict_on(found), found, as_json=as_json)


def watch_overview(options: ClientOptions, watch_s: float, *, as_json: bool) -> None:
    """Look every ``watch_s`` seconds until a signal, or until nobody reads the output.

    Errors: UsageError, ForeignClusterError.
    """
    # A look does not wait for a leader much longer than until the next look, and says that there is none.
    patience_ms = min(options.timeout_ms, max(PATIENCE_MS_MIN, round(watch_s * 1_000)))
    hasty = replace(options, timeout_ms=patience_ms, request_timeout_ms=min(patience_ms, options.request_timeout_ms))
    console = Console(highlight=False)
    if as_json or not console.is_terminal:
        asyncio.run(_watch(hasty, watch_s, lambda *seen: _show_below(console, *seen, as_json=as_json, end="\n\n")))
        return
    with _Screen(console=console, auto_refresh=False) as live:

        def draw(verdict: QuorumVerdict, found: Quorum | None) -> None:
            live.update(_picture(console, verdict, found), refresh=True)

        def draw_wait(story: str | None) -> None:
            # What is drawn over may be shown before the look is given up.
            if story is not None:
                draw(_no_leader(story), None)

        asyncio.run(_watch(hasty, watch_s, draw, draw_wait))


class _Screen(Live):
    def refresh(self) -> None:
        """Draw the picture; not once more at the end, when the terminal shows it and then ^C."""
        if self.is_started:
            super().refresh()


async def _watch(
    options: ClientOptions,
    watch_s: float,
    show: Callable[[QuorumVerdict, Quorum | None], None],
    on_waiting: OnWaiting = do_not_tell,
) -> None:
    loop = asyncio.get_running_loop()
    async with admin_of(options, on_waiting) as admin:
        while True:
            begun_s = loop.time()
            show(*await _observe(admin))
            await asyncio.sleep(max(0.0, begun_s + watch_s - loop.time()))


async def _observe(admin: Admin) -> tuple[QuorumVerdict, Quorum | None]:
    try:
        found = await admin.describe_quorum(ask_voters=True)
    except QuorumUnavailableError as error:
        return _no_leader(error.story or str(error)), None
    return verdict_on(found), found


def _no_leader(story: str) -> QuorumVerdict:
    return QuorumVerdict(health=Health.NO_LEADER, detail=story)


def _show_below(
    console: Console, verdict: QuorumVerdict, found: Quorum | None, *, as_json: bool, end: str = "\n"
) -> None:
    if as_json:
        click.echo(json.dumps(overview_json(verdict, found)))
    else:
        console.print(_picture(console, verdict, found), soft_wrap=True, end=end)


def overview_json(verdict: QuorumVerdict, found: Quorum | None) -> dict[str, Any]:
    """One look, for programs: this machine's wall ms, the verdict, and Kafka's two views, null without a leader."""
    return {
        "timestamp": time.time_ns() // 1_000_000,
        "verdict": verdict.health.value,
        "detail": verdict.detail,
        "status": None if found is None else status_json(found),
        "replication": None if found is None else [row_json(found, each) for each in found.replicas],
    }


def _picture(console: Console, verdict: QuorumVerdict, found: Quorum | None) -> Text:
    picture = Text(overflow="fold")
    health = f"{verdict.health.value}:"
    lines = folded(f"{health} {printable(verdict.detail)}", console.width if console.is_terminal else None)
    picture.append(health, _COLOURS[verdict.health]).append("\n".join(lines)[len(health) :])
    if found is None:
        return picture
    picture.append("\n")
    status = status_json(found)
    for name in ("clusterId", "leaderId", "leaderEpoch", "highWatermark", "maxFollowerLag", "maxFollowerLagTimeMs"):
        label = f"{name[0].upper()}{name[1:]}:"
        picture.append(f"\n{label:<{LABEL_WIDTH}}", "dim").append(printable(str(status[name])))
    picture.append("\n")
    rows = [_row(found, each) for each in found.replicas]
    styles = list(_styles(found))
    last = len(_COLUMNS) - 1
    # On a narrow terminal the directory ids get a table of their own; on a very narrow one each replica gets a block.
    for spans in ([(0, last + 1)], [(0, last), (last, last + 1)]):
        tables = [_aligned([row[:1] + row[max(1, begin) : end] for row in (_COLUMNS, *rows)]) for begin, end in spans]
        if not console.is_terminal or max(len(line) for table in tables for line in table) <= console.width:
            for at, table in enumerate(tables):
                picture.append("\n" if at else "")
                for line, style in zip(table, ["dim", *styles], strict=True):
                    picture.append(f"\n{line}", style)
            return picture
    for row, style in zip(rows, styles, strict=True):
        for line in block_lines(_COLUMNS, [row]):
            picture.append(f"\n{line}", style)
    return picture


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _styles(found: Quorum) -> Iterator[str]:
    for replica in found.replicas:
        is_voter = replica.role is not Role.OBSERVER
        yield "bold" if replica.role is Role.LEADER else "yellow" if is_voter and problem_of(found, replica) else ""


def _row(found: Quorum, replica: ReplicaState) -> tuple[str, ...]:
    endpoint = next((str(endpoint) for _, endpoint in replica.listeners), "-")
    directory_id = replica.key.directory_id
    return (
        str(replica.key.id),
        replica.role.value,
        printable(endpoint),
        f"{replica.log_end_offset:,}" if replica.log_end_offset >= 0 else "-",
        f"{found.lag(replica):,}",
        _age(found, replica.last_fetch_ms),
        _age(found, replica.last_caught_up_ms),
        "-" if directory_id is None else uuid_text(directory_id),
    )


def _age(found: Quorum, wall_ms: int) -> str:
    return "never" if wall_ms < 0 else f"{age(age_ms(found, wall_ms))} ago"
