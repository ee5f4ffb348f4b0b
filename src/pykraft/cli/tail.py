"""``pykraft tail``: print the committed records of a live quorum, from any offset on, and new ones as they commit.

A line is: offset, tab, epoch, tab, time of the append (UTC), tab, value. Unprintable characters are escaped. The values
of a quorum of Kafka's controllers are decoded. A record of a snapshot has no offset of its own; it is shown as
``<157``, which means below the end offset of the snapshot.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pykraft.cli.client_options import (
    ClientOptions,
    client_options,
    command_config_option,
    controllers_option,
    timeout_option,
)
from pykraft.cli.metadata_values import decoder_option, known_types, metadata_json, metadata_text, metadata_type
from pykraft.cli.parsing.value import NumberType, json_lines_option, start_option
from pykraft.cli.printable import WaitingLine, printable
from pykraft.client.reader import StateReader
from pykraft.client.remote.observer import Observer, Start
from pykraft.config import METADATA_TOPIC_NAME
from pykraft.errors import ProtocolError, UsageError
from pykraft.host.delivery import CommittedBatch
from pykraft.log.offline.dump import control_json
from pykraft.protocol.records import Record, decode_records, decode_values
from pykraft.snapshot.files import stem_of
from pykraft.types import Buffer, Offset, OffsetAndEpoch

if TYPE_CHECKING:  # imported for --since alone
    from pykraft.spark.metadata.directory import Moment

OFFSET_MAX: Final = 2**63 - 1
NO_OP: Final = "NO_OP_RECORD"
_COMPACT: Final = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TailOptions:
    """What to print, and until when; ``records_max`` None is no limit."""

    start: Start | Offset
    is_followed: bool
    records_max: int | None
    with_control: bool
    with_snapshot: bool
    decodes: bool | None
    """None: where the topic is that of Kafka's controllers."""
    types: frozenset[str]
    """Types of Kafka's metadata records; none: all."""
    excluded: frozenset[str]
    since: Moment | None
    as_json: bool

    def is_recent(self, offset: Offset, wall_ms: int) -> bool:
        """Whether a record is later than `since`."""
        return self.since is None or not self.since.includes(offset, wall_ms)

    def form(self, topic_name: str) -> Form:
        """How records of this topic are printed. Errors: UsageError when their types are not known."""
        decodes = topic_name == METADATA_TOPIC_NAME if self.decodes is None else self.decodes
        if self.types and not decodes:
            raise UsageError(f"--type is for Kafka's metadata records, and those of {topic_name} are not decoded")
        form = _JsonForm if self.as_json else _TextForm
        return form(decodes=decodes, types=self.types, excluded=self.excluded)


class Form(ABC):
    """Renders records as lines."""

    def __init__(
        self, *, decodes: bool, types: frozenset[str] = frozenset(), excluded: frozenset[str] = frozenset()
    ) -> None:
        self._decodes = decodes
        self._types = types
        self._excluded = excluded

    def shows(self, value: Buffer | None) -> bool:
        """Whether a record with this value is wanted."""
        if not self._decodes or not (self._types or self._excluded):
            return True  # and is not read here, only where it is printed
        found = metadata_type(value)
        return found is None or (found in self._types if self._types else found not in self._excluded)

    @abstractmethod
    def of_record(self, batch: CommittedBatch, record: Record) -> str:
        """A record of the log."""

    @abstractmethod
    def of_state(self, snapshot_id: OffsetAndEpoch, wall_ms: int, value: bytes) -> str:
        """A record of a snapshot."""


class _EnoughError(Exception):
    """Raised when everything wanted is printed."""


