"""Spark's standalone cluster as processes on this machine: a master, and workers of one core each.

Invariant: when the block ends, for whatever reason, these processes and the executors that they started are dead, each
killed by its own pid. All listen on the loopback interface only. Each worker has an address of its own, because Spark
runs the copy of a slow task only on another host.
"""

import json
import os
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from pykraft.local.child import Child, Children, wait_until
from pykraft.local.voters import HOST, SOURCES, free_ports
from pykraft.spark.session.java import java_home
from tests.spark.archive import quick_java
from tests.spark.descendants import Process, descendants

START_TIMEOUT_S = 120.0
EXECUTOR_MEMORY = "512m"
LOOPBACK = "127.0.0.{}"
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "10ms",
    "spark.speculation.task.duration.threshold": "1ms",
}
"""Every task that takes longer than a moment gets a copy, as soon as another executor is free."""


@contextmanager
def standalone_cluster(folder: Path, *, workers: int = 2) -> Iterator[str]:
    """The URL of a master with so many workers. Errors: LocalQuorumError when they do not come up."""
    folder.mkdir(parents=True, exist_ok=True)
    port, status_port = free_ports(2)
    url = f"spark://{HOST}:{port}"
    with Children() as children:
        try:
            words = f"--host {HOST} --port {port} --webui-port {status_port}"
            master = _start(children, folder, "Master", words)
            processes = [master]
            _wait_for_workers(status_port, 0, processes)
            for number in range(workers):
                own_port, own_status_port = free_ports(2)
                place, host = folder / f"worker-{number}", LOOPBACK.format(number + 1)
                words = f"--host {host} --port {own_port} --webui-port {own_status_port}"
                words += f" --cores 1 --memory 1g --work-dir {place} {url}"
                processes.append(_start(children, folder, "Worker", words))
            _wait_for_workers(status_port, workers, processes)
            yield url
        except Exception as error:
            error.add_note(children.log_ends())
            raise
        finally:
            for process in executors():
                process.kill()


def executors() -> list[Process]:
    """The executors of such a cluster of ours."""
    below = descendants(os.getpid())
    return [each for each in below if each.is_java and "CoarseGrainedExecutorBackend" in each.command]


def submit_command(*words: str) -> list[str]:
    """The command line of spark-submit."""
    return [str(Path(_find_spark_home()) / "bin" / "spark-submit"), *words]


def environment(*, with_sources: bool = False) -> dict[str, str]:
    """What processes of Spark's need; this package is only on the path of those that are to have it."""
    known = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path not in {"", str(SOURCES)}]
    return {
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": _find_spark_home(),
        "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([*known, str(SOURCES)] if with_sources else known),
    }


def _start(children: Children, folder: Path, kind: str, words: str) -> Child:
    command = [str(Path(_find_spark_home()) / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}"]
    small = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": quick_java()}
    log_path = folder / f"{kind}-{len(list(folder.glob('*.log')))}.log"
    return children.start(kind, [*command, *words.split()], log_path, environment=environment() | small)


def _wait_for_workers(status_port: int, count: int, processes: list[Child]) -> None:
    def has_workers() -> bool:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{status_port}/json/", timeout=10) as answer:
                return int(json.load(answer)["aliveworkers"]) == count
        except (OSError, ValueError):
            return False

    wait_until(has_workers, f"Spark's master to have {count} workers", timeout_s=START_TIMEOUT_S, alive=processes)
