"""``pykraft pipeline metadata``: the cluster that a metadata log describes, at a moment, and what changed between two.

Reads directories of Kafka's controllers or brokers, or a live quorum; nothing is written, and Spark is not needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pykraft.cli.parsing.value import ExistingPath, any_of, json_option
from pykraft.cli.printable import print_table, printable
from pykraft.cli.tail import in_utc
from pykraft.client.arguments import parse_bootstrap
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


@click.command(short_help="Show the cluster that a metadata log describes, now or at a moment.")
@click.argument(
    "directories",
    nargs=-1,
    type=ExistingPath("give a directory of log.dirs, or __cluster_metadata-0 in it", is_folder=True, may_be_uri=True),
    metavar="[DIR]...",
)
@click.option("--bootstrap-controller", metavar="LIST", help="Read a live quorum instead: host:port,…")
@click.option(
    "--as-of", metavar="WHEN", help="Show the cluster at this offset (exclusive) or time, such as 2026-11-23T14:03."
)
@click.option("--since", metavar="WHEN", help="Show what differs between this moment and --as-of.")
@click.option("--history", "is_history", is_flag=True, help="Show each change of a partition's leader or ISR.")
@click.option(
    "--table",
    "names",
    multiple=True,
    metavar="NAME",
    shell_complete=any_of(lambda: TABLES),
    help="Show only this table; may be repeated.",
)
@json_option
def metadata(
    *,
    directories: tuple[Path, ...],
    bootstrap_controller: str | None,
    as_of: str | None,
    since: str | None,
    is_history: bool,
    names: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show brokers, topics, partitions with leaders and ISR, features, configurations, access rules and more.

    Of several directories the one whose log reaches furthest is read. A directory may end with records that were never
    committed; a live quorum shows what is committed. Secrets are masked. An offset stands for the records below it; a
    time without a zone is UTC.
    """
    from pykraft.spark.metadata.directory import NOW, parse_moment

    if bool(directories) == (bootstrap_controller is not None):
        raise UsageError("give either directories or --bootstrap-controller")
    if is_history and since is not None:
        raise UsageError("give --history or --since, not both")
    for name in names:
        if name not in TABLES:
            raise UsageError(f"--table {name}: it must be one of {', '.join(TABLES)}{did_you_mean(name, TABLES)}")
    end = NOW if as_of is None else parse_moment(as_of, "--as-of")
    begin = None if since is None else parse_moment(since, "--since")
    source = _Source(directories, bootstrap_controller)
    shown = names or TABLES
    if is_history:
        _show_history(source, end, as_json=as_json)
    elif begin is None:
        _show_tables(source.image(end), shown, as_json=as_json)
    else:
        _show_differences(source.image(begin), source.image(end), shown, as_json=as_json)


class _Source:
    def __init__(self, directories: Sequence[Path], bootstrap: str | None) -> None:
        self._bootstrap = () if bootstrap is None else parse_bootstrap("--bootstrap-controller", bootstrap)
        if not self._bootstrap:
            from pykraft.spark.metadata.directory import furthest

            self._directory = furthest(directories)

    def image(self, moment: Moment) -> MetadataImage:
        """The cluster at this moment. Errors: as `records_until` and `read_live`."""
        from pykraft.spark.metadata.image import MetadataImage

        image = MetadataImage()
        for _ in self.rows(moment, image, with_history=False):
            pass
        return image

    def rows(self, moment: Moment, image: MetadataImage, *, with_history: bool) -> Iterator[dict[str, Any]]:
        """Bring an image up to this moment; the rows of its history, if they are wanted. Errors: as `image`."""
        from pykraft.spark.metadata.image import LeaderHistory

        history = LeaderHistory(image)
        if self._bootstrap:
            from pykraft.spark.metadata.directory import read_live

            found: list[dict[str, Any]] = []

            def take(logged: LoggedRecord) -> None:
                rows = history.take(logged)
                if with_history:
                    found.extend(rows)

            read_live(self._bootstrap, moment, take)
            yield from found
            return
        from pykraft.spark.metadata.directory import records_until

        for logged in records_until(self._directory, moment, is_history=with_history):
            yield from history.take(logged)


def _show_tables(image: MetadataImage, names: Sequence[str], *, as_json: bool) -> None:
    from pykraft.spark.metadata.tables import rows_of

    tables = {name: rows_of(image, name) for name in names}
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


def _show_differences(before: MetadataImage, after: MetadataImage, names: Sequence[str], *, as_json: bool) -> None:
    from pykraft.spark.metadata.tables import differences

    found = [each for each in differences(before, after) if each.table in names]
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


def _show_history(source: _Source, end: Moment, *, as_json: bool) -> None:
    from pykraft.spark.metadata.image import MetadataImage

    image = MetadataImage()
    rows = list(source.rows(end, image, with_history=True))
    if as_json:
        click.echo(json.dumps({"end_offset": image.end_offset, "history": rows}, indent=2))
        return
    click.echo(f"leaders and in-sync replicas up to offset {image.end_offset}")
    if rows:
        columns = [column for column in rows[0] if column != "topic_id"]
        shown = [tuple(_cell(in_utc(row[c]) if c == "wall_ms" else row[c]) for c in columns) for row in rows]
        print_table("history", ["time" if c == "wall_ms" else c for c in columns], shown)


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
