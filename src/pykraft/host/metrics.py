"""Measurements of a node, and the table of its metrics: Kafka's names, and a few of ours.

This module keeps what the core's state does not show: how long commits, elections and storage jobs take, and how many
records are appended and fetched. Invariant: recording costs constant time per append and storage job, and memory is
bounded by the leader's uncommitted batches and the unfinished storage jobs. A metric without a meaning at the moment (a
leader's, on a follower) is absent, as are all before start and after the end. The server measures the machine's clocks,
loop and sockets itself.

A `Sensor` keeps `SAMPLES` samples of `SAMPLE_MS` each, as sums, in the order of their start. A sample that began a
whole window ago no longer counts, so a result covers the last 30 to 60 seconds. A rate is divided by the time since the
oldest sample began. If that is less than a whole sample, one more whole sample is added, so that a single burst after a
silence does not look like a steady flow. Without values, average and maximum are NaN, and a rate is 0.

Source: Kafka's ``KafkaRaftMetrics`` (group ``raft-metrics``), ``SampledStat``, ``Avg``, ``Max``, ``Rate`` with
``WindowedSum``, and ``TimeRatio``; KIP-595 §Metrics, KIP-853 §Metrics.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from math import nan
from typing import Final, TypeAlias

from pykraft.core.effects import PlannedBatch
from pykraft.core.leader.pending import Addition, Removal
from pykraft.core.raft import Raft
from pykraft.core.state import Leader
from pykraft.core.status import LEADER, RESIGNED
from pykraft.types import ZERO_UUID, Instant, Io, NodeId, Offset, Uuid, uuid_text
from pykraft.value import value

SAMPLES: Final = 2
SAMPLE_MS: Final = 30_000
DEFAULT_RATIO: Final = 1.0


@dataclass(slots=True, kw_only=True)
class _Sample:
    begun_ms: float
    total: float = 0.0
    count: int = 0
    largest: float = 0.0


class Sensor:
    """Values of one kind, each >= 0."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque(maxlen=SAMPLES)

    def record(self, value: float, now_ms: float) -> None:
        self.record_all(1, value, value, now_ms)

    def record_all(self, count: int, total: float, largest: float, now_ms: float) -> None:
        """So many values, whose sum and largest are these."""
        sample = self._samples[-1] if self._samples else None
        if sample is None or now_ms - sample.begun_ms >= SAMPLE_MS:
            sample = _Sample(begun_ms=now_ms)
            self._samples.append(sample)
        sample.total += total
        sample.count += count
        sample.largest = max(sample.largest, largest)

    def average(self, now_ms: float) -> float:
        """The mean of the values in the window; NaN without one."""
        samples = self._live(now_ms)
        return sum(sample.total for sample in samples) / sum(sample.count for sample in samples) if samples else nan

    def maximum(self, now_ms: float) -> float:
        """The largest value in the window; NaN without one."""
        return max((sample.largest for sample in self._live(now_ms)), default=nan)

    def rate_per_s(self, now_ms: float) -> float:
        """The sum of the values in the window, per second."""
        return self._per_s(now_ms, lambda sample: sample.total)

    def count_per_s(self, now_ms: float) -> float:
        """How many values there were in the window, per second."""
        return self._per_s(now_ms, lambda sample: sample.count)

    def _per_s(self, now_ms: float, amount: Callable[[_Sample], float]) -> float:
        samples = self._live(now_ms)
        if not samples:
            return 0.0
        elapsed_ms = now_ms - samples[0].begun_ms
        missing = max(0, SAMPLES - 1 - int(elapsed_ms // SAMPLE_MS))
        return sum(map(amount, samples)) / (elapsed_ms + missing * SAMPLE_MS) * 1_000

    def _live(self, now_ms: float) -> list[_Sample]:
        return [sample for sample in self._samples if now_ms - sample.begun_ms < SAMPLES * SAMPLE_MS]


class TimeRatio:
    """The share of time covered by the recorded pieces since the last measurement.

    An interval ends where the last piece ended, not where it is measured, so a piece in progress belongs to the next
    interval. The ratio is then right however measurements and pieces overlap. It is capped at 1, and `DEFAULT_RATIO`
    while there is nothing to divide.
    """

    def __init__(self) -> None:
        self._total_ms = 0.0
        self._begun_ms: float | None = None
        self._last_ms: float | None = None

    def record(self, duration_ms: float, now_ms: float) -> None:
        """A piece of this length ended now."""
        if self._begun_ms is None:
            # The first piece only starts the first interval: we do not know how much of it lies within.
            self._begun_ms = now_ms
            return
        self._total_ms += duration_ms
        self._last_ms = now_ms

    def measure(self) -> float:
        """The ratio since the last measurement; starts the next interval."""
        if self._begun_ms is None or self._last_ms is None:
            return DEFAULT_RATIO
        elapsed_ms = self._last_ms - self._begun_ms
        ratio = min(1.0, self._total_ms / elapsed_ms) if elapsed_ms > 0 else DEFAULT_RATIO
        self._begun_ms, self._total_ms = self._last_ms, 0.0
        return ratio


Metrics: TypeAlias = Mapping[str, int | float | str]
"""Values by name. Unknown is -1 for a number or an id, and NaN for a measurement."""

STATES: Final = (
    "leader",
    "prospective",
    "prospective-voted",
    "candidate",
    "unattached-voted",
    "follower",
    "observer",
    "unattached",
)
"""Values of ``current-state``."""
_NOMINEES: Final = frozenset({"prospective", "prospective-voted", "candidate"})
_ELECTED: Final = frozenset({"leader", "follower", "observer"})


class MetricKind(Enum):
    """What kind of value a metric has."""

    STATE = "state"
    TEXT = "text"
    GAUGE = "gauge"
    COUNTER = "counter"
    SENSOR = "sensor"


@value(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric, with its description for operators."""

    name: str
    kind: MetricKind
    unit: str
    meaning: str
    is_ours: bool = False


def kafkas(name: str, kind: MetricKind, unit: str, meaning: str) -> Metric:
    """A metric that Kafka has too, under this name."""
    return Metric(name=name, kind=kind, unit=unit, meaning=meaning)


def ours(name: str, kind: MetricKind, unit: str, meaning: str) -> Metric:
    """A metric that only pykraft has."""
    return Metric(name=name, kind=kind, unit=unit, meaning=meaning, is_ours=True)


HOST_METRICS: Final = (
    kafkas("current-state", MetricKind.STATE, "", "state of this node; a leader that resigned is unattached"),
    kafkas("current-leader", MetricKind.GAUGE, "node id", "the leader of the epoch, -1 while unknown"),
    kafkas("current-vote", MetricKind.GAUGE, "node id", "candidate that this node voted for in the epoch, -1 for none"),
    kafkas(
        "current-vote-directory-id", MetricKind.TEXT, "uuid", "directory id of the current vote, zero while unknown"
    ),
    kafkas("current-epoch", MetricKind.GAUGE, "epoch", "the epoch of this node"),
    kafkas("high-watermark", MetricKind.GAUGE, "offset", "everything below it is committed, -1 while unknown"),
    kafkas(
        "log-end-offset", MetricKind.GAUGE, "offset", "end of this node's log (exclusive), unflushed records included"
    ),
    kafkas("log-end-epoch", MetricKind.GAUGE, "epoch", "epoch of the last record, 0 for an empty log"),
    kafkas("number-unknown-voter-connections", MetricKind.GAUGE, "voters", "always 0: the voter set has the endpoints"),
    kafkas("number-of-voters", MetricKind.GAUGE, "voters", "size of the voter set"),
    kafkas(
        "number-of-observers", MetricKind.GAUGE, "replicas", "observers that fetch from this leader; of a leader only"
    ),
    kafkas(
        "uncommitted-voter-change", MetricKind.GAUGE, "0 or 1", "a voter is being added or removed; of a leader only"
    ),
    kafkas("ignored-static-voters", MetricKind.GAUGE, "0 or 1", "the log's voter set overrides the configured voters"),
    kafkas(
        "commit-latency-avg", MetricKind.SENSOR, "ms", "time from append to commit of a batch, divided by its records"
    ),
    kafkas("commit-latency-max", MetricKind.SENSOR, "ms", "the longest commit-latency"),
    kafkas("election-latency-avg", MetricKind.SENSOR, "ms", "time from this node's last nomination to a known leader"),
    kafkas("election-latency-max", MetricKind.SENSOR, "ms", "the longest election-latency"),
    kafkas("fetch-records-rate", MetricKind.SENSOR, "records/s", "records fetched from the leader"),
    kafkas("append-records-rate", MetricKind.SENSOR, "records/s", "records appended as the leader"),
    ours("batch-commit-latency-avg", MetricKind.SENSOR, "ms", "time from append to commit of a whole batch"),
    ours("batch-commit-latency-max", MetricKind.SENSOR, "ms", "the longest batch-commit-latency"),
    ours("storage-latency-avg", MetricKind.SENSOR, "ms", "time until a storage job is durable"),
    ours("storage-latency-max", MetricKind.SENSOR, "ms", "the longest storage-latency"),
    ours("storage-unflushed-jobs", MetricKind.GAUGE, "jobs", "appends and truncations that are not durable yet"),
    ours("quarantined", MetricKind.GAUGE, "0 or 1", "part of this node's log is damaged, and it does not vote"),
    ours(
        "unproven",
        MetricKind.GAUGE,
        "0 or 1",
        "this node's directory may have been emptied, and it does not vote or count",
    ),
    ours("damaged-places", MetricKind.GAUGE, "places", "known damaged places of the log, at most 100"),
    ours("scrubbed-bytes-total", MetricKind.COUNTER, "bytes", "bytes of the log that were read again to find damage"),
    ours(
        "failed-snapshots-total",
        MetricKind.COUNTER,
        "failures",
        "snapshot files that could not be written or read; the node goes on, and tries again",
    ),
    ours("undecided-proposals", MetricKind.GAUGE, "proposals", "proposals of the application without an outcome"),
    ours(
        "refused-epochs-total",
        MetricKind.COUNTER,
        "requests",
        "requests and answers that wanted to raise the epoch too far",
    ),
    ours(
        "authorization-refusals-total",
        MetricKind.COUNTER,
        "refusals",
        "what others wanted and may not do, and requests in the name of a node that is another one",
    ),
    ours(
        "closed-for-violation-total",
        MetricKind.COUNTER,
        "connections",
        "connections closed because of what a peer sent",
    ),
)
"""All metrics of a host, in the order of the documentation."""


@value(frozen=True, slots=True)
class _Uncommitted:
    """A batch of this leader; the end is exclusive, the time mono."""

    end_offset: Offset
    records: int
    appended_ms: int


class Measurements:
    """What a node measures while it works; effects report to it."""

    def __init__(self) -> None:
        self.commit_per_record = Sensor()
        self.commit = Sensor()
        self.election = Sensor()
        self.storage = Sensor()
        self.fetched_records = Sensor()
        self.appended_records = Sensor()
        self._uncommitted: deque[_Uncommitted] = deque()
        self._unfinished: deque[tuple[Io, int]] = deque()
        self._nominated_ms: int | None = None

    def appended(self, batches: tuple[PlannedBatch, ...], now: Instant) -> None:
        for batch in batches:
            records = batch.end_offset - batch.base_offset
            self._uncommitted.append(_Uncommitted(batch.end_offset, records, now.mono_ms))
        self.appended_records.record(batches[-1].end_offset - batches[0].base_offset, now.mono_ms)

    def fetched(self, records: int, now: Instant) -> None:
        self.fetched_records.record(records, now.mono_ms)

    def committed(self, high_watermark: Offset, now: Instant) -> None:
        uncommitted = self._uncommitted
        while uncommitted and uncommitted[0].end_offset <= high_watermark:
            done = uncommitted.popleft()
            latency_ms = now.mono_ms - done.appended_ms
            self.commit.record(latency_ms, now.mono_ms)
            self.commit_per_record.record(latency_ms / done.records, now.mono_ms)

    def role_changed(self, role: str, now: Instant) -> None:
        """The role changed: a nomination starts an election, a known leader ends it."""
        if role != LEADER:
            self._uncommitted.clear()
        if role in _NOMINEES:
            self._nominated_ms = now.mono_ms
        elif role in _ELECTED and self._nominated_ms is not None:
            self.election.record(now.mono_ms - self._nominated_ms, now.mono_ms)
            self._nominated_ms = None

    def submitted(self, io: Io, now: Instant) -> None:
        self._unfinished.append((io, now.mono_ms))

    def durable(self, io: Io, now: Instant) -> None:
        """Storage finished every job up to this one."""
        unfinished = self._unfinished
        while unfinished and unfinished[0][0] <= io:
            self.storage.record(now.mono_ms - unfinished.popleft()[1], now.mono_ms)


def read_metrics(
    raft: Raft,
    measured: Measurements,
    *,
    node_id: NodeId | None,
    directory_id: Uuid,
    counts: Mapping[str, int],
    now: Instant,
) -> dict[str, int | float | str]:
    """The current values of `HOST_METRICS`; leader metrics only on a leader.

    ``counts``: those that components of the host count, by name.
    """
    now_ms = now.mono_ms
    status, state = raft.status, raft.state
    voted, quarantine = status.voted, status.quarantine
    vote_id, vote_directory_id = (voted.id, voted.directory_id) if voted else (None, None)
    if isinstance(state, Leader):
        vote_id, vote_directory_id = node_id, directory_id
    values: dict[str, int | float | str] = {
        "current-state": "unattached" if status.role == RESIGNED else status.role,
        "current-leader": _or_unknown(status.leader_id),
        "current-vote": _or_unknown(vote_id),
        "current-vote-directory-id": uuid_text(vote_directory_id or ZERO_UUID),
        "current-epoch": status.epoch,
        "high-watermark": _or_unknown(status.high_watermark),
        "log-end-offset": status.log_end_offset,
        "log-end-epoch": raft.log.last_epoch,
        "number-unknown-voter-connections": 0,
        "number-of-voters": len(status.voters),
        "ignored-static-voters": int(raft.voter_history.ignores_static),
    }
    if isinstance(state, Leader):
        values["number-of-observers"] = state.progress.observers_count(now)
        values["uncommitted-voter-change"] = int(isinstance(state.change, Addition | Removal))  # an upgrade adds nobody
    sensors = {
        "commit-latency": measured.commit_per_record,
        "election-latency": measured.election,
        "batch-commit-latency": measured.commit,
        "storage-latency": measured.storage,
    }
    for name, sensor in sensors.items():
        values[f"{name}-avg"] = sensor.average(now_ms)
        values[f"{name}-max"] = sensor.maximum(now_ms)
    values["fetch-records-rate"] = measured.fetched_records.rate_per_s(now_ms)
    values["append-records-rate"] = measured.appended_records.rate_per_s(now_ms)
    values["storage-unflushed-jobs"] = raft.log.unflushed_count
    values["quarantined"] = 0 if quarantine is None else 1
    values["unproven"] = int(not status.is_proven)
    values["damaged-places"] = 0 if quarantine is None else len(quarantine.damages)
    values |= counts
    values["refused-epochs-total"] = raft.refused_epochs
    return values


def _or_unknown(number: int | None) -> int:
    return -1 if number is None else number
