"""The daemon imports what tasks need, and stays one thread; tasks of a local session are its children."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from tests.tidy.repository import ROOT

THREADS = """
import os, sys
from pykraft.spark.session.daemon import import_for_tasks

import_for_tasks()
print(len(os.listdir("/proc/self/task")), "pyarrow" in sys.modules, "pyspark.worker" in sys.modules)
"""


def test_it_has_one_thread() -> None:
    given = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    command = [sys.executable, "-c", THREADS]
    done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("1 False True\n", "")


def test_it_forks_the_tasks_of_a_local_session(spark: SparkSession) -> None:
    def tell(groups: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in groups:
            parent = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            yield pa.RecordBatch.from_arrays([pa.array([parent])], names=["parent"])

    (row,) = spark.range(1).mapInArrow(tell, "parent string").collect()
    assert row.parent.endswith("-m pykraft.spark.session.daemon pyspark.worker ")
