"""Keeps a query running: restarts it where it was if only a Spark process died.

Spark retries a task whose Python worker died, but not the Python process that serves a source's offsets: if that is
killed, the query ends. A restart is harmless, since each micro-batch is in the tables once. Invariant: a query that
ended with an error of ours is not restarted, nor one that dies again and again without finishing a micro-batch.

Source: Spark's ``PythonStreamingSourceRunner``; the restarts of a supervisor (Erlang's intensity).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from pykraft.errors import PykraftError
from pykraft.spark.error_text import error_in, reason

RESTARTS_MAX = 3
"""Restarts without a finished micro-batch in between."""


class KeptQuery:
    """A query that ``start`` starts and restarts."""

    def __init__(self, start: Callable[[], StreamingQuery]) -> None:
        """Errors: those of ``start``."""
        self._start = start
        self._query = start()
        self._left = RESTARTS_MAX
        self._last_id = -1
        self._told: list[Mapping[str, Any]] = []
        self.restarts = 0
        self.newest: Mapping[str, Any] | None = None
        """Spark's newest report, with rows or not, as `progress` has found it."""

    def wait(self, timeout_s: float) -> bool:
        """Wait; True if the query has ended and everything is written. Errors: PykraftError with the reason."""
        try:
            return bool(self._query.awaitTermination(timeout_s))
        except StreamingQueryException as error:
            ours = error_in(str(error))
            self._look()
            if ours is not None or self._left == 0:
                raise (ours or PykraftError(f"the query ended: {reason(str(error))}")) from error
        self._left -= 1
        self.restarts += 1
        self._query = self._start()
        return False

    def progress(self) -> list[Mapping[str, Any]]:
        """Spark's reports of the micro-batches with rows that finished since the last call."""
        self._look()
        told, self._told = self._told, []
        return told

    def _look(self) -> None:
        for progress in self._query.recentProgress:
            self.newest = progress
            if progress["batchId"] > self._last_id and progress["numInputRows"]:
                self._last_id = progress["batchId"]
                self._told.append(progress)
                self._left = RESTARTS_MAX
