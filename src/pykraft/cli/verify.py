"""``pykraft verify``: check a data directory; report damage by file and position, and how to repair it."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from pykraft.cli.errors import EXIT_DIRECTORY
from pykraft.cli.parsing.value import ExistingPath, OneOf, json_option
from pykraft.cli.printable import print_lines, printable
from pykraft.log.offline.verify import PartitionReport, VerifyReport, total_size_bytes
from pykraft.log.offline.verify import verify as look_at
from pykraft.object_storage.files import Files
from pykraft.object_storage.uris import restored
from pykraft.text.words import counted

PROGRESS_SIZE_BYTES_MIN: Final = 64 * 1024 * 1024
"""Below this size the check is done before anyone could read a bar."""


@click.command(short_help="Check a data directory: CRC, offsets, epochs, indexes.")
@click.argument(
    "directory",
    type=ExistingPath("give a directory of log.dirs, or a partition in it", is_folder=True, may_be_uri=True),
)
@json_option
@click.option(
    "--progress",
    type=OneOf(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Show a progress bar on standard error; auto shows it on a terminal if there is much to read.",
)
def verify(directory: Path, *, as_json: bool, progress: str) -> None:
    """Check DIRECTORY, a node's log directory or one partition directory in it; the node may be running.

    It reads all batches (CRC, lengths, offsets, epochs), both indexes, snapshots, leader-epoch-checkpoint,
    quorum-state, recovery-point and the small files, and writes nothing. What a running node has not finished writing,
    and what the next start cleans up after a crash, is reported as a note. Exits with 4 if something is damaged.
    """
    fs = Files()
    with _bar(progress, lambda: total_size_bytes(fs, directory)) as on_progress:
        report = look_at(fs, directory, on_progress=on_progress)
    if as_json:
        click.echo(json.dumps(_document(directory, report), indent=2))
    else:
        print_lines(_lines(report))
    if count := report.findings.damage_count:
        click.echo(f"pykraft: {_text(directory)}: {counted(count, 'place')} damaged", err=True)
        raise SystemExit(EXIT_DIRECTORY)


@contextmanager
def _bar(progress: str, size_bytes: Callable[[], int]) -> Iterator[Callable[[int], None]]:
    """A function to call with the bytes just read; it advances a bar if one is shown."""
    is_watched = sys.__stderr__ is not None and sys.__stderr__.isatty()
    total = size_bytes() if progress == "always" or (progress == "auto" and is_watched) else 0
    if total == 0 or (progress == "auto" and total < PROGRESS_SIZE_BYTES_MIN):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    console = Console(stderr=True, force_terminal=True if progress == "always" else None)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda count: bar.advance(task, count)


def _lines(report: VerifyReport) -> Iterator[str]:
    findings = report.findings
    for damage in findings.damage:
        yield f"{_text(damage.path)}: at position {damage.position}: expected {damage.expected}, found {damage.found}"
        yield f"  what to do: {damage.advice}"
    if findings.damage_count > len(findings.damage):
        yield f"and {counted(findings.damage_count - len(findings.damage), 'more damaged place')}"
    for note in findings.notes:
        yield f"note: {_text(note.path)}: {note.text}"
    if findings.notes_count > len(findings.notes):
        yield f"and {counted(findings.notes_count - len(findings.notes), 'more note')}"
    for partition in report.partitions:
        yield _summary(partition)
    if not findings.damage_count:
        yield f"No damage found in {counted(len(report.partitions), 'Raft partition')}."


def _summary(partition: PartitionReport) -> str:
    log = partition.log
    epochs = f"epochs {log.epochs[0].epoch} to {log.epochs[-1].epoch}" if log.epochs else "no epoch"
    point = "no recovery point" if log.recovery_point is None else f"recovery point {log.recovery_point}"
    size = f"{counted(log.batches_count, 'batch')} in {counted(log.segments_count, 'segment')}, {log.size_bytes} bytes"
    offsets = f"offsets {log.start_offset} to {log.end_offset} (exclusive)"
    return f"{_text(partition.path)}: {offsets}, {epochs}, {size}, {point}"


def _document(directory: Path, report: VerifyReport) -> dict[str, Any]:
    findings = report.findings
    return {
        "directory": str(directory),
        "isSound": not findings.damage_count,
        "damageCount": findings.damage_count,
        "damage": [
            {
                "file": str(restored(one.path)),
                "position": one.position,
                "expected": one.expected,
                "found": one.found,
                "whatToDo": one.advice,
            }
            for one in findings.damage
        ],
        "notesCount": findings.notes_count,
        "notes": [{"file": str(restored(one.path)), "text": one.text} for one in findings.notes],
        "partitions": [
            {
                "directory": str(one.path),
                "startOffset": one.log.start_offset,
                "endOffset": one.log.end_offset,
                "recoveryPoint": one.log.recovery_point,
                "segments": one.log.segments_count,
                "batches": one.log.batches_count,
                "sizeBytes": one.log.size_bytes,
                "epochs": [{"epoch": entry.epoch, "startOffset": entry.start_offset} for entry in one.log.epochs],
            }
            for one in report.partitions
        ],
    }


def _text(path: Path) -> str:
    return printable(click.format_filename(restored(path)))
