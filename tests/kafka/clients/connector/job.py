"""What Spark does with a quorum: write with each compression, read in one batch, and read as a stream.

    PYTHON job.py SERVERS TOPIC COUNT JARS

Runs in the environment of the connector, which has nothing of pykraft. Prints one line of JSON: the offsets and values
that the batch and the stream found.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
CONNECTOR = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
"""The jars that pip's pyspark lacks."""


def places(frame: DataFrame) -> list[tuple[int, str]]:
    """Offset and value of each record."""
    rows = frame.selectExpr("offset", "cast(value as string) value").orderBy("offset").collect()
    return [(row.offset, row.value) for row in rows]


def main(words: Sequence[str]) -> None:
    """The command line; see the module."""
    servers, topic, count, jars = words
    chosen = [str(path) for path in sorted(Path(jars).glob("*.jar")) if path.name.startswith(CONNECTOR)]
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(chosen))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    for segment, compression in enumerate(COMPRESSIONS):
        records = spark.range(0, int(count), 1, 1).selectExpr(
            "cast(id as string) key", f"concat('{segment}.', id) value"
        )
        writer = records.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", topic)
        writer.option("kafka.compression.type", compression).save()
    assigned = json.dumps({topic: [0]})
    batch = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("assign", assigned)
    read = places(batch.option("startingOffsets", "earliest").load())
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("assign", assigned)
    sink = stream.option("startingOffsets", "earliest").load().writeStream.format("memory").queryName("streamed")
    sink.trigger(availableNow=True).start().awaitTermination()
    print(json.dumps({"batch": read, "stream": places(spark.table("streamed"))}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
