"""Worlds on Spark give the same rows as here, in the order of their seeds."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lab.campaign.on_spark import run_seeds
from pykraft.sim.run.campaign import Identity, row_of
from pykraft.sim.run.simulation import simulate
from pykraft.sim.scenario.scenario import DEFAULT

if TYPE_CHECKING:  # slow to import, and every run of pytest collects this file
    from pyspark.sql import SparkSession

SHORT = replace(DEFAULT, course=replace(DEFAULT.course, faults_us=300_000))
SEEDS = (5, 2, 11, 3)


@pytest.mark.spark
def test_rows_are_the_same_wherever_a_seed_runs(spark: SparkSession) -> None:
    identity = Identity.of(SHORT)
    expected = [json.loads(json.dumps(row_of(simulate(seed, scenario=SHORT), identity))) for seed in SEEDS]
    assert list(run_seeds(spark, SEEDS, SHORT)) == expected
