"""The session is local, quiet and in UTC; its workers run our interpreter and import this package."""

import os
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import pykraft
from pykraft.spark.session.local import prepare_environment

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


def test_python_processes_of_spark_do_not_compile_pyspark(spark: SparkSession) -> None:
    def bytecode(_: int) -> str | None:
        import pyspark.worker

        assert pyspark.worker.__spec__ is not None
        return pyspark.worker.__spec__.cached

    [found] = spark.sparkContext.parallelize([0], 1).map(bytecode).collect()
    assert found is not None, "it was imported from an archive"


def test_a_user_s_home_of_spark_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP", "JAVA_HOME", "PYTHONPATH"):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # put back afterwards
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    prepare_environment()
    assert os.environ["SPARK_HOME"] == "/opt/spark"
    monkeypatch.delenv("SPARK_HOME")
    prepare_environment()
    assert "spark-" in os.environ["SPARK_HOME"]
    prepare_environment(is_local=False, sends_archives=True)
    assert "SPARK_HOME" not in os.environ, "archives are files"
