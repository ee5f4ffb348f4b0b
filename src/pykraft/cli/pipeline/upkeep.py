"""``pykraft pipeline upkeep``: compaction and vacuum of Delta tables, also while a stream writes them.

Neither Spark nor Java is needed. `pykraft.spark.pipeline.upkeep` does the work.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from pykraft.cli.json_option import json_option
from pykraft.cli.parsing.value import ExistingPath, NumberType
from pykraft.cli.tables import print_table
from pykraft.errors import UsageError
from pykraft.process.extras import imported_for
from pykraft.spark.tables.names import RETENTION_HOURS, TARGET_SIZE_BYTES

if TYPE_CHECKING:  # imported when the command runs, so that --help is quick
    from pykraft.spark.pipeline.upkeep import PipelineUpkeep


@click.command(short_help="Merge small files of the tables, and delete old ones.")
@click.option(
    "--tables",
    "root",
    required=True,
    type=ExistingPath("give the folder that `pykraft pipeline run` fills", is_folder=True),
    help="Folder of the tables.",
)
@click.option(
    "--target-size",
    "target_size_bytes",
    type=NumberType(int, 1),
    default=TARGET_SIZE_BYTES,
    metavar="BYTES",
    help="Size of the files that small ones become; 128 MiB by default.",
)
@click.option(
    "--retention-hours",
    type=NumberType(int, 0),
    default=RETENTION_HOURS,
    show_default=True,
    help="How long files that the tables do not have any more stay for readers.",
)
@click.option("--allow-short-retention", is_flag=True, help="Allow less than 168 hours: no reader takes longer.")
@json_option
def upkeep(
    *, root: Path, target_size_bytes: int, retention_hours: int, allow_short_retention: bool, as_json: bool
) -> None:
    """Merge small files of the Delta tables in order of replica and offset, and delete files that are out of use.

    A pipeline may be running. The rows stay the same.
    """
    if retention_hours < RETENTION_HOURS and not allow_short_retention:
        raise UsageError(
            f"--retention-hours {retention_hours}: a query that began earlier would miss its files; give at least "
            f"{RETENTION_HOURS}, or --allow-short-retention if no query takes that long"
        )
    with imported_for("the upkeep of tables"):
        from pykraft.spark.pipeline.upkeep import keep_tables
    with Console(stderr=True).status("opening the tables") as line:
        found = keep_tables(
            root,
            target_size_bytes=target_size_bytes,
            retention_hours=retention_hours,
            on_progress=lambda name, size_bytes: line.update(f"{name}: {size_bytes / 1e6:,.0f} MB merged"),
        )
    if as_json:
        click.echo(json.dumps(found.as_json(), indent=2))
    else:
        _print(found)


def _print(found: PipelineUpkeep) -> None:
    heads = ("table", "files before", "files", "MB merged", "files deleted")
    rows = [
        (
            name,
            f"{done.files_before:,}",
            f"{done.files:,}",
            f"{done.rewritten_bytes / 1e6:,.1f}",
            f"{done.deleted_files:,}",
        )
        for name, done in found.tables.items()
    ]
    print_table("upkeep", heads, rows)
