"""An archive of the Java classes that Spark loads: a JVM that maps them starts for two thirds of the processor time.

    python -m tests.spark.archive FILE

Runs the pipeline once over a small log and lets its JVM write the archive when it exits. ``bin/test spark`` does so and
names the file in ``SPARK_SUBMIT_OPTS``, which spark-submit passes to every driver. `quick_java` has the options for the
other JVMs that tests start. A JVM that cannot use the archive, or without one, loads its classes as always.

Source: JEP 350, dynamic class data sharing.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

QUICKLY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For JVMs that live for seconds or whose queries are all different: code is compiled once, and never optimized."""
FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
"""For queries that run once over few rows: to write and compile Java for each takes longer than to go without, and so
does to plan anew after each of its stages.
"""
SUBMIT_OPTIONS = "SPARK_SUBMIT_OPTS"
EXIT_TIMEOUT_S = 400.0


def quick_java() -> str:
    """Java's options for executors, masters and workers, which spark-submit does not start."""
    return " ".join([QUICKLY, os.environ.get(SUBMIT_OPTIONS, "")]).strip()


def write_archive(path: Path) -> None:
    """Run Spark once, and write the archive. Errors: subprocess.TimeoutExpired when the JVM does not exit."""
    from pyspark import SparkContext

    from pykraft.spark.pipeline.run import PipelineOptions, start_pipeline
    from pykraft.spark.session.local import open_session, prepare_environment, session_settings
    from tests.spark.logs import three_batches, write_segment

    settings = session_settings("archive")
    # Java says of each class that Spark generated that it is not archived.
    settings["spark.driver.extraJavaOptions"] += f" {QUICKLY} -XX:ArchiveClassesAtExit={path} -Xlog:disable"
    prepare_environment()
    with tempfile.TemporaryDirectory() as folder:
        segment = write_segment(Path(folder) / "n1" / "p-0", b"".join(three_batches()))
        spark = open_session(settings)
        options = PipelineOptions(source={"path": str(segment.parent)}, root=Path(folder) / "tables")
        start_pipeline(spark, options).awaitTermination()
        spark.stop()
        gateway = SparkContext._gateway
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(EXIT_TIMEOUT_S)


def main(words: Sequence[str]) -> None:
    """The command line; see the module."""
    (path,) = words
    write_archive(Path(path))


if __name__ == "__main__":
    main(sys.argv[1:])
