"""`pykraft demo`: runs the demo, prints its progress and a summary. Also available as `bin/demo`.

On a terminal the last line shows the progress; elsewhere it prints a line for each stage and one every two seconds,
and says what it does again when a stage has nothing to say.
However it ends, also by a signal, it stops the nodes. It keeps their files when something went wrong.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Self

import click
from rich.console import Console
from rich.markup import escape
from rich.status import Status

from pykraft.cli.parsing.value import DECIMAL, WHOLE, NewFolder, json_option
from pykraft.cli.printable import print_table
from pykraft.errors import UsageError
from pykraft.local.child import temporary_folder
from pykraft.process.extras import imported_for
from pykraft.text.words import in_ms, ms_number

if TYPE_CHECKING:  # imported when the command runs, so that --help is quick
    from lab.demo.result import Result, Story

PASSING_INTERVAL_S = 2.0
SILENCE_S_MAX = 4.0


@click.command()
@click.option("--seconds", type=DECIMAL, default=20.0, show_default=True, help="Seconds of load.")
@click.option(
    "--kill-leader", is_flag=True, help="Kill the leader with kill -9 in the second half of the load, then restart it."
)
@click.option("--nodes", type=WHOLE, default=3, show_default=True, help="Number of voters.")
@click.option("--throughput", type=WHOLE, default=5_000, show_default=True, help="Records written per second.")
@click.option("--record-size", type=WHOLE, default=256, show_default=True, help="Size of each record, in bytes.")
@click.option("--report", "report_path", type=NewFolder(), help="Write an HTML report to this folder.")
@click.option(
    "--data", "data_path", type=NewFolder(), help="Keep all files in this folder, which must be new or empty."
)
@json_option
def demo(
    *,
    seconds: float,
    kill_leader: bool,
    nodes: int,
    throughput: int,
    record_size: int,
    report_path: Path | None,
    data_path: Path | None,
    as_json: bool,
) -> None:
    """Run a quorum under load, kill its leader, and let Spark check every acknowledged record.

    Exit status 0 means that Spark found every record exactly once.
    """
    with imported_for("the demo"):
        from lab.demo.result import DemoOptions
        from lab.demo.run import run_demo
    options = DemoOptions(
        seconds=seconds, nodes=nodes, throughput=throughput, record_size_bytes=record_size, kill_leader=kill_leader
    )
    write_report = None if report_path is None else _report_writer(report_path)
    console = Console(stderr=True, highlight=False)
    logging.getLogger().addHandler(logging.NullHandler())  # py4j logs a traceback when Spark is killed under it
    story: Story | None = None

    def is_kept(error: BaseException | None) -> bool:
        """After a failure somebody needs the files; not after a wrong option or an interrupt."""
        if error is None:
            return story is not None and bool(story.result.problems)
        return isinstance(error, Exception) and not isinstance(error, UsageError)

    folder: Path | None = None
    try:
        # The folder's block is the inner one: on a closed terminal the end of the status line raises an error.
        with (
            console.status("") as status,
            _Lines(console, status).printed() as lines,
            _folder(data_path, is_kept) as folder,
        ):
            story = run_demo(options, folder, lines)
    except Exception as error:
        for note in getattr(error, "__notes__", []):
            console.print(note, markup=False, soft_wrap=True)
        _print_folder(console, folder)
        raise
    _print_folder(console, folder)
    result = story.result
    _print_summary(result, stderr=as_json)
    if write_report is not None:
        click.echo(f"report: {write_report(story)}", err=as_json)
    if as_json:
        click.echo(json.dumps(result.as_json(), indent=2))
    for problem in result.problems:
        console.print(f"[red]FAILED[/red] {escape(problem)}", soft_wrap=True)
    if result.problems:
        sys.exit(1)


def _report_writer(directory: Path) -> Callable[[Story], Path]:
    """The function that writes the report; checked before the demo starts. Errors: UsageError."""
    with imported_for("--report"):
        from lab.demo.report import write_report
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--report {directory}: {error.strerror}") from error
    return lambda story: write_report(story, directory)


class _Lines:
    def __init__(self, console: Console, status: Status) -> None:
        self._console = console
        self._status = status
        self._begun = self._passed = time.monotonic()
        self._text = ""
        self._is_animated = console.is_terminal and not console.is_dumb_terminal

    @contextmanager
    def printed(self) -> Iterator[Self]:
        """Within this, the last line is printed again when nothing was for `SILENCE_S_MAX`."""
        over = Event()
        thread = Thread(target=self._repeat, args=(over,), name="progress", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            over.set()
            thread.join()

    def _repeat(self, over: Event) -> None:
        with suppress(OSError):  # who closed the output reads no more
            while not self._is_animated and not over.wait(SILENCE_S_MAX / 8):
                if self._text and time.monotonic() - self._passed >= SILENCE_S_MAX:
                    self._print(f"still {self._text}")

    def __call__(self, text: str, *, is_passing: bool = False) -> None:
        self._text = text
        self._status.update(escape(text))
        is_recent = self._is_animated or time.monotonic() - self._passed < PASSING_INTERVAL_S
        if not (is_passing and is_recent):
            self._print(text)

    def _print(self, text: str) -> None:
        self._passed = time.monotonic()
        self._console.print(f"[dim]{self._passed - self._begun:6.1f} s[/dim]  {escape(text)}", soft_wrap=True)


@contextmanager
def _folder(wanted: Path | None, is_kept: Callable[[BaseException | None], bool]) -> Iterator[Path]:
    """An empty folder for the run; one of our own is removed unless it ``is_kept``.

    Errors: UsageError when the wanted folder holds something.
    """
    if wanted is None:
        with temporary_folder("pykraft-demo-", is_kept=is_kept) as folder:
            yield folder
        return
    wanted.mkdir(parents=True, exist_ok=True)
    if any(wanted.iterdir()):
        raise UsageError(f"--data {wanted}: it is not empty; the demo needs a folder of its own")
    yield wanted


def _print_folder(console: Console, folder: Path | None) -> None:
    if folder is not None and folder.is_dir():
        console.print(f"the files of the nodes and of Spark are in {folder}", markup=False, soft_wrap=True)


def _print_summary(result: Result, *, stderr: bool) -> None:
    audit = result.audit
    failover = "no leader was killed" if result.failover_ms is None else in_ms(result.failover_ms)
    rows = {
        "records acknowledged": f"{audit.acknowledged:,}",
        "records committed in the log": f"{audit.committed_records:,}",
        "records in the tables": f"{audit.spark_rows:,}",
        "duplicates / missing / out of order": f"{audit.duplicates} / {audit.missing} / {audit.out_of_order}",
        "replicas identical, byte for byte": "yes" if result.comparison.are_identical else "NO",
        "epochs of leaders in the log": str(audit.leader_epochs),
        "fail-over, from kill to first commit": failover,
        "acknowledged records per second": f"{audit.acknowledged / result.seconds:,.0f}",
        "append to commit, p50 / p99": _milliseconds(result.commit_latency_ms),
        "commit to table, p50 / p99": "Spark began too late"
        if result.batch_latency_ms is None
        else _milliseconds(result.batch_latency_ms),
    }
    title = "FAILED" if result.problems else "every acknowledged record is in the tables exactly once"
    print_table(title, ("what", "value"), list(rows.items()), stderr=stderr)


def _milliseconds(percentiles: Mapping[str, float]) -> str:
    return f"{ms_number(percentiles['p50'])} / {in_ms(percentiles['p99'])}"
