"""Runs the demo: nodes as processes, a load, a leader killed with -9, and all the while their log through Spark.

The stages, in order; each must succeed before the next:

1. start Spark, which takes its time beside the next stages; start the nodes, wait for a leader; 2. let it write for
half of the time, and until the tables grow; 3. kill the leader, start it again, go on for the other half; 4. end the
load, wait until all replicas and the tables hold all that was acknowledged; 5. end the nodes and the stream;
6. compare the logs byte by byte and hold them against the journal, without Spark; 7. ask Spark whether the tables hold
each acknowledged record once and in order, and nothing that the log has not.

Source: the claims it checks are KIP-595's: what is acknowledged is never lost, and all replicas hold the same log; and
the pipeline's: each committed record once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from pykraft.client.journal import Acknowledged, Led
from pykraft.errors import LocalQuorumError
from pykraft.local.child import Children
from pykraft.local.cluster import Cluster
from pykraft.local.ports import HOST
from pykraft.local.sampler import Sampler
from pykraft.spark.demo.ask import ask_spark
from pykraft.spark.demo.failures import NO_SPACE, ExplainedError, ended, failed
from pykraft.spark.demo.live_tables import LiveTables
from pykraft.spark.demo.options import DemoOptions
from pykraft.spark.demo.progress import Tell
from pykraft.spark.demo.replicas import compare
from pykraft.spark.demo.result import Result, batch_latencies_ms, commit_latencies_ms
from pykraft.spark.demo.story import Kill, Story
from pykraft.types import Endpoint

POLL_S = 0.25
START_TRIES_MAX = 3
LATE_S_MAX = 60.0
"""How much longer than asked for the load lasts, at most, so that the leader is killed under a stream that runs."""
PORT_IS_TAKEN = "cannot be bound"
"""What a node says that lost its port to a stranger between the choice and its start."""


def run_demo(options: DemoOptions, folder: Path, tell: Tell) -> Story:
    """All stages. ``folder`` gets everything that nodes and Spark write.

    Errors: PykraftError when a stage cannot be done; faults in logs and tables are in the result instead.
    """
    options.check_disk(folder)
    with Children() as children:
        try:
            return _run(children, options, folder, tell)
        except LocalQuorumError as error:
            if NO_SPACE in children.log_ends():
                raise failed(folder, "the demo", NO_SPACE) from error
            if not isinstance(error, ExplainedError):
                error.add_note(children.log_ends())
            raise
        except OSError as error:
            if error.strerror == NO_SPACE:
                raise failed(folder, "the demo", NO_SPACE) from error
            raise


def _run(children: Children, options: DemoOptions, folder: Path, tell: Tell) -> Story:
    tables = LiveTables(children, folder)
    tell(f"starting {options.nodes} nodes, and Spark")
    cluster, leader = start_cluster(children, folder, options, tell)
    endpoints = [Endpoint(HOST, node.port) for node in cluster.nodes.values()]
    tables.follow(endpoints)
    load = Load(cluster=cluster, tables=tables, options=options, folder=folder, tell=tell)
    tell(f"node {leader.node} leads epoch {leader.epoch}; writing {options.throughput:,} records/s")
    with Sampler(endpoints) as sampler:
        load.run()
        end_offset = load.end()
        samples = sampler.stop()
    for node in cluster.nodes.values():
        node.process.terminate()  # what is below this offset stays as it is; nobody waits for their end
    tell("ending the stream")
    spark = tables.stop()
    tell("comparing the logs byte by byte")
    said = [one for one in cluster.journal.acknowledgements() if one.end_offset <= end_offset]
    partitions = {f"node {node_id}": node.partition for node_id, node in cluster.nodes.items()}
    comparison = compare(partitions, said, end_offset=end_offset)
    if comparison.furthest is None:
        raise LocalQuorumError("; ".join(comparison.problems))
    tell("asking Spark for every acknowledged record")
    audit = ask_spark(spark, tables.tables, comparison.furthest, said, until_offset=end_offset)
    tables.close()
    result = Result(
        audit=audit,
        comparison=comparison,
        failover_ms=load.kill.failover_ms if load.kill is not None else None,
        seconds=load.seconds,
        commit_latency_ms=commit_latencies_ms(said),
        batch_latency_ms=batch_latencies_ms(said, tables.batches),
    )
    return Story(
        options=options,
        begin_wall_ms=load.begin_wall_ms,
        end_wall_ms=load.end_wall_ms,
        acknowledged=tuple(said),
        samples=samples,
        batches=tuple(tables.batches),
        kills=(load.kill,) if load.kill is not None else (),
        result=result,
    )


def start_cluster(children: Children, folder: Path, options: DemoOptions, tell: Tell) -> tuple[Cluster, Led]:
    """A cluster with a leader; on other ports and in a folder of its own, if it lost its ports before it had them.

    Errors: LocalQuorumError when there is no leader; StorageError when the disk is full.
    """
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
                _look_after(cluster, folder)  # one that ended says why
                raise
        tell("somebody took a port; starting again on others")
        for node in cluster.nodes.values():
            node.process.kill()
    raise AssertionError("the last try either returns or raises")


@dataclass(slots=True, kw_only=True)
class Load:
    """Stages 2 to 4, and what came of them: ``seconds`` is how long the load lasted."""

    cluster: Cluster
    tables: LiveTables
    options: DemoOptions
    folder: Path
    tell: Tell
    kill: Kill | None = None
    seconds: float = 0.0
    begin_wall_ms: int = 0
    end_wall_ms: int = 0
    _seen: int = 0
    _acknowledged: int = 0

    def run(self) -> None:
        """Stages 2 and 3. The load is longer than was asked for by as much as the tables' first rows are late."""
        begun_s = time.monotonic()
        self.begin_wall_ms = _wall_ms()
        half_s = self.options.seconds / 2
        self._wait(half_s)
        while not self.tables.batches and time.monotonic() - begun_s < half_s + LATE_S_MAX:
            self._wait(POLL_S)
        late_s = time.monotonic() - begun_s - half_s
        if self.options.kill_leader:
            self.kill = self._kill_leader()
        self._wait(begun_s + self.options.seconds + late_s - time.monotonic())
        self.seconds = time.monotonic() - begun_s
        self.end_wall_ms = _wall_ms()

    def end(self) -> int:
        """Stage 4; returns the offset below which everything is everywhere."""
        self.tell("ending the load; waiting until every replica and the tables hold all that was acknowledged")
        self.cluster.end_load()
        end_offset = self.cluster.wait_until_caught_up()
        self.tables.wait_for(end_offset, self._watch)
        return end_offset

    def _kill_leader(self) -> Kill:
        """Kill it with -9, wait until another one acknowledges, start it again."""
        journal = self.cluster.journal
        victim = self.cluster.nodes[journal.leader_id()]
        mark = journal.mark()
        killed_wall_ms = _wall_ms()
        victim.process.kill()
        self.tell(f"node {victim.node_id} was killed with -9")
        others = [node.process for node in self.cluster.nodes.values() if node is not victim]
        led = journal.wait_for_leader(since=mark, alive=others)
        elected_wall_ms = _wall_ms()
        journal.wait_for_acknowledged(1, since=mark, except_by=victim.node_id)
        first = next(said for said in journal.acknowledgements(since=mark) if said.node != victim.node_id)
        victim.start()
        kill = Kill(
            node_id=victim.node_id,
            killed_wall_ms=killed_wall_ms,
            leader_id=led.node,
            epoch=led.epoch,
            elected_wall_ms=elected_wall_ms,
            acknowledged_wall_ms=first.wall_ms,
            restarted_wall_ms=_wall_ms(),
        )
        self.tell(f"node {first.node} leads epoch {first.epoch} and acknowledges again, {kill.failover_ms:,} ms later")
        self.tell(f"node {victim.node_id} starts again")
        return kill

    def _wait(self, seconds: float) -> None:
        """Let it run. Errors: as `_watch`."""
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(POLL_S, left_s))
            self._watch()

    def _watch(self) -> None:
        """Say how far all is. Errors: LocalQuorumError or StorageError when a node, Spark or the stream has ended."""
        _look_after(self.cluster, self.folder)
        self.tables.check()
        events, batches = self.cluster.journal.events(since=self._seen), self.tables.batches
        self._seen += len(events)
        self._acknowledged += sum(event.count for event in events if isinstance(event, Acknowledged))
        text = f"{self._acknowledged:,} records acknowledged"
        if batches:
            last = batches[-1]
            text += f", {last.end_offset:,} in the tables, micro-batch {last.batch_id} took {last.duration_ms:,} ms"
        self.tell(text, is_passing=True)


def _look_after(cluster: Cluster, folder: Path) -> None:
    """Errors: LocalQuorumError when a node has ended, StorageError when that was for want of room."""
    for node in cluster.nodes.values():
        if node.process.status is not None:
            raise ended(folder, node.process)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
