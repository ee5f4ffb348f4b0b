"""Runs the demo: three nodes as processes, a load, a leader killed with -9, then Spark over what is on disk.

The stages, in order; each must succeed before the next:

1. start the nodes, wait for a leader; 2. let it write for half of the time; 3. kill the leader, start it again, go on
for the other half; 4. wait until all replicas hold all that was acknowledged; 5. stop the nodes; 6. compare the logs
byte by byte and hold them against the journal without Spark; 7. the same questions, asked of the DataFrames.

Source: the claims it checks are KIP-595's: what is acknowledged is never lost, and all replicas hold the same log.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pykraft.client.journal import Acknowledged
from pykraft.errors import UsageError
from pykraft.local.child import Children
from pykraft.local.cluster import Cluster
from pykraft.server.workload import Load
from pykraft.spark.audit import acknowledged_frame, audit
from pykraft.spark.demo.result import Result, latencies_ms
from pykraft.spark.session import local_session

SECONDS_MIN = 2
SECONDS_MAX = 86_400
NODES_MAX = 9
FREE_SIZE_BYTES_MIN = 256 * 1024 * 1024
POLL_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """How large the demo is. ``throughput`` in records per second. Errors: UsageError."""

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
            raise UsageError(f"--kill-leader needs --nodes 3 or more: {self.nodes} cannot go on without one")
        if self.throughput < 1:
            raise UsageError(f"--throughput {self.throughput}: give records per second, at least 1")
        Load(records_per_s=self.throughput, record_size_bytes=self.record_size_bytes)  # refuses what a node would


def run_demo(options: DemoOptions, folder: Path, tell: Callable[[str], None]) -> Result:
    """All stages. ``folder`` gets everything that the nodes write; ``tell`` gets a line for each stage.

    Errors: PykraftError when a stage fails; faults in the log are in the result instead.
    """
    _check_disk(options, folder)
    with Children() as children:
        cluster = Cluster(
            children,
            folder,
            size=options.nodes,
            throughput=options.throughput,
            record_size_bytes=options.record_size_bytes,
        )
        try:
            failover_ms, seconds = _load(cluster, options, tell)
            tell("waiting until every replica holds all that was acknowledged")
            caught_up_offset = cluster.wait_until_caught_up()
            tell("stopping the nodes")
            cluster.stop()
        except Exception as error:
            error.add_note(children.log_ends())
            raise
    tell("comparing the logs byte by byte")
    verdict = cluster.check(caught_up_offset=caught_up_offset)
    tell("starting Spark")
    said = cluster.journal.acknowledgements()
    spark = local_session("pykraft demo")
    try:
        paths = ",".join(str(node.partition) for node in cluster.nodes.values())
        records = spark.read.format("pykraft").option("path", paths).load()
        tell("asking Spark for every acknowledged record")
        found = audit(records, acknowledged_frame(spark, said), replicas=options.nodes, until_offset=caught_up_offset)
    finally:
        spark.stop()
    return Result(audit=found, verdict=verdict, failover_ms=failover_ms, seconds=seconds, latency_ms=latencies_ms(said))


def _load(cluster: Cluster, options: DemoOptions, tell: Callable[[str], None]) -> tuple[int | None, float]:
    """Stages 1 to 3; returns how long the fail-over took and how long the load lasted."""
    tell(f"starting {options.nodes} nodes")
    leader = cluster.start()
    tell(f"node {leader.node} leads epoch {leader.epoch}; writing {options.throughput} records/s")
    begun = time.monotonic()
    _wait(cluster, options.seconds / 2, tell)
    failover_ms = None
    if options.kill_leader:
        leader_id = cluster.journal.leader_id()
        victim = cluster.nodes[leader_id]
        mark = cluster.journal.mark()
        killed_wall_ms = time.time_ns() // 1_000_000
        victim.process.kill()
        tell(f"node {leader_id} was killed with -9")
        cluster.journal.wait_for_acknowledged(1, since=mark, except_by=leader_id)
        first = next(said for said in cluster.journal.acknowledgements(since=mark) if said.node != leader_id)
        failover_ms = first.wall_ms - killed_wall_ms
        tell(f"node {first.node} leads epoch {first.epoch}, {failover_ms} ms later")
        victim.start()
        tell(f"node {leader_id} starts again")
    _wait(cluster, options.seconds - (time.monotonic() - begun), tell)
    return failover_ms, time.monotonic() - begun


def _wait(cluster: Cluster, seconds: float, tell: Callable[[str], None]) -> None:
    """Let it run, and say from time to time how much was acknowledged."""
    end = time.monotonic() + seconds
    told = time.monotonic()
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(POLL_S, left))
        if time.monotonic() - told >= 2:
            told = time.monotonic()
            tell(f"{_count(cluster.journal.acknowledgements()):,} records acknowledged")


def _count(said: list[Acknowledged]) -> int:
    return sum(one.count for one in said)


def _check_disk(options: DemoOptions, folder: Path) -> None:
    """Refuse what will not fit. Errors: UsageError."""
    record_size_bytes = options.record_size_bytes + 16
    needed = int(FREE_SIZE_BYTES_MIN + options.nodes * options.seconds * options.throughput * record_size_bytes)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise UsageError(f"{folder}: {free >> 20} MiB are free, the demo needs {needed >> 20} MiB; use --data DIR")
