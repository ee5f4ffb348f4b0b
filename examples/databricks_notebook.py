# Databricks notebook source
# MAGIC %pip install pykraft[spark]

# COMMAND ----------

"""A quorum's log as a Delta table of Unity Catalog, on Databricks (runtime 17.3 LTS or later: Spark 4).

Import this file as a notebook. Its cluster must reach the controllers' listener; logs in object storage need no quorum:
replace ``bootstrap.controllers`` by ``path``. The checkpoint is a folder of a volume.
"""

from pyspark.sql import DataFrame, SparkSession

from pykraft.spark.source import register

CONTROLLERS = "quorum.internal:9093"
TABLE = "main.quorum.records"
CHECKPOINT = "/Volumes/main/quorum/checkpoints/records"

spark = SparkSession.builder.getOrCreate()
register(spark)

# COMMAND ----------

records: DataFrame = (
    spark.readStream.format("pykraft")
    .option("bootstrap.controllers", CONTROLLERS)
    .option("columns", "kafka")
    .option("includeHeaders", "true")
    .load()
)

# COMMAND ----------

# Delta's own sink notes each micro-batch in the table, so that one that is repeated after a failure is not there twice.
query = (
    records.writeStream.format("delta")
    .option("checkpointLocation", CHECKPOINT)
    .trigger(availableNow=True)
    .toTable(TABLE)
)
query.awaitTermination()

# COMMAND ----------

spark.table(TABLE).groupBy("topic", "partition").agg({"offset": "max", "*": "count"}).show()
