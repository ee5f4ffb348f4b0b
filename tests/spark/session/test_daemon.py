"""The daemon imports what tasks need, and stays one thread; tasks of a local session are its children."""

import os
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pykraft.spark.session.daemon import print_exc
from tests.tidy.repository import ROOT

THREADS = """
import gc, os, sys
from pykraft.spark.session.daemon import import_for_tasks

import_for_tasks()
print(len(os.listdir("/proc/self/task")), "pyarrow" in sys.modules, "pyspark.worker" in sys.modules)
print(gc.get_freeze_count() > 10_000, len(gc.get_objects()) < 1_000)
"""


HUNG_UP_ON = """
def main(infile, outfile):
    infile.read()
    outfile.write(b"x" * 100)
    outfile.flush()
    outfile.write(b"y" * 100)
"""
"""It writes once Java has hung up: the first bytes are answered with a reset, and the others fail."""


def test_it_has_one_thread_and_garbage_is_not_sought_in_what_it_imported() -> None:
    given = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    command = [sys.executable, "-c", THREADS]
    done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("1 False True\nTrue True\n", "")


@pytest.mark.parametrize(
    ("error", "expected"), [(BrokenPipeError(), ""), (ConnectionResetError(), ""), (ValueError("x"), "ValueError: x\n")]
)
def test_java_may_hang_up_without_a_traceback(
    error: Exception, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    try:
        fail()
    except Exception:  # noqa: BLE001 - as pyspark's daemon does
        print_exc()
    told = capsys.readouterr().err
    assert told.endswith(expected)
    assert bool(told) is bool(expected)


def test_a_task_that_java_hangs_up_on_prints_nothing(tmp_path: Path) -> None:
    # Spark's daemon takes a worker module of its own only.
    (tmp_path / "pyspark_hung_up_on.py").write_text(HUNG_UP_ON)
    given = os.environ | {
        "PYTHONPATH": f"{tmp_path}:{ROOT / 'src'}",
        "PYTHON_WORKER_FACTORY_SECRET": "secret",
        "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
    }
    command = [sys.executable, "-m", "pykraft.spark.session.daemon", "pyspark_hung_up_on"]
    with (
        (tmp_path / "errors").open("wb") as errors,
        subprocess.Popen(command, env=given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors) as daemon,
    ):
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        (port,) = struct.unpack(">i", daemon.stdout.read(4))
        with socket.create_connection(("127.0.0.1", port)) as java:
            (pid,) = struct.unpack(">i", java.recv(4))
            ended = os.pidfd_open(pid)
            java.sendall(struct.pack(">i", 6) + b"secret")
            assert java.recv(6, socket.MSG_WAITALL) == b"\0\0\0\2ok"
        assert select.select([ended], [], [], 60)[0]
        os.close(ended)
        daemon.stdin.close()
        daemon.wait(timeout=60)
    assert (tmp_path / "errors").read_text() == ""


def test_it_forks_the_tasks_of_a_local_session(spark: SparkSession) -> None:
    def parents(groups: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in groups:
            parent = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            yield pa.RecordBatch.from_arrays([pa.array([parent])], names=["parent"])

    (row,) = spark.range(1).mapInArrow(parents, "parent string").collect()
    assert row.parent.endswith("-m pykraft.spark.session.daemon pyspark.worker ")
