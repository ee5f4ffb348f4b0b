"""A stream from one quorum into another, as a program of its own: the driver that `tests.spark.sink_rounds` kills.

    python -m tests.spark.sink_stream --from host:port,… --to host:port,… --checkpoint DIR
    python -m tests.spark.sink_stream --path PATTERN --to host:port,… --checkpoint DIR

Ends by SIGINT. A query whose other Python processes died is restarted, as `pykraft pipeline run` does.
"""

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql.streaming.query import StreamingQuery

from pykraft.spark.pipeline.run import KeptQuery
from pykraft.spark.session.local import open_session, prepare_environment, session_settings
from tests.spark.archive import FEW_ROWS, QUICKLY

WAIT_S = 1.0
BATCH_SIZE_BYTES = "4096"
"""Many record batches in each micro-batch, so that kills hit between them."""


def main(words: Sequence[str]) -> None:
    """The command line; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sources = parser.add_mutually_exclusive_group(required=True)
    sources.add_argument("--from", dest="bootstrap")
    sources.add_argument("--path")
    parser.add_argument("--to", required=True)
    parser.add_argument("--checkpoint", required=True)
    options = parser.parse_args(words)
    prepare_environment()
    settings = session_settings("a stream into a quorum") | FEW_ROWS
    settings["spark.driver.extraJavaOptions"] += f" {QUICKLY}"
    spark = open_session(settings)

    given = {"bootstrap.controllers": options.bootstrap} if options.bootstrap else {"path": options.path}

    def start() -> StreamingQuery:
        source = spark.readStream.format("pykraft").options(**given)
        frame = source.schema("value binary, is_control boolean").load().where("not is_control").select("value")
        writer = frame.writeStream.format("pykraft").option("bootstrap.controllers", options.to)
        writer = writer.option("maxBatchBytes", BATCH_SIZE_BYTES).option("checkpointLocation", options.checkpoint)
        return writer.start()

    query = KeptQuery(start)
    while not query.wait(WAIT_S):
        pass


if __name__ == "__main__":
    main(sys.argv[1:])
