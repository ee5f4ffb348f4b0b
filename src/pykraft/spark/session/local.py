"""A Spark session that is quiet and local, and whose workers can import this package."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pykraft
from pykraft.spark.session.home import spark_home
from pykraft.spark.session.java import java_home

if TYPE_CHECKING:  # an extra, and slow to import
    from pyspark.sql import SparkSession

CORES = 2
TASK_TRIES = 4
"""How often to try a task whose Python worker may have died; Spark's own default outside of local mode."""
DAEMON = "spark.python.daemon.module"
LOG_CONFIG = Path(__file__).with_name("log4j2.properties")


def session_settings(name: str, *, cores: int = CORES) -> dict[str, str]:
    """Spark's properties for a quiet local session."""
    return {
        "spark.master": f"local[{cores},{TASK_TRIES}]",
        "spark.app.name": name,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        DAEMON: "pykraft.spark.session.daemon",
        "spark.driver.extraJavaOptions": f'"-Dlog4j2.configurationFile={LOG_CONFIG}"',
        "spark.sql.shuffle.partitions": str(cores * 2),
        "spark.sql.session.timeZone": "UTC",
    }


def prepare_environment(*, is_local: bool = True, sends_archives: bool = False) -> None:
    """Set which Java and Python Spark runs, and where its workers find this package and pyspark.

    Workers on other machines run the Python that ``PYSPARK_PYTHON`` names, if it is set. Spark that ``sends_archives``
    of pyspark to them has the home that it was installed in, and so has one that the user's ``SPARK_HOME`` names.

    Errors: UsageError without a Java runtime.
    """
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local or "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    if is_local:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    _set_home(sends_archives=sends_archives)
    source = str(Path(pykraft.__file__).resolve().parent.parent)
    known = os.environ.get("PYTHONPATH", "")
    if source not in known.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join([source, known] if known else [source])


def _set_home(*, sends_archives: bool) -> None:
    home, named = spark_home(), os.environ.get("SPARK_HOME")
    if home is None:
        return
    if named is None and not sends_archives:
        os.environ["SPARK_HOME"] = str(home)
    elif named == str(home) and sends_archives:
        del os.environ["SPARK_HOME"]  # an earlier session of this process has set it


def open_session(settings: Mapping[str, str]) -> SparkSession:
    """A session with these properties and the source; uses Spark's running process, or starts one."""
    from pyspark.sql import SparkSession

    from pykraft.spark.source import register

    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark
