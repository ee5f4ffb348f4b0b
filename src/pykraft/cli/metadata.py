"""``pykraft metadata``: the cluster that a metadata log describes, at a moment, what changed, and which record did it.

Reads directories of Kafka's controllers or brokers, or a live quorum; nothing is written, and Spark is not needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pykraft.cli.client_options import ClientOptions, client_options, command_config_option
from pykraft.cli.parsing.group import Group
from pykraft.cli.parsing.value import ExistingPath, any_of, json_lines_option, json_option
from pykraft.cli.printable import print_table, printable
from pykraft.cli.tail import in_utc
from pykraft.errors import UsageError
from pykraft.text.words import counted, did_you_mean

if TYPE_CHECKING:  # imported when the command runs, so that --help is quick
    from pykraft.spark.metadata.directory import Moment
    from pykraft.spark.metadata.image import LoggedRecord, MetadataImage

TABLES: Final = (
    "brokers",
    "controllers",
    "topics",
    "partitions",
    "features",
    "configs",
    "acls",
    "quotas",
    "credentials",
    "tokens",
    "producer_ids",
)
_LEFT_OUT: Final = ("changed_ms", "features", "directories", "log_dirs", "cordoned_log_dirs", "incarnation_id")
"""Columns that only --json has: they are long, and seldom what is looked for."""


_directories = click.argument(
    "directories",
    nargs=-1,
    type=ExistingPath("give a directory of log.dirs, or __cluster_metadata-0 in it", is_folder=True, may_be_uri=True),
    metavar="[DIR]...",
)
_bootstrap = click.option(
    "--bootstrap-controller", "controllers", metavar="LIST", help="Read a live quorum instead: host:port,…"
)
_as_of = click.option(
    "--as-of", metavar="WHEN", help="Read up to this offset (exclusive) or time, such as 2026-11-23T14:03."
)
_tables = click.option(
    "--table",
    "names",
    multiple=True,
    metavar="NAME",
    shell_complete=any_of(lambda: TABLES),
    help="Show only this table; may be repeated.",
)


def _from(command: Callable[..., None]) -> Callable[..., None]:
    """Add what says where the log is; the command gets it as ``source``."""

    @wraps(command)
    def with_source(
        *,
        directories: tuple[Path, ...],
        controllers: str | None,
        command_config: Path | None,
        **options: Any,  # noqa: ANN401 - as click has them
    ) -> None:
        command(source=_Source(directories, controllers, command_config), **options)

    return _directories(_bootstrap(command_config_option(with_source)))


@click.group(cls=Group)
def metadata() -> None:
    """Show what the metadata log of a Kafka cluster holds: show, diff, history, find.

    Of several directories the one whose log reaches furthest is read. A directory may end with records that were never
    committed; a live quorum shows what is committed. Secrets are masked. An offset stands for the records below it; a
    time without a zone is UTC.
    """


@metadata.command()
@_from
@_as_of
@_tables
@json_option
def show(*, source: _Source, as_of: str | None, names: tuple[str, ...], as_json: bool) -> None:
    """Show brokers, topics, partitions with leaders and ISR, features, configurations, access rules and more."""
    from pykraft.spark.metadata.tables import rows_of

    shown = _known(names)
    image = source.image(_moment(as_of, "--as-of"))
    tables = {name: rows_of(image, name) for name in shown}
    if as_json:
        document = {"end_offset": image.end_offset, "last_timestamp_ms": image.last_timestamp_ms, "tables": tables}
        click.echo(json.dumps(document, indent=2))
        return
    when = "" if image.last_timestamp_ms is None else f", whose last record is of {in_utc(image.last_timestamp_ms)}"
    click.echo(f"the cluster after the records below offset {image.end_offset}{when}")
    for name, rows in tables.items():
        if rows:
            columns = [
                column
                for column in rows[0]
                if column not in _LEFT_OUT and any(row[column] not in (None, []) for row in rows)
            ]
            print_table(name, columns, [tuple(_cell(row[column]) for column in columns) for row in rows])


@metadata.command()
@_from
@click.option("--since", required=True, metavar="WHEN", help="The earlier moment, an offset or a time.")
@_as_of
@_tables
@json_option
def diff(*, source: _Source, since: str, as_of: str | None, names: tuple[str, ...], as_json: bool) -> None:
    """Show what differs between two moments, row by row."""
    from pykraft.spark.metadata.tables import differences

    shown = _known(names)
    begin, end = _moment(since, "--since"), _moment(as_of, "--as-of")
    before, after = source.image(begin), source.image(end)
    found = [each for each in differences(before, after) if each.table in shown]
    if as_json:
        document = {
            "since_offset": before.end_offset,
            "end_offset": after.end_offset,
            "differences": [asdict(each) for each in found],
        }
        click.echo(json.dumps(document, indent=2))
        return
    click.echo(f"{counted(len(found), 'difference')} between offsets {before.end_offset} and {after.end_offset}")
    if found:
        rows = [(each.table, each.change, *map(_cell, (each.key, each.before, each.after))) for each in found]
        print_table("differences", ("table", "change", "row", "before", "after"), rows)


@metadata.command()
@_from
@_as_of
@json_option
def history(*, source: _Source, as_of: str | None, as_json: bool) -> None:
    """Show each change of a partition's leader or in-sync replicas, as far back as the log or a snapshot reaches."""
    from pykraft.spark.metadata.image import LeaderHistory, MetadataImage

    end = _moment(as_of, "--as-of")
    image, rows = MetadataImage(), list[dict[str, Any]]()
    leaders = LeaderHistory(image)
    source.read(end, lambda logged: rows.extend(leaders.take(logged)), whole=True)
    if as_json:
        click.echo(json.dumps({"end_offset": image.end_offset, "history": rows}, indent=2))
        return
    click.echo(f"leaders and in-sync replicas up to offset {image.end_offset}")
    if rows:
        columns = [column for column in rows[0] if column != "topic_id"]
        shown = [tuple(_cell(in_utc(row[c]) if c == "wall_ms" else row[c]) for c in columns) for row in rows]
        print_table("history", ["time" if c == "wall_ms" else c for c in columns], shown)


