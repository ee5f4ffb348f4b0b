"""What the demo found, in numbers, and whether that is as it must be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pykraft.client.journal import Acknowledged
from pykraft.client.journal_check import Verdict
from pykraft.spark.audit import Audit


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The audit by Spark, the verdict without Spark, and times. ``failover_ms`` None when no leader was killed."""

    audit: Audit
    verdict: Verdict
    failover_ms: int | None
    seconds: float
    latency_ms: dict[str, float]

    @property
    def problems(self) -> list[str]:
        """Everything that is not as it must be, in words."""
        found = self.audit
        checks = {
            "no record was acknowledged": found.acknowledged == 0,
            f"{found.duplicates} records stand in the log twice": found.duplicates > 0,
            f"{found.missing} acknowledged records are missing": found.missing > 0,
            f"{found.out_of_order} records are out of order": found.out_of_order > 0,
            "the replicas differ": not found.replicas_identical,
            "the leader was killed, but nobody else led": self.failover_ms is not None and found.leader_epochs < 2,
        }
        return [*(text for text, is_so in checks.items() if is_so), *self.verdict.problems]

    def as_json(self) -> dict[str, object]:
        """For ``--json``: counts of records, times in seconds or milliseconds."""
        return {
            **asdict(self.audit),
            "seconds": round(self.seconds, 3),
            "records_per_second": round(self.audit.acknowledged / self.seconds, 1),
            "failover_ms": self.failover_ms,
            "commit_latency_ms": self.latency_ms,
            "problems": self.problems,
        }


def latencies_ms(said: Sequence[Acknowledged]) -> dict[str, float]:
    """Median and 99th percentile of the time from append to commit, over records."""
    ascending = sorted((one.latency_ms, one.count) for one in said)
    total = sum(count for _, count in ascending)
    return {name: _percentile(ascending, total * share) for name, share in (("p50", 0.5), ("p99", 0.99))}


def _percentile(ascending: Sequence[tuple[float, int]], needed: float) -> float:
    seen = 0
    for latency_ms, count in ascending:
        seen += count
        if seen >= needed:
            return latency_ms
    return 0.0
