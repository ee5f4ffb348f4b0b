"""The session is local, quiet and in UTC; its workers run our interpreter and import this package."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import pykraft

pytestmark = pytest.mark.spark


def test_the_session_keeps_to_this_machine(spark: SparkSession) -> None:
    assert spark.sparkContext.master == "local[2,4]"
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_workers_get_our_interpreter_and_sources(spark: SparkSession) -> None:
    assert spark is not None
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert str(Path(pykraft.__file__).parents[1]) in os.environ["PYTHONPATH"].split(os.pathsep)
