"""DataFrames of the metadata log: an image's tables, and the records of one type with a column for each field.

Invariant: a function here only plans; it reads nothing that Spark does not read when the frame is used.

Source: KIP-631; Kafka's message definitions, from which `pykraft.protocol.metadata.tables` is made.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from pykraft.errors import UsageError
from pykraft.protocol.metadata.record import metadata_tables
from pykraft.protocol.schema import Array, Kind, Struct, camel_case
from pykraft.spark.metadata.image import MetadataImage
from pykraft.spark.metadata.tables import COLUMNS, columns_of_table, ddl_of, rows_of
from pykraft.text.words import did_you_mean

_SPARK: dict[Kind, str] = {
    Kind.BOOL: "boolean",
    Kind.INT8: "int",
    Kind.INT16: "int",
    Kind.UINT16: "int",
    Kind.INT32: "int",
    Kind.INT64: "bigint",
    Kind.FLOAT64: "double",
}
"""Uuids, bytes and texts are strings in JSON."""


def table_frame(spark: SparkSession, image: MetadataImage, name: str) -> DataFrame:
    """One table of an image, with the columns of `pykraft.spark.metadata.tables`. Errors: UsageError."""
    if name not in COLUMNS:
        raise UsageError(f"there is no table {name}{did_you_mean(name, COLUMNS)}; there are {', '.join(COLUMNS)}")
    names = columns_of_table(name)
    return spark.createDataFrame([tuple(row[each] for each in names) for row in rows_of(image, name)], ddl_of(name))


def records_of_type(records: DataFrame, type_name: str) -> DataFrame:
    """The records of one type, such as ``PARTITION_CHANGE_RECORD``; the fields of all its versions are columns.

    Input: rows of the source with ``columns`` = ``metadata``. Output: its columns without type, data, problem and
    corrupt, then a column for each field, with Kafka's name; null where the record's version lacks it, or where a
    tagged field has its default. Errors: UsageError.
    """
    table = metadata_tables().get(type_name)
    if table is None:
        raise UsageError(f"there is no type {type_name}{did_you_mean(type_name, metadata_tables())}")
    fields = sf.from_json(sf.col("data"), _ddl(table.body))
    kept = [name for name in records.columns if name not in ("type", "data", "problem", "corrupt")]
    found = records.where(sf.col("type") == type_name).withColumn("fields", fields)
    return found.select(*kept, "fields.*") if table.body.fields else found.select(*kept)


def _ddl(struct: Struct) -> str:
    return ", ".join(f"`{camel_case(one.name)}` {_type(one.kind)}" for one in struct.fields) or "`none` string"


def _type(kind: Kind | Struct | Array) -> str:
    match kind:
        case Array(of):
            return f"array<{_type(of)}>"
        case Struct():
            inner = ",".join(f"`{camel_case(one.name)}`:{_type(one.kind)}" for one in kind.fields)
            return f"struct<{inner}>"
    return _SPARK.get(kind, "string")
