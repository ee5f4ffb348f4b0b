"""Runs the source and the sink on two more engines: Spark behind Spark Connect, and Sail, which is no Spark.

    python -m tests.spark.engines connect|sail

The first run fetches what the engine needs (10 MB, 80 MB) into a folder beside the environment's own packages. Each
trial is a small program as a user writes it, and must do what docs/spark-reference.md says: work, or fail with the
message in `FAILS`. Exit status 0 when all do; the output is a row for each.
"""

import os
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from pykraft.local.child import Children, wait_until
from pykraft.local.voters import HOST, free_ports
from tests import beside
from tests.spark.archive import quick_java
from tests.spark.engines.trials import TRIALS, Scene
from tests.spark.standalone import START_TIMEOUT_S, environment, submit_command

INSIDE: Final = "--inside"
SHOWN_MAX: Final = 300
"""Characters of a message."""
WITHOUT_REGISTER: Final = "without register"
FILTERS: Final = "spark.sql.python.filterPushdown.enabled"
TIMES_NEED_A_ZONE: Final = r"\[pykraft::schema\] AssertionError"
"""Sail asks pyspark for the Arrow type of a timestamp without naming a time zone."""
FAILS: Final[Mapping[str, Mapping[str, str]]] = {
    "connect": {},
    "sail": {
        WITHOUT_REGISTER: "No data source found for: pykraft",
        "a directory": TIMES_NEED_A_ZONE,
        "every column of a directory": TIMES_NEED_A_ZONE,
        "the Kafka source's columns": TIMES_NEED_A_ZONE,
        "a stream into files": "streaming query must write data to a sink",
        "a stream into a quorum": "a batch query has no checkpoint",
    },
}
"""What does not work: a part of the message, by engine and trial."""


@contextmanager
def connect(folder: Path) -> Iterator[Any]:
    """A session of a Spark Connect server: Spark's Java process, which this one knows only by its port."""
    (port,) = free_ports(1)
    conf = {
        "spark.master": "local[2]",
        "spark.driver.extraJavaOptions": quick_java(),
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(folder),
    }
    confs = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    command = submit_command("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", *confs)
    with _session(command, environment(with_sources=True), folder, port) as spark:
        spark.conf.set(FILTERS, "true")
        yield spark


@contextmanager
def sail(folder: Path) -> Iterator[Any]:
    """A session of a Sail server: one process without Java."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "pysail", "spark", "server", "--ip", HOST, "--port", str(port)]
    with _session(command, {}, folder, port) as spark:
        spark.conf.set("spark.sql.session.timeZone", "UTC")  # the source's times are in UTC
        yield spark


@contextmanager
def _session(command: list[str], ours: dict[str, str], folder: Path, port: int) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    def listens() -> bool:
        with socket.socket() as tried:
            return tried.connect_ex((HOST, port)) == 0

    with Children() as children:
        try:
            server = children.start("the server", command, folder / "server.log", environment=ours)
            wait_until(listens, "the server to listen", timeout_s=START_TIMEOUT_S, alive=[server])
            spark = SparkSession.builder.remote(f"sc://{HOST}:{port}").getOrCreate()
            yield spark
            spark.stop()
        except Exception as error:
            error.add_note(children.log_ends())
            raise


ENGINES: Final = {"connect": connect, "sail": sail}
PACKAGES: Final = {"connect": ["pyspark"], "sail": ["pysail", "pyspark-client"]}


def try_all(engine: str, folder: Path) -> int:
    """Run all trials on one engine; the number of those that do not do what they should."""
    from pykraft.spark.source import register

    scene = Scene(folder)
    try:
        with ENGINES[engine](folder) as spark:
            wrong = is_wrong(engine, WITHOUT_REGISTER, lambda: TRIALS["columns named by .schema"](spark, scene))
            register(spark)
            return wrong + sum(is_wrong(engine, name, partial(trial, spark, scene)) for name, trial in TRIALS.items())
    finally:
        scene.stop()


def is_wrong(engine: str, name: str, trial: Callable[[], None]) -> bool:
    """Run one, print its row, and tell whether it does not do what it should."""
    problem = ""
    try:
        trial()
    except Exception as error:  # noqa: BLE001 - whatever an engine raises is what the row says
        problem = " ".join(f"{type(error).__name__}: {error}".split())
    wanted = FAILS[engine].get(name)
    is_right = not problem if wanted is None else re.search(wanted, problem) is not None
    told = f"fails: {problem[:SHOWN_MAX]}" if problem else "works"
    print(f"{'  ' if is_right else '! '}{engine:8} {name:38} {told}", flush=True)
    return not is_right


def main(words: Sequence[str]) -> int:
    """The command line; see the module."""
    engine = words[-1] if words else ""
    if engine not in ENGINES:
        print(f"give one of {', '.join(ENGINES)}", file=sys.stderr)
        return 2
    if INSIDE not in words:
        command = [sys.executable, "-m", "tests.spark.engines", INSIDE, engine]
        folder = beside.install(Path(__file__).with_name(f"{engine}.txt"))
        os.execve(sys.executable, command, beside.environment(folder))  # noqa: S606 - signals reach it
    print(", ".join(f"{name} {version(name)}" for name in PACKAGES[engine]), flush=True)
    with tempfile.TemporaryDirectory(prefix="pykraft-engines-") as folder_name:
        return 1 if try_all(engine, Path(folder_name)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
