"""One of the two Spark sessions: reads orders from standard input, and answers each with a line.

    python -m lab.benchmarks.spark_source.session [--jars LIST] [--cores N]

An order is a JSON object: the format, its options, a schema or columns, and what to do. The answer has the seconds that
it took, and the number of records if that was the question. Invariant: both sessions have the same settings of Spark.
"""

import argparse
import json
import sys
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pykraft.spark.session.local import open_session, prepare_environment, session_settings


def carry_out(spark: SparkSession, order: dict[str, Any]) -> dict[str, Any]:
    """Run a query once."""
    reader = spark.read.format(order["format"]).options(**order["options"])
    begun = time.monotonic()
    if order["schema"] is not None:
        reader = reader.schema(order["schema"])
    records = act(reader.load(), order)
    return {"seconds": time.monotonic() - begun, "records": records}


def act(frame: DataFrame, order: dict[str, Any]) -> int | None:
    """The number of records, if it was asked for."""
    if order["select"]:
        frame = frame.select(*order["select"])
    if order["act"] == "count":
        return int(frame.count())
    if order["act"] == "sum":
        (row,) = frame.groupBy().sum().collect()
        return int(row[0])
    if order["act"] == "kafka":
        frame.write.format("kafka").options(**order["into"]).save()
        return None
    frame.write.format("noop").mode("overwrite").save()
    return None


def main() -> None:
    """The command line; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jars", default="")
    parser.add_argument("--cores", type=int, required=True)
    chosen = parser.parse_args()
    prepare_environment()
    settings = session_settings("pykraft bench", cores=chosen.cores)
    settings["spark.python.unix.domain.socket.enabled"] = "true"  # as in the sessions of pykraft's commands
    if chosen.jars:
        settings["spark.jars"] = chosen.jars
    spark = open_session(settings)
    print(json.dumps({"spark": spark.version}), flush=True)
    for line in sys.stdin:
        print(json.dumps(carry_out(spark, json.loads(line))), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
