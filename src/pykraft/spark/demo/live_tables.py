"""The tables of a live quorum while they grow: Spark's process, its session and the pipeline's query, beside the load.

Spark takes seconds to come up and a micro-batch takes one, so all of that is in a thread; whoever runs the load looks
from time to time (`LiveTables.check`).

Owns Spark and the folder of the tables. Invariant: what is told of a micro-batch was told by Spark when it had ended,
and its rows are in all tables then. It refuses to know the load.

Source: Spark's ``StreamingQueryListener``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Thread

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryProgress

from pykraft.errors import LocalQuorumError, PykraftError
from pykraft.local.child import Children
from pykraft.spark.demo.failures import ended, failed
from pykraft.spark.jvm import Jvm
from pykraft.spark.pipeline.run import PipelineOptions, start_pipeline
from pykraft.spark.session import session_settings
from pykraft.spark.tables.table import Tables
from pykraft.types import Endpoint

STALL_S = 300.0
"""Much longer than a micro-batch takes, on a busy machine too: a query that is silent for so long stands still."""
POLL_S = 0.1
RECORDS_PER_BATCH_MAX = 500_000
BATCH_SIZE_BYTES_MAX = 64 * 1024 * 1024
"""So that what came before Spark was up is caught up with step by step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """One that is in the tables: the offset behind its last record, when it had ended (wall ms), how long it took."""

    batch_id: int
    end_offset: int
    ended_wall_ms: int
    duration_ms: int


class LiveTables:
    """See the module. All calls come from one thread."""

    def __init__(self, children: Children, folder: Path) -> None:
        """Start Spark. Errors: UsageError without a Java runtime."""
        self._folder = folder
        self.root = folder / "tables"
        self.batches: list[MicroBatch] = []
        settings = {**session_settings("pykraft demo"), "spark.sql.streaming.stopTimeout": "60s"}
        self._jvm = Jvm(children, folder / "spark", settings)
        self._controllers: Future[Sequence[Endpoint]] = Future()
        self._session: Future[SparkSession] = Future()
        self._query: Future[StreamingQuery] = Future()
        self._failure: PykraftError | None = None
        self._heard_s = time.monotonic()
        Thread(target=self._run, name="spark", daemon=True).start()

    @property
    def end_offset(self) -> int:
        """The tables hold everything below it."""
        return self.batches[-1].end_offset if self.batches else 0

    @property
    def tables(self) -> Tables:
        """The tables themselves."""
        return self._options().tables()

    def follow(self, controllers: Sequence[Endpoint]) -> None:
        """Begin to read this quorum, as soon as Spark is there."""
        self._controllers.set_result(controllers)

    def check(self) -> None:
        """Look whether it goes on.

        Errors: StorageError when the disk is full; LocalQuorumError when Spark or the stream ended, or stands still.
        """
        if self._jvm.process.status is not None:
            raise ended(self._folder, self._jvm.process)
        if self._failure is not None:
            raise self._failure
        if time.monotonic() - self._heard_s > STALL_S:
            raise LocalQuorumError(f"the tables stand still at offset {self.end_offset} for {STALL_S:g} s")

    def wait_for(self, end_offset: int, passing: Callable[[], None]) -> None:
        """Wait until the tables hold all below this offset; ``passing`` is called meanwhile. Errors: as `check`."""
        self._heard_s = time.monotonic()
        while self.end_offset < end_offset:
            self.check()
            passing()
            time.sleep(POLL_S)

    def stop(self) -> SparkSession:
        """End the stream; the session can be asked now. Errors: as `check`."""
        self.check()
        try:
            self._query.result().stop()
        except (PySparkException, Py4JError) as error:
            raise failed(self._folder, "the stream", str(error)) from error
        return self._session.result()

    def close(self) -> None:
        """End Spark. Errors: none; what does not end in order is killed with its block."""
        with suppress(PySparkException, Py4JError, OSError):
            if self._session.done():
                self._session.result().stop()
        self._jvm.close()

    def _run(self) -> None:
        """The thread: from the process to the query."""
        try:
            spark = self._jvm.session()
            self._session.set_result(spark)
            spark.streams.addListener(_Listener(self._ended, self._terminated))
            self._controllers.result()
            self._query.set_result(start_pipeline(spark, self._options()))
            self._heard_s = time.monotonic()
        except PykraftError as error:
            self._failure = error
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told in the other thread
            self._failure = failed(self._folder, "Spark", f"{error}\n{self._jvm.process.log()}")

    def _options(self) -> PipelineOptions:
        source = {
            "bootstrap.controllers": ",".join(map(str, self._controllers.result())),
            "maxRecordsPerTrigger": str(RECORDS_PER_BATCH_MAX),
            "maxBytesPerTrigger": str(BATCH_SIZE_BYTES_MAX),
        }
        return PipelineOptions(source=source, root=self.root, follow=True)

    def _ended(self, progress: StreamingQueryProgress) -> None:
        self._heard_s = time.monotonic()
        if progress.numInputRows:
            self.batches.append(micro_batch(progress))

    def _terminated(self, story: str) -> None:
        self._failure = failed(self._folder, "the stream", story)


def micro_batch(progress: StreamingQueryProgress) -> MicroBatch:
    """From Spark's words."""
    begun = datetime.fromisoformat(progress.timestamp)
    duration_ms = progress.durationMs["triggerExecution"]
    return MicroBatch(
        batch_id=progress.batchId,
        end_offset=json.loads(progress.sources[0].endOffset)["offset"],
        ended_wall_ms=round(begun.timestamp() * 1_000) + duration_ms,
        duration_ms=duration_ms,
    )


class _Listener(StreamingQueryListener):
    """Tells what Spark tells of queries."""

    def __init__(self, ended: Callable[[StreamingQueryProgress], None], terminated: Callable[[str], None]) -> None:
        self._ended = ended
        self._terminated = terminated

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """See `StreamingQueryListener`."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """See `StreamingQueryListener`."""
        self._ended(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """See `StreamingQueryListener`."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """See `StreamingQueryListener`."""
        if event.exception is not None:
            self._terminated(event.exception)
