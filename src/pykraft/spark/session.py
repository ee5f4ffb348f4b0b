"""A Spark session that is quiet, local and able to import this package in its workers."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pykraft
from pykraft.spark.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2
LOG_CONFIG = Path(__file__).with_name("log4j2.properties")


def local_session(name: str, *, cores: int = CORES) -> SparkSession:
    """A session in this process, with the source registered.

    Errors: UsageError without a Java runtime.
    """
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    source = str(Path(pykraft.__file__).resolve().parent.parent)
    known = os.environ.get("PYTHONPATH", "")
    if source not in known.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join([source, known] if known else [source])

    from pyspark.sql import SparkSession

    from pykraft.spark.source import register

    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={LOG_CONFIG}")
        .config("spark.sql.shuffle.partitions", str(cores * 2))
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    register(spark)
    return spark
