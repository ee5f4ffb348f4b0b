"""What a Spark job does with a quorum's log, as functions from DataFrames to DataFrames: docs/spark.md explains them.

    spark-submit --master 'local[2]' examples/spark_recipes.py localhost:9093 /shared/orders

keeps a Delta table of the newest order of each key, and a table of what is not an order, without a Delta jar. It ends
when all is read, and the next run goes on from there.
"""

import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

from pykraft.spark.metadata.frames import records_of_type
from pykraft.spark.source import register

ORDER = "total double, note string"
"""Fields of the JSON in values. Append new ones: they are null in older records, and unknown ones are left out."""


def orders(records: DataFrame) -> DataFrame:
    """In: ``columns`` = ``kafka``. Out: id string, offset bigint, timestamp, raw string, and the fields of ORDER.

    A value of null, which deletes an order, and one that is not JSON have null in all fields; ``raw`` tells them apart.
    """
    raw = F.col("value").cast("string")
    found = records.select(F.col("key").cast("string").alias("id"), "offset", "timestamp", raw.alias("raw"))
    # With FAILFAST one bad record would end the query; PERMISSIVE makes a null of it.
    parsed = F.from_json("raw", ORDER, {"mode": "PERMISSIVE"})
    return found.select("*", parsed.alias("it")).select("id", "offset", "timestamp", "raw", "it.*")


def avro_orders(records: DataFrame, schema: dict[str, Any]) -> DataFrame:
    """In: ``columns`` = ``kafka``, values are Avro of a schema registry. Out: as `orders`, with the raw value in hex.

    ``schema`` is the writers'; it has the fields of ORDER. It needs the package fastavro on the executors, and no jar.
    """

    def decoded(value: bytes | None) -> Any:  # noqa: ANN401 - a row of ORDER
        from fastavro import schemaless_reader

        try:
            # A registry's clients put a zero and the schema's number of four bytes first.
            return None if value is None else schemaless_reader(BytesIO(value[5:]), schema, None)
        except Exception:  # noqa: BLE001 - fastavro has no error of its own for bytes that do not fit
            return None

    raw, parsed = F.hex("value").alias("raw"), F.udf(decoded, ORDER, useArrow=False)("value").alias("it")
    found = records.select(F.col("key").cast("string").alias("id"), "offset", "timestamp", raw, parsed)
    return found.select("id", "offset", "timestamp", "raw", "it.*")


def changes(lines: DataFrame) -> DataFrame:
    """In: the lines that ``pykraft kv watch --json`` wrote, as text. Out: as `orders`, with the revision as offset."""
    change = F.from_json("value", "revision bigint, key string, item struct<value string>").alias("it")
    found = lines.select(change).where("it.revision is not null")
    records = found.select(
        F.col("it.key").alias("key"),
        F.col("it.revision").alias("offset"),
        F.current_timestamp().alias("timestamp"),
        F.col("it.item.value").alias("value"),
    )
    return orders(records)


def dead_letters(found: DataFrame) -> DataFrame:
    """In: `orders`. Out: those that are no order, whose raw text is kept."""
    return found.where("raw is not null and total is null").select("id", "offset", "timestamp", "raw")


def newest(found: DataFrame) -> DataFrame:
    """In: `orders` of one micro-batch. Out: the newest of each id, the deleted ones too, without the dead letters."""
    order = Window.partitionBy("id").orderBy(F.desc("offset"))
    good = found.where("id is not null and (raw is null or total is not null)")
    return good.withColumn("rank", F.row_number().over(order)).where("rank = 1").drop("rank", "timestamp")


def merge_into(folder: Path) -> Callable[[DataFrame, int], None]:
    """For ``foreachBatch``: merges a micro-batch of `orders` into the Delta tables ``orders`` and ``dead_letters``.

    A micro-batch that Spark repeats after a kill changes nothing: an order is only replaced by a later offset, and of a
    dead letter one row is kept.
    """

    def merge(found: DataFrame, batch_id: int) -> None:
        del batch_id
        for name, rows, key in (("orders", newest(found), "id"), ("dead_letters", dead_letters(found), "offset")):
            changes, path = rows.toArrow(), str(folder / name)
            # Creates the table, or appends nothing but columns that are new.
            write_deltalake(path, changes.slice(0, 0), mode="append", schema_mode="merge")
            merger = DeltaTable(path).merge(
                changes, f"old.{key} = new.{key}", source_alias="new", target_alias="old", merge_schema=True
            )
            # A deleted order stays as a row without fields, so that an older change cannot bring it back.
            merger.when_matched_update_all("new.offset > old.offset").when_not_matched_insert_all().execute()

    return merge


def append_once(table: str, stream: str) -> Callable[[DataFrame, int], None]:
    """For ``foreachBatch``: appends to a Delta table by Spark's own writer, which needs Delta's jar and no shared disk.

    The table's log gets the stream's name and the micro-batch's number, and a number that it has is skipped. So a new
    checkpoint needs a new name.
    """

    def append(rows: DataFrame, batch_id: int) -> None:
        writer = rows.write.format("delta").mode("append")
        writer.option("txnAppId", stream).option("txnVersion", batch_id).saveAsTable(table)

    return append


def append_once_iceberg(table: str, stream: str) -> Callable[[DataFrame, int], None]:
    """The same for an Iceberg table that exists. The number is in the summary of the snapshot that the append makes.

    Two drivers of one stream at once could both append; and whoever expires snapshots keeps the stream's newest.
    """
    note = f"pykraft.{stream}"

    def append(rows: DataFrame, batch_id: int) -> None:
        noted = F.expr(f"max(bigint(summary['{note}']))").alias("batch_id")
        (newest_append,) = rows.sparkSession.table(f"{table}.snapshots").select(noted).collect()
        if newest_append.batch_id is None or newest_append.batch_id < batch_id:
            rows.writeTo(table).option(f"snapshot-property.{note}", str(batch_id)).append()

    return append


def paid(found: DataFrame, payments: DataFrame, *, within: str = "10 minutes") -> DataFrame:
    """In: `orders` of two quorums, streams or not. Out: id, total, paid: orders and their payments within this time."""
    late = F.expr(f"interval {within}")
    left = found.withWatermark("timestamp", within).alias("o")
    right = payments.withWatermark("timestamp", within).alias("p")
    is_same = F.col("o.id") == F.col("p.id")
    is_near = F.col("p.timestamp").between(F.col("o.timestamp"), F.col("o.timestamp") + late)
    return left.join(right, is_same & is_near).select("o.id", "o.total", F.col("p.total").alias("paid"))


def leaders(metadata: DataFrame) -> DataFrame:
    """In: Kafka's metadata log, ``columns`` = ``metadata``. Out: partition changes with a new leader, typed.

    As a stream with ``trigger(availableNow=True)`` once an hour, it goes on where the hour before ended.
    """
    return records_of_type(metadata, "PARTITION_CHANGE_RECORD").where("leader is not null")


def main() -> None:
    """The command line; see the module."""
    controllers, folder = sys.argv[1], Path(sys.argv[2])
    spark = SparkSession.builder.appName("orders").getOrCreate()
    register(spark)
    source = spark.readStream.format("pykraft").option("bootstrap.controllers", controllers).option("columns", "kafka")
    stream = orders(source.load()).writeStream.foreachBatch(merge_into(folder))
    stream.option("checkpointLocation", str(folder / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()


if __name__ == "__main__":
    main()
