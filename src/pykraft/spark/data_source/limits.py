"""The limits of a micro-batch: converts options to Spark's limit, and that to numbers; and what it waits for.

Spark takes one limit at a time. If both options are given, Spark gets the records; bytes are added when it asks. If
neither is given, there still is a limit, so that a stream that is far behind catches up in micro-batches of a bounded
size.

Source: PySpark's ``ReadLimit`` (SPARK 4.2); Spark's Kafka source (``maxOffsetsPerTrigger``,
``minOffsetsPerTrigger``, ``maxTriggerDelay``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, ReadMaxRows

from pykraft.spark.data_source.options import SourceOptions

SIZE_BYTES_PER_TRIGGER: Final = 1024 * 1024 * 1024


def default_limit(options: SourceOptions) -> ReadLimit:
    """The limit for Spark."""
    if options.records_per_trigger is not None:
        return ReadMaxRows(options.records_per_trigger)
    if options.size_bytes_per_trigger is not None:
        return ReadMaxBytes(options.size_bytes_per_trigger)
    return ReadMaxBytes(SIZE_BYTES_PER_TRIGGER)


def records_and_bytes(limit: ReadLimit, options: SourceOptions) -> tuple[int | None, int | None]:
    """Most records and bytes of a micro-batch under Spark's limit; None for no limit."""
    match limit:
        case ReadMaxRows():
            return limit.max_rows, options.size_bytes_per_trigger
        case ReadMaxBytes():
            return None, limit.max_bytes
        case _:
            return None, None


class TriggerDelay:
    """Holds a micro-batch back until it has enough records, but not for longer than the longest delay.

    The first one after a start is not held back, as with the Kafka source.
    """

    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._records_min = options.records_min_per_trigger
        self._delay_s_max = options.trigger_delay_ms_max / 1_000
        self._clock = clock
        self._triggered_at: float | None = None

    def holds_back(self, records: int) -> bool:
        """Whether to wait with so many new records; if not, the delay of the next micro-batch begins."""
        if self._records_min is None or not records:
            return False
        now_s = self._clock()
        is_late = self._triggered_at is None or now_s - self._triggered_at >= self._delay_s_max
        if records < self._records_min and not is_late:
            return True
        self._triggered_at = now_s
        return False
