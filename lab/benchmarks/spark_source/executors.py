"""One, two and four executors of a standalone cluster on this machine, over logs of two sizes.

    python -m lab.benchmarks.spark_source.executors
        [--runs N] [--records N,N] [--executors N,N,N] [--dir DIR] [--docs FILE]

Each worker has one core, and an application gets as many of them as it has executors. A query decodes every column of
every record and adds up records and bytes by epoch. Prints for each number of executors and each size: seconds, the
time for a byte, tasks and busy time of each executor, bytes that went through a shuffle, and the memory of the driver.
Invariant: a number of executors is measured only once all of them are registered, and after a run that warms them.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lab.bench.comparison import Spread
from lab.bench.measure import machine
from lab.benchmarks.spark_source.decoder import DecoderCase, of_size, write_case
from lab.benchmarks.spark_source.table import filled
from lab.benchmarks.spark_source.usage import ProcessTree
from lab.benchmarks.suite.results import ROOT, commit
from pykraft.errors import LocalQuorumError, PykraftError
from pykraft.local.child import temporary_folder, wait_until
from pykraft.spark.session.master import session_at, settings_at
from tests.spark.standalone import environment, standalone_cluster

RECORD_SIZE_BYTES: Final = 100
EXECUTOR_MEMORY: Final = "1g"
"""All that a worker has."""
JOB_TIMEOUT_S: Final = 900.0
HEADS: Final = ("MB", "executors", "seconds", "ns a byte", "tasks", "busy seconds", "shuffled KB", "driver MiB")


def job(url: str, executors: int, runs: int, paths: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The driver of one number of executors: a row for each log."""
    conf = {
        "spark.cores.max": str(executors),
        "spark.executor.memory": EXECUTOR_MEMORY,
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "true",  # it serves the figures of executors
        "spark.ui.port": "0",
    }
    with session_at(settings_at("pykraft executors", master=url, conf=conf)) as spark:
        api = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}"

        def registered() -> dict[str, dict[str, Any]]:
            with urllib.request.urlopen(f"{api}/allexecutors", timeout=10) as answer:  # noqa: S310 - our own driver
                return {each["id"]: each for each in json.load(answer) if each["id"] != "driver"}

        def query(path: str) -> int:
            frame = spark.read.format("pykraft").load(path).selectExpr("epoch", "length(value) size", "*")
            found = frame.groupBy("epoch").agg({"*": "count", "size": "sum", "timestamp": "max"}).collect()
            return sum(row["count(1)"] for row in found)

        wait_until(lambda: len(registered()) == executors, f"{executors} executors to register")
        tree = ProcessTree(os.getpid())
        for path in paths:
            query(path)
            before = registered()
            tree.begin()
            took_s: list[float] = []
            records = 0
            for _ in range(runs):
                begun = time.monotonic()
                records = query(path)
                took_s.append(time.monotonic() - begun)
            used = tree.end()
            after = registered()
            yield {
                "executors": executors,
                "bytes": sum(file.stat().st_size for file in Path(path).glob("*.log")),
                "records": records,
                "seconds": took_s,
                "tasks": _grown(before, after, "totalTasks", runs),
                "busy_s": [each / 1_000 for each in _grown(before, after, "totalDuration", runs)],
                "shuffled": sum(_grown(before, after, "totalShuffleWrite", runs)),
                "driver_mib": used.java_mib + used.other_mib,
            }


def _grown(before: Mapping[str, Any], after: Mapping[str, Any], name: str, runs: int) -> list[float]:
    return [(each[name] - before[number][name]) / runs for number, each in sorted(after.items())]


def lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield f"| {' | '.join(HEADS)} |"
    yield "|---" * len(HEADS) + "|"
    for row in sorted(rows, key=lambda each: (each["bytes"], each["executors"])):
        took = Spread.of(row["seconds"])
        cells = [
            f"{row['bytes'] / 1e6:.0f}",
            str(row["executors"]),
            f"{took.median:.2f} ({took.low:.2f}–{took.high:.2f})",
            f"{took.median / row['bytes'] * 1e9:.2f}",
            ", ".join(f"{each:.0f}" for each in row["tasks"]),
            ", ".join(f"{each:.1f}" for each in row["busy_s"]),
            f"{row['shuffled'] / 1e3:.1f}",
            f"{row['driver_mib']:.0f}",
        ]
        yield f"| {' | '.join(cells)} |"
    here = machine()
    yield ""
    date, cores, processor = str(here["date"])[:10], here["cores"], here["processor"]
    yield f"Measured {date}, commit {commit() or 'unknown'}: {cores} cores ({processor})."


def measure(chosen: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Write the logs, start the cluster, and run a driver for each number of executors. Errors: LocalQuorumError."""
    paths = []
    for records in map(int, chosen.records.split(",")):
        path = folder / "logs" / f"p-{records}"
        case = DecoderCase(name="equal", make=of_size(RECORD_SIZE_BYTES))
        write_case(path, case, case.count(records))
        paths.append(str(path))
    counts = [int(each) for each in chosen.executors.split(",")]
    rows: list[dict[str, Any]] = []
    with standalone_cluster(folder / "cluster", workers=max(counts)) as url:
        for count in counts:
            words = ["--job", url, "--executors", str(count), "--runs", str(chosen.runs), *paths]
            command = [sys.executable, "-m", "lab.benchmarks.spark_source.executors", *words]
            own = os.environ | environment(with_sources=True)
            own["PYTHONPATH"] = os.pathsep.join([own["PYTHONPATH"], str(ROOT)])
            done = subprocess.run(
                command, cwd=ROOT, env=own, capture_output=True, text=True, timeout=JOB_TIMEOUT_S, check=False
            )
            if done.returncode:
                raise LocalQuorumError(f"the driver of {count} executors ended with {done.returncode}: {done.stderr}")
            print(done.stdout, end="", flush=True)
            rows += map(json.loads, done.stdout.splitlines())
    return rows


def main(words: Sequence[str] | None = None) -> int:
    """Obey a command line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="of each query, after one that is not counted (default: 5)")
    parser.add_argument("--records", default="5000000,20000000", help="of 100 B in each log")
    parser.add_argument("--executors", default="1,2,4")
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="folder for the logs, 3 GB")
    parser.add_argument("--docs", type=Path, help="put the table between the markers of this document")
    parser.add_argument("--job", metavar="URL", help=argparse.SUPPRESS)  # the driver that this program starts
    parser.add_argument("paths", nargs="*", help=argparse.SUPPRESS)
    chosen = parser.parse_args(words)
    if not chosen.dir.is_dir():
        parser.error(f"--dir: {chosen.dir} is not a directory")
    if chosen.job:
        for row in job(chosen.job, int(chosen.executors), chosen.runs, chosen.paths):
            print(json.dumps(row), flush=True)
        return 0
    try:
        with temporary_folder("pykraft-executors-", chosen.dir) as folder:
            rows = measure(chosen, folder)
    except KeyboardInterrupt:
        return 130
    except (PykraftError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    table = "\n".join(lines(rows))
    print(table)
    if chosen.docs is not None:
        text = chosen.docs.read_text(encoding="utf-8")
        chosen.docs.write_text(filled(text, "executors", table), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