@click.command(short_help="Print the records of a live quorum.")
@controllers_option
@start_option
@click.option(
    "--since", metavar="WHEN", help="Only records later than a time, such as 2026-11-23T14:03, or from an offset on."
)
@click.option("--follow", "-f", is_flag=True, help="Keep printing new records as they commit; Ctrl-C ends it.")
@click.option("--max-records", type=NumberType(int, 1), help="Stop after this many records.")
@click.option("--print-control", is_flag=True, help="Also print control records.")
@click.option(
    "--load-snapshot", is_flag=True, help="Print the newest snapshot first if the log no longer holds its records."
)
@decoder_option
@click.option("--type", "types", multiple=True, metavar="NAME", help="Only metadata records of this type; repeatable.")
@click.option(
    "--exclude",
    multiple=True,
    metavar="NAME",
    help="Not metadata records of this type; repeatable; '' omits none.  [default: NO_OP_RECORD; '' with --json]",
)
@json_lines_option("per record, with its value in base64")
@command_config_option
@timeout_option
def tail(  # noqa: PLR0913 - one argument for each option
    *,
    bootstrap_controller: str,
    start: str,
    since: str | None,
    follow: bool,
    max_records: int | None,
    print_control: bool,
    load_snapshot: bool,
    decodes: bool | None,
    types: tuple[str, ...],
    exclude: tuple[str, ...],
    as_json: bool,
    command_config: Path | None,
    timeout: float | None,
) -> None:
    """Print committed records, one per line: offset, epoch, time, value. Without --follow, stop at the current end.

    The earliest record is the first that the log still holds; --load-snapshot prints the newest snapshot before it.
    The command reads as an observer without an id, so the quorum does not count it. It follows leader changes.
    """
    options = client_options(
        controllers=bootstrap_controller, command_config=command_config, timeout_s=timeout, client_id="pykraft-tail"
    )
    wanted = TailOptions(
        start=parse_start(start),
        is_followed=follow,
        records_max=max_records,
        with_control=print_control,
        with_snapshot=load_snapshot,
        decodes=decodes,
        types=known_types("--type", types),
        # Programs get all that there is; people would not find anything between two no-ops a second.
        excluded=known_types("--exclude", exclude or (() if as_json else (NO_OP,))),
        since=_moment(since),
        as_json=as_json,
    )
    asyncio.run(_print(options, wanted))


def parse_start(text: str) -> Start | Offset:
    """``earliest``, ``latest`` or an offset. Errors: UsageError."""
    if text in {each.value for each in Start}:
        return Start(text)
    if not re.fullmatch("[0-9]{1,19}", text) or int(text) > OFFSET_MAX:
        raise UsageError(f"--from {text}: give earliest, latest or an offset from 0 to {OFFSET_MAX}")
    return Offset(int(text))


def _moment(text: str | None) -> Moment | None:
    if text is None:
        return None
    from pykraft.spark.metadata.directory import parse_moment

    return parse_moment(text, "--since")


async def _print(options: ClientOptions, wanted: TailOptions) -> None:
    paper = _Paper(wanted)

    async def load_snapshot(reader: StateReader[bytes]) -> None:
        await paper.load_snapshot(reader, wanted.form(observer.topic_name), wanted)

    observer = Observer(
        options.bootstrap,
        start=wanted.start,
        client_id=options.client_id,
        patience=options.patience(WaitingLine().show),
        security=options.security,
        load_snapshot=load_snapshot if wanted.with_snapshot else None,
    )
    async with observer:
        first_offset = await observer.begin()
        form = wanted.form(observer.topic_name)
        if not wanted.is_followed:
            paper.end_offset = observer.high_watermark
        with suppress(_EnoughError):
            paper.end_at(first_offset)
            async for batch in observer:
                paper.put(_lines(batch, first_offset, form, wanted), batch.end_offset)


