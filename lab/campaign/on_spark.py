"""Runs a campaign of the simulator on Spark: seeds in, rows of `pykraft.sim.run.campaign` out, one world per core.

Seeds are sent in rounds. A round is one job with a few tasks per core; its rows are returned before the next round
starts, so a stopped campaign loses one round at most. A task runs several worlds, which takes at least a second. Each
worker reports its version of the code; the caller rejects rows of other code. Invariant: neither the driver nor a task
holds more rows than a round has.

Columns in: ``id`` int64, the index of a seed in the round. Columns out: ``row`` string, one JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pykraft.sim.run.campaign import Identity, Row, row_of
from pykraft.sim.run.simulation import simulate
from pykraft.sim.scenario.scenario import Scenario
from pykraft.spark.arrow_columns import text_column

if TYPE_CHECKING:  # an extra, and slow to import
    from pyspark.sql import SparkSession

SEEDS_A_TASK = 16
TASKS_A_CORE = 4
SCHEMA = "row string"


def run_seeds(spark: SparkSession, seeds: Sequence[int], scenario: Scenario) -> Iterator[Row]:
    """Rows of these seeds, in their order; those of a round when it is done."""
    cores = spark.sparkContext.defaultParallelism
    size = cores * TASKS_A_CORE * SEEDS_A_TASK
    for start in range(0, len(seeds), size):
        part = seeds[start : start + size]
        tasks = max(min(cores, len(part)), len(part) // SEEDS_A_TASK)
        places = spark.range(0, len(part), 1, tasks)
        rows = places.mapInArrow(_living(part, scenario), SCHEMA).collect()
        yield from (json.loads(row["row"]) for row in rows)


def _living(seeds: Sequence[int], scenario: Scenario) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function of a task: one world per index."""

    def live(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        identity = Identity.of(scenario)
        for batch in batches:
            results = (simulate(seeds[place], scenario=scenario) for place in batch.column("id").to_pylist())
            rows = [json.dumps(row_of(result, identity)) for result in results]
            yield pa.RecordBatch.from_arrays([text_column(rows)], names=["row"])

    return live
