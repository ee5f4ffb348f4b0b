"""Made-up stories of runs: half a minute of load, a killed leader, tables that follow."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from lab.demo.live_tables import MicroBatch
from lab.demo.result import DemoOptions, Kill, ReplicaComparison, Result, Story, batch_latencies_ms, commit_latencies_ms
from lab.nodes.sampler import QuorumSample, ReplicaSample
from pykraft.local.journal import Acknowledged
from pykraft.types import Epoch, NodeId, Offset
from tests.lab.demo.audits import clean_audit

BEGIN_MS = 1_700_000_000_000
SECONDS = 30
KILLED_MS = BEGIN_MS + 15_200
ELECTED_MS = KILLED_MS + 1_480
ACKNOWLEDGED_MS = ELECTED_MS + 35
RESTARTED_MS = ACKNOWLEDGED_MS + 20
CAUGHT_UP_MS = RESTARTED_MS + 2_300
STEP_MS = 20
RECORDS_PER_STEP = 100
KILL = Kill(
    node_id=2,
    killed_wall_ms=KILLED_MS,
    leader_id=3,
    epoch=2,
    elected_wall_ms=ELECTED_MS,
    acknowledged_wall_ms=ACKNOWLEDGED_MS,
    restarted_wall_ms=RESTARTED_MS,
)


def story(*, is_leader_killed: bool = True, missing: int = 0) -> Story:
    """A run at 5,000 records a second; records may be missing in its tables."""
    rng = Random(5)
    said = tuple(_acknowledged(rng, is_leader_killed=is_leader_killed))
    batches = tuple(_batches(said))
    total = sum(one.count for one in said)
    problems = ("node 1 and node 3 differ at offset 17",) if missing else ()
    audit = replace(
        clean_audit(total, leader_epochs=2 if is_leader_killed else 1), spark_rows=total - missing, missing=missing
    )
    result = Result(
        audit=audit,
        comparison=ReplicaComparison(are_identical=not problems, problems=problems, furthest=None),
        failover_ms=KILL.failover_ms if is_leader_killed else None,
        seconds=SECONDS,
        commit_latency_ms=commit_latencies_ms(said),
        batch_latency_ms=batch_latencies_ms(said, batches),
    )
    return Story(
        options=DemoOptions(seconds=SECONDS, kill_leader=is_leader_killed),
        begin_wall_ms=BEGIN_MS,
        end_wall_ms=BEGIN_MS + SECONDS * 1_000,
        acknowledged=said,
        samples=tuple(_samples(rng, is_leader_killed=is_leader_killed)),
        batches=batches,
        kills=(KILL,) if is_leader_killed else (),
        result=result,
    )


def _acknowledged(rng: Random, *, is_leader_killed: bool) -> Iterator[Acknowledged]:
    offset, sequence, former_epoch = 1, 0, 1
    for at_ms in range(STEP_MS, SECONDS * 1_000, STEP_MS):
        wall_ms = BEGIN_MS + at_ms
        is_second = is_leader_killed and wall_ms > KILLED_MS
        if is_second and wall_ms < ACKNOWLEDGED_MS:
            continue
        epoch = 2 if is_second else 1
        if epoch != former_epoch:
            offset, sequence, former_epoch, wall_ms = offset + 1, 0, epoch, ACKNOWLEDGED_MS
        yield Acknowledged(
            node=NodeId(3 if is_second else 2),
            run=bytes([epoch] * 8),
            epoch=Epoch(epoch),
            first_sequence=sequence,
            count=RECORDS_PER_STEP,
            base_offset=Offset(offset),
            wall_ms=wall_ms,
            latency_ms=rng.lognormvariate(2.0, 0.5) + (60 if wall_ms == ACKNOWLEDGED_MS else 0),
        )
        offset, sequence = offset + RECORDS_PER_STEP, sequence + RECORDS_PER_STEP


def _batches(said: tuple[Acknowledged, ...]) -> Iterator[MicroBatch]:
    wall_ms, duration_ms, batch_id = BEGIN_MS + 9_000, 4_000, 0
    while True:
        held = [one.end_offset for one in said if one.wall_ms <= wall_ms - duration_ms + 50]
        yield MicroBatch(batch_id=batch_id, end_offset=held[-1], ended_wall_ms=wall_ms, duration_ms=duration_ms)
        if held[-1] == said[-1].end_offset:
            return
        duration_ms = max(900, duration_ms * 2 // 3)
        wall_ms, batch_id = wall_ms + duration_ms, batch_id + 1


def _samples(rng: Random, *, is_leader_killed: bool) -> Iterator[QuorumSample]:
    for at_ms in range(100, SECONDS * 1_000, 200):
        wall_ms = BEGIN_MS + at_ms
        is_second = is_leader_killed and wall_ms > KILLED_MS
        if is_second and wall_ms < ELECTED_MS:
            yield QuorumSample(wall_ms=wall_ms)
            continue
        leader_id, end_offset = (3 if is_second else 2), at_ms * 5
        behind = {node_id: rng.randrange(150) for node_id in (1, 2, 3)} | {leader_id: 0}
        if is_second and wall_ms < CAUGHT_UP_MS:
            behind[2] = (CAUGHT_UP_MS - wall_ms) * 8
        replicas = {
            node_id: ReplicaSample(log_end_offset=end_offset - lag, lag=lag, last_caught_up_ms=wall_ms - lag // 5)
            for node_id, lag in behind.items()
        }
        if is_second and wall_ms < RESTARTED_MS + 300:
            replicas[2] = ReplicaSample(log_end_offset=-1, lag=-1, last_caught_up_ms=-1)
        yield QuorumSample(
            wall_ms=wall_ms,
            leader_id=leader_id,
            epoch=2 if is_second else 1,
            high_watermark=end_offset - 50,
            replicas=replicas,
        )
