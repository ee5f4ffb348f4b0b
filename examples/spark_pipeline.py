"""Write a quorum's log into tables on any Spark, with ``spark-submit``.

    pykraft pipeline package pykraft.zip
    spark-submit --master spark://host:7077 --py-files pykraft.zip examples/spark_pipeline.py --tables T --path GLOB

For a live quorum replace ``--path`` by ``--bootstrap-controllers host:port,…``. The executors' Python needs numpy,
pyarrow, crc32c and cramjam, the driver's also deltalake; all of them must share the folder of the tables, which may be
a URI such as ``s3://bucket/tables``. The next run continues where this one ended.
"""

import argparse
import json
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

from pykraft.spark.pipeline import gold
from pykraft.spark.pipeline.run import PipelineOptions, start_pipeline
from pykraft.spark.source import register
from pykraft.spark.tables.names import CONTROL, RECORDS, TABLES


def records_by_leader(records: DataFrame, control: DataFrame) -> DataFrame:
    """Count the records that each leader wrote; any DataFrame function can be used here."""
    epochs = gold.epochs(records, control)
    return epochs.groupBy("leader_id").agg(F.sum("records").alias("records")).orderBy("leader_id")


def main() -> None:
    """The command line; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, required=True)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--path")
    source.add_argument("--bootstrap-controllers")
    parser.add_argument("--records-per-trigger", type=int, default=1_000_000)
    given = parser.parse_args()

    spark = SparkSession.builder.appName("pykraft pipeline").getOrCreate()
    register(spark)
    place = {"path": given.path} if given.path else {"bootstrap.controllers": given.bootstrap_controllers}
    options = PipelineOptions(
        source={**place, "maxRecordsPerTrigger": str(given.records_per_trigger)}, root=given.tables
    )
    start_pipeline(spark, options).awaitTermination()

    tables = options.tables()
    for name in TABLES:
        print(f"{name}: {tables.read(spark, name).count()} rows")
    replica = tables.read(spark, RECORDS).agg(F.max("replica")).collect()[0][0]
    of_one = [gold.of_replica(tables.read(spark, name), replica) for name in (RECORDS, CONTROL)]
    for row in records_by_leader(*of_one).collect():
        print(json.dumps(row.asDict()))
    spark.stop()


if __name__ == "__main__":
    main()
