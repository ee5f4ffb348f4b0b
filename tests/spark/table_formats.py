"""Tries the writers of Delta's and Iceberg's jars with the recipes of ``examples/spark_recipes.py``, on Spark 4.0.

    python -m tests.spark.table_formats

A stream's rows are in both tables once, though each micro-batch is repeated, and Delta's own sink has the same. The
first run fetches Spark and the jars (some 500 MB).
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame

from lab.benchmarks.spark_source import servers
from pykraft.spark.session.local import open_session, prepare_environment, session_settings
from tests.beside import environment, install
from tests.examples.test_spark_recipes import recipes
from tests.spark.logs import write_segment
from tests.spark.older_sparks import batches

TRIAL = "--trial"
POM = Path(__file__).with_name("table_formats.pom.xml")


def settings(jars: Path, folder: Path) -> dict[str, str]:
    """Of a session with both formats: Delta in Spark's own catalog, Iceberg in one of the name ``ice``."""
    return session_settings("table formats") | {
        "spark.jars": ",".join(str(path) for path in jars.glob("*.jar")),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(folder / "ice"),
    }


def twice(append: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
    """As after a kill between the append and Spark's note of it."""

    def repeated(rows: DataFrame, batch_id: int) -> None:
        append(rows, batch_id)
        append(rows, batch_id)

    return repeated


def trial(jars: Path) -> None:
    """All of it, with the PySpark that is first on the path. Errors: AssertionError."""
    prepare_environment()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = open_session(settings(jars, folder))
        spark.sql("CREATE TABLE ice.db.rows (offset bigint, value binary) USING iceberg")
        source = spark.readStream.format("pykraft").schema("offset bigint, value binary")
        path = folder / "n1" / "p-0"
        delta, iceberg = recipes.append_once("rows", "a"), recipes.append_once_iceberg("ice.db.rows", "a")
        for first in (0, 3):
            write_segment(path, batches(first, 3), base_offset=2 * first)
            for table, append in (("delta", twice(delta)), ("iceberg", twice(iceberg))):
                sink = source.load(str(path)).writeStream.foreachBatch(append)
                kept = sink.option("checkpointLocation", str(folder / table)).trigger(availableNow=True)
                kept.start().awaitTermination()
            own = source.load(str(path)).writeStream.format("delta").trigger(availableNow=True)
            own.option("checkpointLocation", str(folder / "own")).toTable("own").awaitTermination()
        for table in ("rows", "ice.db.rows", "own"):
            offsets = sorted(row.offset for row in spark.table(table).collect())
            assert offsets == list(range(12)), (table, offsets)
            print(f"Spark {spark.version}: {table} has each row once", flush=True)
        spark.stop()


def main() -> None:
    """The command line. Errors: SystemExit with the status of the trial."""
    with tempfile.TemporaryDirectory() as name:
        servers.fetch_jars(POM, Path(name), "-DexcludeGroupIds=org.apache.spark,org.scala-lang")
        ours = environment(install(Path(__file__).with_name("pyspark-4.0.txt"))) | {"PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", str(__spec__.name), TRIAL, name]
        sys.exit(subprocess.run(command, env=os.environ | ours, check=False).returncode)


if __name__ == "__main__":
    trial(Path(sys.argv[-1])) if TRIAL in sys.argv else main()
