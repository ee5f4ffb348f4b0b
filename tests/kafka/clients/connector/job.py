"""What Spark does with a quorum: write with each compression, read as a stream meanwhile, and read in one batch.

    PYTHON job.py SERVERS TOPIC COUNT PAUSE_S JARS RESULT

Runs in the environment of the connector, which has nothing of pykraft. Prints ``written N`` PAUSE_S seconds after
each slice of the records, and writes JSON to the file RESULT: the offsets and values that the batch and the stream
found.
"""

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
SLICE = 500
"""Records of one write: short enough that a leader is killed while Spark writes."""
CONNECTOR = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
"""The jars that pip's pyspark lacks."""


def places(frame: DataFrame) -> list[tuple[int, str]]:
    """Offset and value of each record."""
    rows = frame.selectExpr("offset", "cast(value as string) value").orderBy("offset").collect()
    return [(row.offset, row.value) for row in rows]


def write(spark: SparkSession, servers: str, topic: str, count: int) -> Iterator[int]:
    """Write ``segment.number``, one segment for each compression; yields how many are written."""
    done = 0
    for segment, compression in enumerate(COMPRESSIONS):
        end = count * (segment + 1) // len(COMPRESSIONS) - count * segment // len(COMPRESSIONS)
        options = {"kafka.bootstrap.servers": servers, "topic": topic, "kafka.compression.type": compression}
        for start in range(0, end, SLICE):
            some = spark.range(start, min(start + SLICE, end), 1, 1)
            records = some.selectExpr("cast(id as string) key", f"concat('{segment}.', id) value")
            records.write.format("kafka").options(**options).save()
            done += min(SLICE, end - start)
            yield done


def main(words: Sequence[str]) -> None:
    """The command line; see the module."""
    servers, topic, count, pause_s, jars, result = words
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
    assigned = {"kafka.bootstrap.servers": servers, "assign": json.dumps({topic: [0]}), "startingOffsets": "earliest"}
    arriving = spark.readStream.format("kafka").options(**assigned).load()
    stream = arriving.writeStream.format("memory").queryName("streamed").start()
    for number in write(spark, servers, topic, int(count)):
        # The leader is killed at such a line: while the next slice is written, not in the pause.
        threading.Event().wait(float(pause_s))
        print(f"written {number}", flush=True)
    stream.processAllAvailable()
    stream.stop()
    read = places(spark.read.format("kafka").options(**assigned).load())
    Path(result).write_text(json.dumps({"batch": read, "stream": places(spark.table("streamed"))}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
