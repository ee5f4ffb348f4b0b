"""Carries out the tasks of a directory audit on Spark's executors.

A task of Spark does one or more tasks of the audit, so that each reads about one part's worth of bytes. What comes back
are digests and findings (`pykraft.audit.segment`), whose size does not grow with the data that a task reads. Executors
must reach the directories under the same paths or URIs as the driver.

Columns in: ``id`` int64, the index of a task. Columns out: ``id`` int64, ``result`` binary, a pickled result.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pykraft.audit.directory_audit import AuditResult, AuditTask, run_task
from pykraft.errors import PykraftError
from pykraft.object_storage.files import Files
from pykraft.spark.arrow_columns import bytes_column, number_column
from pykraft.spark.error_text import error_in, reason

if TYPE_CHECKING:  # an extra, and slow to import
    from pyspark.sql import SparkSession

TASKS_A_CORE = 4
TASKS_MAX = 100_000
SCHEMA = "id bigint, result binary"


def slices_of(tasks: int, cores: int) -> int:
    """How many tasks of Spark carry out so many tasks: one each if they keep all cores busy, fewer if they are many."""
    return max(1, min(tasks, max(cores * TASKS_A_CORE, min(tasks // TASKS_A_CORE, TASKS_MAX))))


def run_on(spark: SparkSession, tasks: Sequence[AuditTask]) -> list[AuditResult]:
    """The results in the order of the tasks. Errors: StorageError; PykraftError when Spark fails."""
    from pyspark.errors import PySparkException

    cores = spark.sparkContext.defaultParallelism
    places = spark.range(0, len(tasks), 1, slices_of(len(tasks), cores))
    try:
        rows = places.mapInArrow(_carrying_out(tasks), SCHEMA).collect()
    except PySparkException as error:
        raise error_in(str(error)) or PykraftError(reason(str(error))) from error
    found: list[AuditResult] = [None] * len(tasks)
    for row in rows:
        # The executors run this package: nobody else writes these bytes.
        found[row["id"]] = pickle.loads(row["result"])  # noqa: S301
    return found


def _carrying_out(tasks: Sequence[AuditTask]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def carry_out(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fs = Files()
        for batch in batches:
            for number in batch.column("id").to_pylist():
                result = pickle.dumps(run_task(fs, tasks[number]))
                columns = [number_column([number], pa.int64()), bytes_column([result])]
                yield pa.record_batch(columns, names=["id", "result"])

    return carry_out
