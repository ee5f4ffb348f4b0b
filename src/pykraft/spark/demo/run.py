"""Runs the demo: three nodes as processes, a load, a leader killed with -9, then Spark over what is on disk.

The stages, in order; each must succeed before the next:

1. start the nodes, wait for a leader; 2. let it write for half of the time; 3. kill the leader, start it again, go on
for the other half; 4. wait until all replicas hold all that was acknowledged; 5. stop the nodes; 6. compare the logs
byte by byte and hold them against the journal without Spark; 7. the same questions, asked of the DataFrames.

Source: the claims it checks are KIP-595's: what is acknowledged is never lost, and all replicas hold the same log.
"""

from __future__ import annotations

import time
from pathlib import Path

from pykraft.client.journal import Acknowledged, Led
from pykraft.client.journal_check import Verdict
from pykraft.errors import LocalQuorumError, ProtocolError
from pykraft.local.child import Children
from pykraft.local.cluster import Cluster
from pykraft.spark.demo.ask import ask_spark
from pykraft.spark.demo.options import DemoOptions
from pykraft.spark.demo.progress import Tell
from pykraft.spark.demo.result import Result, latencies_ms
from pykraft.spark.java import java_home

POLL_S = 0.25
START_TRIES_MAX = 3
PORT_IS_TAKEN = "cannot be bound"
"""What a node says that lost its port to a stranger between the choice and its start."""


def run_demo(options: DemoOptions, folder: Path, tell: Tell) -> Result:
    """All stages. ``folder`` gets everything that the nodes write.

    Errors: PykraftError when a stage cannot be done; faults in the log are in the result instead.
    """
    options.check_disk(folder)
    java_home()  # its absence is better known now than after the load
    with Children() as children:
        try:
            cluster, leader = start_cluster(children, folder, options, tell)
            failover_ms, seconds = _load(cluster, leader, options, tell)
            tell("waiting until every replica holds all that was acknowledged")
            caught_up_offset = cluster.wait_until_caught_up()
            tell("stopping the nodes")
            cluster.stop()
        except Exception as error:
            error.add_note(children.log_ends())
            raise
    tell("comparing the logs byte by byte")
    verdict = _verdict(cluster, caught_up_offset)
    said = cluster.journal.acknowledgements()
    partitions = [node.partition for node in cluster.nodes.values()]
    found = ask_spark(partitions, said, until_offset=caught_up_offset, tell=tell)
    return Result(audit=found, verdict=verdict, failover_ms=failover_ms, seconds=seconds, latency_ms=latencies_ms(said))


def start_cluster(children: Children, folder: Path, options: DemoOptions, tell: Tell) -> tuple[Cluster, Led]:
    """A cluster with a leader; on other ports and in a folder of its own, if it lost its ports before it had them.

    Errors: LocalQuorumError when there is no leader.
    """
    tell(f"starting {options.nodes} nodes")
    for left in reversed(range(START_TRIES_MAX)):
        home = folder if left == START_TRIES_MAX - 1 else folder / f"again-{left}"
        home.mkdir(exist_ok=True)
        cluster = Cluster(
            children,
            home,
            size=options.nodes,
            throughput=options.throughput,
            record_size_bytes=options.record_size_bytes,
        )
        try:
            return cluster, cluster.start()
        except LocalQuorumError:
            if left == 0 or not any(PORT_IS_TAKEN in node.process.log() for node in cluster.nodes.values()):
                raise
        tell("somebody took a port; starting again on others")
        for node in cluster.nodes.values():
            node.process.kill()
    raise AssertionError("the last try either returns or raises")


def _load(cluster: Cluster, leader: Led, options: DemoOptions, tell: Tell) -> tuple[int | None, float]:
    """Stages 2 and 3; returns how long the fail-over took (ms) and how long the load lasted (seconds)."""
    tell(f"node {leader.node} leads epoch {leader.epoch}; writing {options.throughput} records/s")
    begun = time.monotonic()
    failover_ms = None
    if options.kill_leader:
        _wait(cluster, options.seconds / 2, tell)
        failover_ms = _kill_leader(cluster, tell)
    _wait(cluster, options.seconds - (time.monotonic() - begun), tell)
    return failover_ms, time.monotonic() - begun


def _kill_leader(cluster: Cluster, tell: Tell) -> int:
    """Kill it with -9, wait until another one acknowledges, start it again; returns ms from the kill to that."""
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
    return failover_ms


def _wait(cluster: Cluster, seconds: float, tell: Tell) -> None:
    """Let it run, and say how much was acknowledged. Errors: LocalQuorumError when a node ends by itself."""
    end = time.monotonic() + seconds
    seen = count = 0
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(POLL_S, left))
        for node in cluster.nodes.values():
            if node.process.status is not None:
                raise LocalQuorumError(f"{node.process.name} ended by itself, with status {node.process.status}")
        events = cluster.journal.events(since=seen)
        seen += len(events)
        count += sum(event.count for event in events if isinstance(event, Acknowledged))
        tell(f"{count:,} records acknowledged", is_passing=True)


def _verdict(cluster: Cluster, caught_up_offset: int) -> Verdict:
    """What can be said without Spark. That logs differ or are damaged is a problem, too, and Spark is asked still."""
    try:
        return cluster.check(caught_up_offset=caught_up_offset)
    except (LocalQuorumError, ProtocolError) as error:
        return Verdict(problems=(str(error),))
