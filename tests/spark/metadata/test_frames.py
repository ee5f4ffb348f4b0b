"""DataFrames of the metadata log: tables of an image, and typed records that equal Kafka's JSON."""

import pytest
from pyspark.sql import SparkSession

from pykraft.errors import UsageError
from pykraft.spark.metadata.frames import records_of_type, table_frame
from pykraft.spark.metadata.tables import COLUMNS, rows_of
from tests.spark.metadata.made import image, made, partition, topic
from tests.spark.metadata.test_directory import STATIC, folder


def test_a_table_is_a_frame_of_its_rows(spark: SparkSession) -> None:
    point = {"name": "PLAINTEXT", "host": "h", "port": 9092, "security_protocol": 0}
    found = image(topic(), partition(), made("REGISTER_BROKER_RECORD", broker_id=1, end_points=[point]))
    for name in ("partitions", "brokers"):
        rows = [row.asDict(recursive=True) for row in table_frame(spark, found, name).collect()]
        assert rows == rows_of(found, name)
    for name in COLUMNS:
        assert list(COLUMNS[name]) == table_frame(spark, found, name).columns[:-2]
    with pytest.raises(UsageError, match=r"there is no table topic; did you mean topics\?"):
        table_frame(spark, found, "topic")


def test_records_of_a_type_have_its_fields_as_columns(spark: SparkSession) -> None:
    source = spark.read.format("pykraft").option("columns", "metadata").load(str(folder(STATIC / "n1")))
    kept = source.drop("corrupt").cache()
    try:
        changes = records_of_type(kept, "PARTITION_CHANGE_RECORD")
        assert changes.columns[:5] == ["replica", "offset", "epoch", "timestamp", "version"]
        rows = changes.where("offset >= 155").orderBy("offset").collect()
        assert [(row.partitionId, row.leader, row.isr, row.replicas) for row in rows[:2]] == [
            (0, -1, [], None),
            (1, -1, [], None),
        ]
        (broker,) = records_of_type(kept, "REGISTER_BROKER_RECORD").collect()
        assert (broker.brokerId, broker.endPoints[0].port, broker.rack) == (4, 21403, None)
        assert records_of_type(kept, "NO_OP_RECORD").columns == ["replica", "offset", "epoch", "timestamp", "version"]
        assert kept.where("problem is not null").count() == 0
    finally:
        kept.unpersist()
    with pytest.raises(UsageError, match=r"there is no type TOPICS_RECORD; did you mean TOPIC_RECORD\?"):
        records_of_type(source, "TOPICS_RECORD")