@metadata.command()
@click.argument("text")
@_from
@_as_of
@json_lines_option("per record")
def find(*, text: str, source: _Source, as_of: str | None, as_json: bool) -> None:
    """Print the records that have this TEXT in their type or fields, whatever its case: what changed, and when.

    A record of a snapshot has lost its offset; it is shown as <157, which means below the snapshot's end offset.
    """
    from pykraft.protocol.metadata.record import one_line, without_secrets

    wanted = text.casefold()

    def take(logged: LoggedRecord) -> None:
        line = one_line(logged.record)
        if wanted not in line.casefold():
            return
        if as_json:
            place = {"offset": logged.offset, "end_offset": logged.end_offset, "timestamp_ms": logged.timestamp_ms}
            click.echo(json.dumps(place | without_secrets(logged.record).json()))
            return
        offset = f"<{logged.end_offset}" if logged.offset is None else logged.offset
        click.echo(f"{offset}\t{in_utc(logged.timestamp_ms)}\t{printable(line)}")

    end = _moment(as_of, "--as-of")
    source.read(end, take, whole=True)


def _known(names: Sequence[str]) -> Sequence[str]:
    """The tables that are wanted: all, if none is named. Errors: UsageError."""
    for name in names:
        if name not in TABLES:
            raise UsageError(f"--table {name}: it must be one of {', '.join(TABLES)}{did_you_mean(name, TABLES)}")
    return names or TABLES


def _moment(text: str | None, option: str) -> Moment:
    from pykraft.spark.metadata.directory import NOW, parse_moment

    return NOW if text is None else parse_moment(text, option)


class _Source:
    """Where the log is. Errors: UsageError; ConfigError; as `furthest`."""

    def __init__(self, directories: Sequence[Path], controllers: str | None, command_config: Path | None) -> None:
        if bool(directories) == (controllers is not None):
            raise UsageError("give either directories or --bootstrap-controller")
        if controllers is None and command_config is not None:
            raise UsageError("--command-config needs --bootstrap-controller: directories need no connection")
        self._quorum: ClientOptions | None = None
        if controllers is not None:
            self._quorum = client_options(
                controllers=controllers, command_config=command_config, timeout_s=None, client_id="pykraft-metadata"
            )
        else:
            from pykraft.spark.metadata.directory import furthest

            self._directory = furthest(directories)

    def image(self, moment: Moment) -> MetadataImage:
        """The cluster at this moment. Errors: as `read`."""
        from pykraft.spark.metadata.image import MetadataImage

        image = MetadataImage()
        self.read(moment, image.apply, whole=False)
        return image

    def read(self, moment: Moment, take: Callable[[LoggedRecord], object], *, whole: bool) -> None:
        """Pass on the records up to this moment, with ``whole`` as early ones as there are.

        Errors: as `records_until` and `read_live`.
        """
        from pykraft.spark.metadata.directory import read_live, records_until

        if self._quorum is not None:
            read_live(self._quorum.bootstrap, moment, take, self._quorum.security)
            return
        for logged in records_until(self._directory, moment, is_history=whole):
            take(logged)


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case dict():
            return " ".join(f"{name}={_cell(each)}" for name, each in value.items())
        case list():
            return ", ".join(map(_cell, value))
        case bool():
            return "yes" if value else "no"
    return printable(str(value))
