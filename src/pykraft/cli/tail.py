"""``pykraft tail``: the committed records of a live quorum, as lines, from any offset and as they come.

Owns the two renderings and how it ends: at the high watermark of its start, after so many records, by Ctrl-C, or
because nobody reads its output any more; all of these are good ends. It refuses to know how a quorum is read
(`pykraft.client.observer`).

A line is: offset, tab, epoch, tab, time of the append (UTC), tab, value. What does not print is escaped.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import click

from pykraft.cli.client_options import TIMEOUT_S, ClientOptions, client_options
from pykraft.cli.printable import printable
from pykraft.client.leader_fetch import Patience
from pykraft.client.observer import Observer, Start
from pykraft.errors import ProtocolError, UsageError
from pykraft.host.delivery import CommittedBatch
from pykraft.log.dump_batches import control_json
from pykraft.protocol.records import Record, decode_records, decode_values
from pykraft.types import Offset

OFFSET_MAX: Final = 2**63 - 1
_COMPACT: Final = json.JSONEncoder(separators=(",", ":"))

Render: TypeAlias = Callable[[CommittedBatch, Record], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be printed, and until when; ``records_max`` None is no bound."""

    start: Start | Offset
    is_followed: bool
    records_max: int | None
    with_control: bool
    render: Render


@click.command(short_help="Print the records of a live quorum.")
@click.option("--bootstrap-controller", required=True, metavar="LIST", help="Nodes to begin with: host:port,…")
@click.option("--from", "start", default="earliest", show_default=True, help="earliest, latest or an offset.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what will be committed; Ctrl-C ends it.")
@click.option("--max-records", type=click.IntRange(min=1), help="End after so many records.")
@click.option("--print-control", is_flag=True, help="Print the records of Raft itself, too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, values in base64.")
@click.option("--command-config", type=click.Path(path_type=Path), help="Properties for the client, as Kafka's.")
@click.option("--timeout", type=float, help=f"Seconds to wait when nobody leads.  [default: {TIMEOUT_S:g}]")
def tail(
    *,
    bootstrap_controller: str,
    start: str,
    follow: bool,
    max_records: int | None,
    print_control: bool,
    as_json: bool,
    command_config: Path | None,
    timeout: float | None,
) -> None:
    """Print committed records, one a line: offset, epoch, time, value. Without --follow it ends where the log ends now.

    It reads as an observer without an id: the quorum does not count it, and a leader that dies is replaced.
    """
    options = client_options(
        controllers=bootstrap_controller,
        servers=None,
        command_config=command_config,
        timeout_s=timeout,
        client_id="pykraft-tail",
    )
    wanted = Wanted(
        start=parse_start(start),
        is_followed=follow,
        records_max=max_records,
        with_control=print_control,
        render=json_line if as_json else text_line,
    )
    try:
        asyncio.run(_print(options, wanted))
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        # Nobody reads any more; the interpreter must not try once again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parse_start(text: str) -> Start | Offset:
    """``earliest``, ``latest`` or an offset. Errors: UsageError."""
    if text in {each.value for each in Start}:
        return Start(text)
    if not re.fullmatch("[0-9]{1,19}", text) or int(text) > OFFSET_MAX:
        raise UsageError(f"--from {text}: give earliest, latest or an offset from 0 to {OFFSET_MAX}")
    return Offset(int(text))


async def _print(options: ClientOptions, wanted: Wanted) -> None:
    patience = Patience(timeout_ms=options.timeout_ms, request_timeout_ms=options.request_timeout_ms)
    observer = Observer(options.bootstrap, start=wanted.start, client_id=options.client_id, patience=patience)
    async with observer:
        first_offset = await observer.begin()
        end_offset = None if wanted.is_followed else observer.high_watermark
        left = wanted.records_max
        if end_offset is not None and first_offset >= end_offset:
            return
        async for batch in observer:
            lines = list(_lines(batch, first_offset, wanted))[:left]
            if lines:
                click.echo("\n".join(lines))
            if left is not None:
                left -= len(lines)
            if left == 0 or (end_offset is not None and batch.end_offset >= end_offset):
                return


def _lines(batch: CommittedBatch, first_offset: Offset, wanted: Wanted) -> Iterator[str]:
    """The records of a batch that are wanted. Errors: ProtocolError for records that cannot be read."""
    if batch.is_control and not wanted.with_control:
        return
    for record in _records(batch):
        if record.offset >= first_offset:
            yield wanted.render(batch, record)


def _records(batch: CommittedBatch) -> Sequence[Record]:
    """The records of a batch: of a data batch that KRaft wrote quickly, of any other one with care.

    Errors: ProtocolError for records that cannot be read.
    """
    values = None
    if not batch.is_control:
        with suppress(ProtocolError):
            values = decode_values(batch.data)
    if values is None:
        try:
            return decode_records(batch.data, verify_crc=False)
        except ProtocolError as error:
            raise ProtocolError(f"the batch at offset {batch.base_offset}: {error}", error.code) from error
    return [
        Record(Offset(offset), batch.timestamp_ms, sequence=-1, key=None, value=value)
        for offset, value in enumerate(values, batch.base_offset)
    ]


def text_line(batch: CommittedBatch, record: Record) -> str:
    """One record for people."""
    if batch.is_control:
        name, body = control_json(record)
        shown = f"{name} {printable(body) if isinstance(body, str) else _COMPACT.encode(body)}"
    else:
        shown = "null" if record.value is None else printable(record.value)
    return f"{record.offset}\t{batch.epoch}\t{in_utc(record.timestamp_ms)}\t{shown}"


def json_line(batch: CommittedBatch, record: Record) -> str:
    """One record for programs; the time is wall ms."""
    shown: dict[str, Any] = {"offset": record.offset, "epoch": batch.epoch, "timestamp": record.timestamp_ms}
    if batch.is_control:
        name, body = control_json(record)
        return _COMPACT.encode(shown | {"control": {name: body}})
    if record.key is not None:
        shown["keyBase64"] = base64.b64encode(record.key).decode("ascii")
    shown["valueBase64"] = None if record.value is None else base64.b64encode(record.value).decode("ascii")
    return _COMPACT.encode(shown)


def in_utc(wall_ms: int) -> str:
    """A time as a person reads it; one that no calendar has stays a number."""
    try:
        moment = datetime.fromtimestamp(wall_ms / 1_000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(wall_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
