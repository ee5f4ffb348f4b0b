"""Tries the source with older versions of Spark: what docs/spark-reference.md says of each in its table of versions.

    python -m tests.spark.older_sparks 3.5 4.0 4.1 4.2

The first run fetches a version (some 430 MB) into a folder beside the environment's own packages.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from pykraft.spark import spark_versions
from pykraft.spark.session.local import open_session, prepare_environment, session_settings
from pykraft.spark.source import read
from tests.beside import environment, install
from tests.spark.logs import batch, write_segment
from tests.spark.quorum_of_one import OneNode, logged_values

TRIAL = "--trial"
OTHER_SOURCE = """
from pyspark.sql.datasource import DataSource

class DefaultSource(DataSource):
    @classmethod
    def name(cls):
        return "other"

    def schema(self):
        return "a int"
"""


def batches(first: int, count: int) -> bytes:
    """Batches of two records, from this one on."""
    return b"".join(batch([b"a%d" % at, b"b%d" % at], base_offset=2 * at) for at in range(first, first + count))


def batch_queries(spark: SparkSession, folder: Path, node: OneNode) -> None:
    """Directories and live quorums; `read` is there for each version."""
    write_segment(folder / "n1" / "p-0", batches(0, 3))
    live = {"bootstrap.controllers": str(node.endpoint), "columns": "kafka"}
    files = {"path": str(folder / "n1" / "p-0")}
    for options, count in ((files, 6), (files | {"columns": "kafka"}, 6), (live, 5), (files | {"rows": "batches"}, 3)):
        frames = [read(spark, options)]
        if spark_versions.HAS_SOURCES:
            frames.append(spark.read.format("pykraft").options(**options).load())
        for frame in frames:
            assert frame.count() == len(frame.collect()) == count, options


def other_sources(spark: SparkSession, folder: Path, node: OneNode) -> None:
    """Those of other packages are found beside ours."""
    del folder, node
    assert spark.read.format("other").load().schema.names == ["a"]


def sql_tables(spark: SparkSession, folder: Path, node: OneNode) -> None:
    """A table of SQL is read by each query anew, and followed by a stream."""
    del node
    path = write_segment(folder / "n1" / "p-0", batches(0, 3)).parent
    spark.sql(f"CREATE TABLE records USING pykraft OPTIONS (path '{path}', includeHeaders 'true')")
    assert spark.table("records").columns[-1] == "headers"
    counts = [spark.table("records").count()]
    write_segment(path, batches(3, 1), base_offset=6)
    counts.append(spark.table("records").count())
    counts.append(spark.sql("SELECT * FROM records WITH (startingOffsets = '7')").count())
    assert counts == [6, 8, 1], counts
    query = spark.readStream.table("records").writeStream.format("memory").queryName("followed")
    query.trigger(availableNow=True).start().awaitTermination()
    assert spark.table("followed").count() == 8
    spark.sql("DROP TABLE records")


def file_streams(spark: SparkSession, folder: Path, node: OneNode) -> None:
    """Restarts, a directory that appears, and a log that was cut back."""
    del node
    write_segment(folder / "n1" / "kraft" / "p-0", batches(0, 3))
    frame = spark.readStream.format("pykraft").load(f"{folder}/n*/kraft/p-0").select("replica", "offset")
    sink = frame.writeStream.format("parquet").option("path", str(folder / "rows"))
    kept = sink.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)

    def rows() -> dict[str, int]:
        kept.start().awaitTermination()
        found = spark.read.parquet(str(folder / "rows")).groupBy("replica").count().collect()
        return {row["replica"]: row["count"] for row in found}

    assert rows() == {"kraft": 6}
    write_segment(folder / "n2" / "kraft" / "p-0", batches(0, 2))
    write_segment(folder / "n1" / "kraft" / "p-0", batches(3, 1), base_offset=6)
    found = rows()
    assert sum(found.values()) == 12, found
    assert rows() == found
    (folder / "n1" / "kraft" / "p-0" / f"{6:020d}.log").unlink()
    try:
        rows()
    except StreamingQueryException as error:
        assert "the log was cut back below offset 8" in str(error)
    else:
        raise AssertionError("rows were lost without an error")


def live_streams(spark: SparkSession, folder: Path, node: OneNode) -> None:
    """Restarts, and a quorum that was wiped under the same id."""

    def run(endpoint: object) -> int:
        source = spark.readStream.format("pykraft").option("bootstrap.controllers", str(endpoint)).load()
        sink = source.select("offset").writeStream.format("parquet").option("path", str(folder / "rows"))
        kept = sink.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
        kept.start().awaitTermination()
        return spark.read.parquet(str(folder / "rows")).distinct().count()

    assert run(node.endpoint) == 6
    node.append(b"more")
    assert run(node.endpoint) == run(node.endpoint) == 7
    for count in (1, 20):
        other = OneNode(folder / f"wiped{count}")
        try:
            for _ in range(count):
                other.append(b"new")
            run(other.endpoint)
        except StreamingQueryException as error:
            assert "has another log than the one that was read" in str(error)
        else:
            raise AssertionError("another log was read without an error")
        finally:
            other.stop()


def batch_sink(spark: SparkSession, folder: Path, node: OneNode) -> None:
    """Rows of a query become records."""
    del folder
    rows = spark.range(100).selectExpr("string(id) AS value")
    rows.write.format("pykraft").mode("append").option("bootstrap.controllers", str(node.endpoint)).save()
    assert len(logged_values([node.endpoint])) >= 100


def stream_sink(spark: SparkSession, folder: Path, node: OneNode) -> None:
    """Rows of a stream become records."""
    write_segment(folder / "n1" / "p-0", batches(0, 3))
    before = len(logged_values([node.endpoint]))
    rows = spark.readStream.format("pykraft").load(str(folder / "n1" / "p-0")).select("value")
    sink = rows.writeStream.format("pykraft").option("bootstrap.controllers", str(node.endpoint))
    sink.option("checkpointLocation", str(folder / "cp")).trigger(availableNow=True).start().awaitTermination()
    assert len(logged_values([node.endpoint])) == before + 6


TRIALS: tuple[tuple[Callable[[SparkSession, Path, OneNode], None], str], ...] = (
    (batch_queries, "3.5"),
    (other_sources, "4.0"),
    (sql_tables, "4.0"),
    (file_streams, "4.0"),
    (live_streams, "4.0"),
    (batch_sink, "4.0"),
    (stream_sink, "4.1"),
)
"""What is tried, and the first version that has it."""


def trial() -> None:
    """All of them, with the PySpark that is first on the path. Errors: those of the trials."""
    prepare_environment()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "modules").mkdir()
        (folder / "modules" / "pyspark_other.py").write_text(OTHER_SOURCE)
        os.environ["PYTHONPATH"] = os.pathsep.join([str(folder / "modules"), *sys.path[1:]])
        spark = open_session(session_settings("older sparks"))
        node = OneNode(folder / "quorum", serves_clients=True)
        try:
            node.append(b"a", b"b")
            node.append(b"c", b"d", b"e")
            for run, first in TRIALS:
                if spark.version >= first:
                    run(spark, folder / run.__name__, node)
                    print(f"{spark.version}: {run.__name__} works", flush=True)
        finally:
            node.stop()
            spark.stop()


def main(versions: list[str]) -> None:
    """The command line. Errors: SystemExit with the number of versions that failed."""
    failed = 0
    for version in versions:
        ours = environment(install(Path(__file__).with_name(f"pyspark-{version}.txt")))
        failed += subprocess.run([sys.executable, "-m", __spec__.name, TRIAL], env=ours, check=False).returncode != 0
    sys.exit(failed)


if __name__ == "__main__":
    trial() if TRIAL in sys.argv else main(sys.argv[1:])
