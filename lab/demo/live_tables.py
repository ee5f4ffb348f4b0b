"""Runs Spark and the pipeline beside the load: its process, its session, and the query that fills the tables.

Spark takes seconds to start, and a micro-batch takes one, so all of this runs in a thread; the code that runs the load
calls `LiveTables.check` from time to time. Why a process or Spark failed is said in one line; a full disk is reported
as such, whichever process met it first.

Invariant: a micro-batch is reported after Spark finished it, so its rows are in all tables by then.

Source: Spark's ``StreamingQueryListener``.
"""

import errno
import json
import os
import re
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

from pykraft.errors import LocalQuorumError, PykraftError, StorageError
from pykraft.local.child import Child, Children
from pykraft.spark.error_text import reason
from pykraft.spark.pipeline.run import PipelineOptions, start_pipeline
from pykraft.spark.session.jvm import Jvm
from pykraft.spark.session.local import session_settings
from pykraft.spark.tables.delta import DeltaTables
from pykraft.types import Endpoint

NO_SPACE = os.strerror(errno.ENOSPC)
_OUR_LINE = re.compile(r"^pykraft: (.*)$", re.MULTILINE)
STALL_S = 300.0
"""Much longer than a micro-batch takes, even on a busy machine: a query that is silent for this long is stuck."""
POLL_S = 0.1
RECORDS_PER_BATCH_MAX = 500_000
BATCH_SIZE_BYTES_MAX = 64 * 1024 * 1024
"""The pipeline catches up in such steps with what was written before Spark had started."""


class ExplainedError(LocalQuorumError):
    """An error whose message explains itself; no log is printed with it."""


def failed(folder: Path, who: str, output: str) -> PykraftError:
    """The error for what ``who`` could not do; ``output`` is all that it printed about it."""
    if NO_SPACE in output:
        return StorageError(folder, f"the disk is full, so {who} cannot continue; free space, or use --data DIR")
    return ExplainedError(f"{who} cannot continue: {reason(output)}")


def ended(folder: Path, process: Child) -> PykraftError:
    log = process.log()
    if NO_SPACE in log:
        return failed(folder, process.name, log)
    said = _OUR_LINE.findall(log)
    text = f"{process.name} ended on its own with status {process.status}"
    return ExplainedError(f"{text}: {said[-1]}") if said else LocalQuorumError(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """One finished micro-batch: the end offset of its records, when it ended (wall ms), how long it took."""

    batch_id: int
    end_offset: int
    ended_wall_ms: int
    duration_ms: int


class LiveTables:
    """See the module. All calls must come from one thread."""

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
        """The tables hold everything below this offset."""
        return self.batches[-1].end_offset if self.batches else 0

    @property
    def tables(self) -> DeltaTables:
        return self._options().tables()

    @property
    def awaited(self) -> str:
        """What the first rows of the tables wait for."""
        return "Spark's first micro-batch" if self._query.done() else "Spark to start"

    def follow(self, controllers: Sequence[Endpoint]) -> None:
        """Start to read this quorum as soon as Spark is up."""
        self._controllers.set_result(controllers)

    def check(self) -> None:
        """Check that Spark and the stream are running.

        Errors: StorageError if the disk is full; LocalQuorumError if Spark or the stream has ended or is stuck.
        """
        if self._jvm.process.status is not None:
            raise ended(self._folder, self._jvm.process)
        if self._failure is not None:
            raise self._failure
        if time.monotonic() - self._heard_s > STALL_S:
            raise LocalQuorumError(f"the tables have been stuck at offset {self.end_offset} for {STALL_S:g} s")

    def wait_for(self, end_offset: int, passing: Callable[[], None]) -> None:
        """Wait until the tables hold everything below this offset; calls ``passing`` meanwhile. Errors: as `check`."""
        self._heard_s = time.monotonic()
        while self.end_offset < end_offset:
            self.check()
            passing()
            time.sleep(POLL_S)

    def stop(self) -> SparkSession:
        """Stop the stream; then the session is free for queries. Errors: as `check`."""
        self.check()
        try:
            self._query.result().stop()
        except (PySparkException, Py4JError) as error:
            raise failed(self._folder, "the stream", str(error)) from error
        return self._session.result()

    def close(self) -> None:
        """Stop Spark. Errors: none; a process that does not end is killed with its block."""
        with suppress(PySparkException, Py4JError, OSError):
            if self._session.done():
                self._session.result().stop()
        self._jvm.close()

    def _run(self) -> None:
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
    """Convert Spark's progress report."""
    begun = datetime.fromisoformat(progress.timestamp)
    duration_ms = progress.durationMs["triggerExecution"]
    return MicroBatch(
        batch_id=progress.batchId,
        end_offset=json.loads(progress.sources[0].endOffset)["offset"],
        ended_wall_ms=round(begun.timestamp() * 1_000) + duration_ms,
        duration_ms=duration_ms,
    )


class _Listener(StreamingQueryListener):
    def __init__(self, ended: Callable[[StreamingQueryProgress], None], terminated: Callable[[str], None]) -> None:
        self._ended = ended
        self._terminated = terminated

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """See `StreamingQueryListener`."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self._ended(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """See `StreamingQueryListener`."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        if event.exception is not None:
            self._terminated(event.exception)