class _Paper:
    """Prints lines until there are enough. ``end_offset`` None: do not stop at the end of the log."""

    def __init__(self, wanted: TailOptions) -> None:
        self.end_offset: Offset | None = None
        self._left = wanted.records_max

    async def load_snapshot(self, reader: StateReader[bytes], form: Form, wanted: TailOptions) -> None:
        """Print a snapshot, which replaces all records before its end. Errors: as `put`."""
        async for batch in reader:
            at, wall_ms = reader.snapshot_id, batch.append_timestamp_ms
            if wanted.is_recent(Offset(at.offset - 1), wall_ms):
                self.put(form.of_state(at, wall_ms, value) for value in batch.records if form.shows(value))
        self.end_at(reader.snapshot_id.offset)

    def put(self, lines: Iterable[str], end_offset: Offset | None = None) -> None:
        """Print these lines; then everything below ``end_offset`` is printed. Errors: _EnoughError."""
        printed = list(islice(lines, self._left))
        if printed:
            click.echo("\n".join(printed))
        if self._left is not None:
            self._left -= len(printed)
        if self._left == 0:
            raise _EnoughError
        if end_offset is not None:
            self.end_at(end_offset)

    def end_at(self, offset: Offset) -> None:
        """Note that everything below this offset is printed. Errors: _EnoughError at the end."""
        if self.end_offset is not None and offset >= self.end_offset:
            raise _EnoughError


def _lines(batch: CommittedBatch, first_offset: Offset, form: Form, wanted: TailOptions) -> Iterator[str]:
    if batch.is_control and not wanted.with_control:
        return
    for record in _records(batch):
        is_wanted = record.offset >= first_offset and wanted.is_recent(record.offset, record.timestamp_ms)
        if is_wanted and (batch.is_control or form.shows(record.value)):
            yield form.of_record(batch, record)


def _records(batch: CommittedBatch) -> Sequence[Record]:
    """The records of a batch; a data batch in KRaft's usual form takes the fast decoder.

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


class _TextForm(Form):
    def of_record(self, batch: CommittedBatch, record: Record) -> str:
        if batch.is_control:
            name, body = control_json(record)
            shown = f"{name} {printable(body) if isinstance(body, str) else _COMPACT.encode(body)}"
        else:
            shown = self._value(record.value)
        return f"{record.offset}\t{batch.epoch}\t{in_utc(record.timestamp_ms)}\t{shown}"

    def of_state(self, snapshot_id: OffsetAndEpoch, wall_ms: int, value: bytes) -> str:
        return f"<{snapshot_id.offset}\t{snapshot_id.epoch}\t{in_utc(wall_ms)}\t{self._value(value)}"

    def _value(self, value: Buffer | None) -> str:
        if self._decodes:
            return metadata_text(value)
        return "null" if value is None else printable(value)


class _JsonForm(Form):
    """Objects for programs; times are wall ms."""

    def of_record(self, batch: CommittedBatch, record: Record) -> str:
        shown: dict[str, Any] = {"offset": record.offset, "epoch": batch.epoch, "timestamp": record.timestamp_ms}
        if batch.is_control:
            name, body = control_json(record)
            return _COMPACT.encode(shown | {"control": {name: body}})
        if record.key is not None:
            shown["keyBase64"] = base64.b64encode(record.key).decode("ascii")
        return _COMPACT.encode(shown | self._value(record.value))

    def of_state(self, snapshot_id: OffsetAndEpoch, wall_ms: int, value: bytes) -> str:
        # With the name of the snapshot instead of an offset.
        shown = {"snapshot": stem_of(snapshot_id), "epoch": snapshot_id.epoch, "timestamp": wall_ms}
        return _COMPACT.encode(shown | self._value(value))

    def _value(self, value: Buffer | None) -> dict[str, Any]:
        # The bytes are there in any case: with them `append --input json` copies a record.
        shown = {"valueBase64": None if value is None else base64.b64encode(value).decode("ascii")}
        return shown | metadata_json(value) if self._decodes else shown


def in_utc(wall_ms: int) -> str:
    """A time in ISO format; one outside of the calendar stays a number."""
    try:
        moment = datetime.fromtimestamp(wall_ms / 1_000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(wall_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
