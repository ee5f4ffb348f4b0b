"""A run of the demo as data: its options, its result in numbers with the problems, and what the report draws.

Invariants: the nodes accept every load that the options accept. No content of a log ends the demo: an unreadable or
differing log becomes a problem in the result, and the other logs are still compared. Times are wall ms of the one
machine on which everything ran, so they share one axis; `Story.seconds_since_begin` makes them relative.
"""

import shutil
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.demo.live_tables import MicroBatch
from lab.demo.payloads import Audit
from lab.nodes.logs import Stream, read_stream, require_identical
from lab.nodes.sampler import QuorumSample
from lab.nodes.verdict import check_journal
from pykraft.errors import LocalQuorumError, ProtocolError, UsageError
from pykraft.local.journal import Acknowledged, record_spans
from pykraft.server.workload import TELLING_SIZE_BYTES_MIN, Load
from pykraft.text.words import counted, percentiles

SECONDS_MIN = 2
SECONDS_MAX = 86_400
NODES_MAX = 9
FREE_SIZE_BYTES_MIN = 256 * 1024 * 1024
"""Free space needed beside the logs: for Spark's files, the nodes' output and the journal."""
_RECORD_OVERHEAD_BYTES = 16
_TABLES_COPIES = 3
"""The tables of batches and of records, and Spark's copies of them; each no larger than the log."""
SHARES = {"p50": 0.5, "p99": 0.99}


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """The options of the command line. ``throughput`` is in records per second. Errors: UsageError."""

    seconds: float = 20.0
    nodes: int = 3
    throughput: int = 5_000
    record_size_bytes: int = 256
    kill_leader: bool = False

    def __post_init__(self) -> None:
        if not SECONDS_MIN <= self.seconds <= SECONDS_MAX:
            raise UsageError(f"--seconds {self.seconds:g}: give {SECONDS_MIN} to {SECONDS_MAX}")
        if not 1 <= self.nodes <= NODES_MAX:
            raise UsageError(f"--nodes {self.nodes}: give 1 to {NODES_MAX}")
        if self.kill_leader and self.nodes < 3:
            raise UsageError(f"--kill-leader needs --nodes 3 or more: {self.nodes} cannot elect a leader without one")
        if self.throughput < 1:
            raise UsageError(f"--throughput {self.throughput}: give records per second, at least 1")
        if self.record_size_bytes < TELLING_SIZE_BYTES_MIN:
            needs = f"give at least {TELLING_SIZE_BYTES_MIN} bytes, so that each record can be identified"
            raise UsageError(f"--record-size {self.record_size_bytes}: {needs}")
        Load(
            records_per_s=self.throughput, record_size_bytes=self.record_size_bytes
        )  # rejects what a node would reject

    def check_disk(self, folder: Path) -> None:
        """Reject a demo that does not fit on the disk. Errors: UsageError."""
        record_size_bytes = self.record_size_bytes + _RECORD_OVERHEAD_BYTES
        copies = self.nodes + _TABLES_COPIES
        needed = int(FREE_SIZE_BYTES_MIN + copies * self.seconds * self.throughput * record_size_bytes)
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise UsageError(f"{folder}: {free >> 20} MiB are free, the demo needs {needed >> 20} MiB; use --data DIR")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaComparison:
    """``furthest`` is the directory of the longest valid log; None if no log is valid."""

    are_identical: bool
    problems: tuple[str, ...]
    furthest: Path | None


def compare(partitions: Mapping[str, Path], said: Iterable[Acknowledged], *, end_offset: int) -> ReplicaComparison:
    """Compare these replicas up to an offset that all have reached, and compare the longest with the journal."""
    problems: list[str] = []
    streams: dict[str, Stream] = {}
    for name, partition in partitions.items():
        try:
            streams[name] = read_stream(partition)
        except (LocalQuorumError, ProtocolError) as error:
            problems.append(f"the log of {name} is damaged: {_one_line(error)} ({partition})")
    if not streams:
        return ReplicaComparison(are_identical=False, problems=tuple(problems), furthest=None)
    try:
        require_identical(streams, end_offset=end_offset)
    except LocalQuorumError as error:
        problems.append(_one_line(error))
    are_identical = not problems
    furthest = max(streams, key=lambda name: (streams[name].last_epoch, streams[name].end_offset))
    try:
        problems += check_journal(said, record_spans(streams[furthest].data)).problems
    except ProtocolError as error:
        problems.append(f"the log of {furthest}: {_one_line(error)}")
    return ReplicaComparison(are_identical=are_identical, problems=tuple(problems), furthest=partitions[furthest])


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split("\n"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The audit by Spark, the comparison without Spark, and times. ``failover_ms`` is None if no leader was killed.

    ``seconds`` is how long the load lasted. ``batch_latency_ms`` is None if all records were acknowledged
    before Spark began to read. ``not_killed`` is why the leader was not killed although it should be.
    """

    audit: Audit
    comparison: ReplicaComparison
    failover_ms: int | None
    seconds: float
    commit_latency_ms: dict[str, float]
    batch_latency_ms: dict[str, float] | None
    not_killed: str | None = None

    @property
    def problems(self) -> list[str]:
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
        not_killed = [] if self.not_killed is None else [self.not_killed]
        return [*(text for text, is_so in checks.items() if is_so), *not_killed, *self.comparison.problems]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A leader that was killed with kill -9, and the fail-over; times in wall ms."""

    node_id: int
    killed_wall_ms: int
    leader_id: int
    """The node that took over, in ``epoch``."""
    epoch: int
    elected_wall_ms: int
    """When that node reported its leadership: its LeaderChange was committed."""
    acknowledged_wall_ms: int
    """When it acknowledged its first records."""
    restarted_wall_ms: int | None
    """When the killed node was restarted; None if it was not."""

    @property
    def failover_ms(self) -> int:
        """From the kill to the first acknowledgement by another node."""
        return self.acknowledged_wall_ms - self.killed_wall_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One run. ``begin_wall_ms`` and ``end_wall_ms`` are those of the load."""

    options: DemoOptions
    begin_wall_ms: int
    end_wall_ms: int
    acknowledged: tuple[Acknowledged, ...]
    """The acknowledgements in the order of the journal."""
    samples: tuple[QuorumSample, ...]
    batches: tuple[MicroBatch, ...]
    kills: tuple[Kill, ...]
    result: Result

    def seconds_since_begin(self, wall_ms: float) -> float:
        """A time on the axis of the run."""
        return (wall_ms - self.begin_wall_ms) / 1_000
