"""The result of the demo in numbers, and its problems."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from lab.demo.audit import Audit
from lab.demo.live_tables import MicroBatch
from lab.demo.replicas import ReplicaComparison
from pykraft.client.journal import Acknowledged
from pykraft.text.words import counted, percentiles

SHARES = {"p50": 0.5, "p99": 0.99}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The audit by Spark, the comparison without Spark, and times. ``failover_ms`` is None if no leader was killed.

    ``seconds`` is how long the load lasted. ``batch_latency_ms`` is None if all records were acknowledged
    before Spark began to read.
    """

    audit: Audit
    comparison: ReplicaComparison
    failover_ms: int | None
    seconds: float
    commit_latency_ms: dict[str, float]
    batch_latency_ms: dict[str, float] | None

    @property
    def problems(self) -> list[str]:
        """Everything that is wrong, as text."""
        found = self.audit
        rows = f"the tables hold {counted(found.spark_rows, 'record')}, the log {found.committed_records:,}"
        checks = {
            "no record was acknowledged": found.acknowledged == 0,
            f"{counted(found.duplicates, 'record')} duplicated in the tables": found.duplicates > 0,
            f"{counted(found.missing, 'acknowledged record')} missing from the tables": found.missing > 0,
            f"{counted(found.out_of_order, 'record')} out of order in the tables": found.out_of_order > 0,
            f"{counted(found.strays, 'record')} in the tables that are not so in the log": found.strays > 0,
            rows: found.spark_rows != found.committed_records,
            "the tables do not hold the same records": not found.tables_agree,
            "the leader was killed, but no other node led": self.failover_ms is not None and found.leader_epochs < 2,
        }
        return [*(text for text, is_so in checks.items() if is_so), *self.comparison.problems]

    def as_json(self) -> dict[str, object]:
        """For ``--json``: counts of records, times in seconds or milliseconds."""
        found = self.audit
        return {
            "committed_records": found.committed_records,
            "acknowledged": found.acknowledged,
            "spark_rows": found.spark_rows,
            "duplicates": found.duplicates,
            "missing": found.missing,
            "out_of_order": found.out_of_order,
            "strays": found.strays,
            "tables_agree": found.tables_agree,
            "replicas_identical": self.comparison.are_identical,
            "failover_ms": self.failover_ms,
            "leader_epochs": found.leader_epochs,
            "records_per_second": round(found.acknowledged / self.seconds, 1),
            "commit_latency_ms": self.commit_latency_ms,
            "batch_latency_ms": self.batch_latency_ms,
            "seconds": round(self.seconds, 3),
            "problems": self.problems,
        }


def commit_latencies_ms(said: Sequence[Acknowledged]) -> dict[str, float]:
    """Median and 99th percentile of the time from append to commit, over records."""
    return percentiles(((one.latency_ms, one.count) for one in said), SHARES)


def batch_latencies_ms(said: Sequence[Acknowledged], batches: Sequence[MicroBatch]) -> dict[str, float] | None:
    """Median and 99th percentile of the time from acknowledgement to table, over records.

    A record is in the tables when its micro-batch has ended. None: Spark began to read after the last record.
    """
    if not batches:
        return None
    live_since_ms = batches[0].ended_wall_ms
    ends = [batch.end_offset for batch in batches]
    waits: list[tuple[float, int]] = []
    for one in said:
        index = bisect_left(ends, one.end_offset)
        # Records acknowledged before the first micro-batch ended waited for Spark to start.
        if one.wall_ms >= live_since_ms and index < len(batches):
            waits.append((float(max(0, batches[index].ended_wall_ms - one.wall_ms)), one.count))
    return percentiles(waits, SHARES) if waits else None
