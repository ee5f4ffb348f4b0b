"""``python -m tests.kafka.clients [CLIENT …] [--kills N] [--records N]``: each client through kills of the leader.

Each client produces, with all compressions in turn, and consumes, while the leader is killed with SIGKILL and
restarted. The logs then say whether an acknowledged record was lost, and with idempotence whether one was doubled or
out of order. ``--kills 30`` is the long form. ``--write`` puts the results into docs/clients.json and the table
of docs/kafka-releases.md.

The clients are installed by ``bin/_environment clients``; kcat comes from its Debian package, the Java tools from
Kafka's jars. Spark's connector gets an environment of its own, on its first run with a download of 400 MB; its
producers are always idempotent. Exit status: 0; 1 when a promise was broken or a client gave up; 2 for a client that is
not installed.
"""

import argparse
import datetime
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pykraft.errors import LocalQuorumError, UsageError
from tests.kafka.clients.catalog import CONTENDERS
from tests.kafka.clients.connector.run import environment, run_spark_through_kills
from tests.kafka.clients.kills import Plan, run_through_kills
from tests.kafka.clients.table import table_of, write

SPARK = "spark"
NAMES = (*CONTENDERS, SPARK)
RECORDS = 100_000
KILLS = 3


def main(words: Sequence[str]) -> int:
    """The command line; see the module."""
    options = _options(words)
    names = options.clients or list(NAMES)
    console = Console(stderr=True)
    documents: list[dict[str, Any]] = []
    failures: list[str] = []
    try:
        for name in names:
            if name == SPARK:
                environment()
            else:
                CONTENDERS[name].version()
    except UsageError as error:
        console.print(str(error), style="red")
        return 2
    for name in names:
        for is_idempotent in _modes(name, options.mode):
            try:
                documents.append(_run(name, options, console, is_idempotent=is_idempotent))
                failures += [f"{name}: {problem}" for problem in documents[-1]["problems"]]
            except LocalQuorumError as error:
                failures.append(f"{name}: {error}")
            if options.write and documents:
                write(documents)
    if options.json:
        json.dump({"runs": documents, "failures": failures}, sys.stdout, indent=2)
        print()
    else:
        print(table_of(documents), end="")
    for failure in failures:
        console.print(f"FAILED {failure}", style="red", markup=False)
    return 1 if failures else 0


def _modes(name: str, wanted: str) -> list[bool]:
    """The values of ``is_idempotent`` that are wanted and that the client has."""
    # The producers of Spark's connector are always idempotent.
    has = {True} if name == SPARK else {False, CONTENDERS[name].has_idempotence}
    return [mode for mode in {"idempotent": [True], "acks-all": [False], "both": [True, False]}[wanted] if mode in has]


def _run(name: str, options: argparse.Namespace, console: Console, *, is_idempotent: bool) -> dict[str, Any]:
    """One client in one mode. Errors: LocalQuorumError."""
    mode = "idempotent" if is_idempotent else "acks=all"
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(prefix="pykraft-clients-", ignore_cleanup_errors=True) as folder,
        Progress(*columns, console=console, transient=True) as bar,
    ):
        task = bar.add_task(f"{name}, {mode}", total=options.records)

        def on_progress(acknowledged: int, story: str | None) -> None:
            bar.update(task, completed=acknowledged)
            if story is not None:
                console.print(f"{name}, {mode}: {story}", markup=False, highlight=False)

        if name == SPARK:
            outcome = run_spark_through_kills(options.records, options.kills, on_progress, Path(folder))
        else:
            plan = Plan(
                count=options.records,
                kills=options.kills,
                compressions=CONTENDERS[name].compressions,
                is_idempotent=is_idempotent,
                on_progress=on_progress,
            )
            outcome = run_through_kills(CONTENDERS[name], plan, Path(folder))
    return {**outcome.document(), "date": datetime.datetime.now(datetime.UTC).date().isoformat()}


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.kafka.clients", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clients", nargs="*", choices=[[], *NAMES], metavar="CLIENT", help=", ".join(NAMES))
    parser.add_argument("--records", type=_positive, default=RECORDS, help="records in each run (default: %(default)s)")
    parser.add_argument("--kills", type=_positive, default=KILLS, help="kills in each run (default: %(default)s)")
    parser.add_argument("--mode", choices=("idempotent", "acks-all", "both"), default="both")
    parser.add_argument("--json", action="store_true", help="print JSON to standard output")
    parser.add_argument("--write", action="store_true", help="write docs/clients.json and the page's table")
    return parser.parse_args(words)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
