"""Runs the demo: node processes under load, a leader killed with kill -9, and Spark reading their log meanwhile.

Each stage must succeed before the next one starts:

1. Start Spark in the background, start the nodes, and wait for a leader.
2. Let it write for half of the time, and until the tables grow.
3. Kill the leader, restart it, and continue for the other half. Without rows in the tables it is not killed: it would
   prove nothing about them, and the run fails.
4. Stop the load, and wait until all replicas and the tables hold everything that was acknowledged.
5. Stop the nodes and the stream.
6. Compare the logs byte by byte with each other and with the journal, without Spark.
7. Ask Spark whether the tables hold each acknowledged record once and in order, and nothing that is not in the log.

Invariant: if a node, Spark or the stream ends, this is noticed and reported within a second.

Source: the demo checks KIP-595's claims, that no acknowledged record is lost, whichever node is killed, and that all
replicas hold the same log; and the pipeline's, that it writes each committed record exactly once.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from lab.demo.live_tables import NO_SPACE, ExplainedError, LiveTables, ended, failed
from lab.demo.payloads import ask_spark
from lab.demo.result import DemoOptions, Kill, Result, Story, batch_latencies_ms, commit_latencies_ms, compare
from lab.nodes.cluster import Cluster
from lab.nodes.sampler import Sampler
from lab.progress import ReportProgress
from pykraft.errors import LocalQuorumError
from pykraft.local.child import Children
from pykraft.local.journal import Acknowledged, Led
from pykraft.text.words import counted

START_TRIES_MAX = 3
PORT_IS_TAKEN = "cannot be bound"
"""Output of a node whose port another process took before its start."""
POLL_S = 0.25
LATE_S_MAX = 60.0
"""The load may last this much longer than requested, so that the leader is killed while the stream runs (s)."""


def start_cluster(
    children: Children, folder: Path, options: DemoOptions, report: ReportProgress
) -> tuple[Cluster, Led]:
    """A cluster with a leader; retries on other ports, in a new folder, if another process took a port first.

    Errors: LocalQuorumError if there is no leader; StorageError if the disk is full.
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
                look_after(cluster, folder)  # raises with the reason if a node has ended
                raise
        report("another process took a port; restarting on other ports")
        for node in cluster.nodes.values():
            node.process.kill()
    raise AssertionError("the last try either returns or raises")


def look_after(cluster: Cluster, folder: Path) -> None:
    """Errors: LocalQuorumError if a node has ended, StorageError if it ended because the disk is full."""
    for node in cluster.nodes.values():
        if node.process.status is not None:
            raise ended(folder, node.process)


@dataclass(slots=True, kw_only=True)
class DemoLoad:
    """Stages 2 to 4 of the demo (see `lab.demo.run`); ``seconds`` is how long the load lasted."""

    cluster: Cluster
    tables: LiveTables
    options: DemoOptions
    folder: Path
    report: ReportProgress
    kill: Kill | None = None
    not_killed: str | None = None
    seconds: float = 0.0
    begin_wall_ms: int = 0
    end_wall_ms: int = 0
    _seen: int = 0
    _acknowledged: int = 0

    def run(self) -> None:
        """Stages 2 and 3. The load lasts longer than requested by the time until the first rows are in the tables."""
        begun_s = time.monotonic()
        self.begin_wall_ms = _wall_ms()
        half_s = self.options.seconds / 2
        self._wait(half_s)
        if not self.tables.batches:
            longer = f"up to {LATE_S_MAX:g} s longer than {self.options.seconds:g} s"
            self.report(f"waiting for {self.tables.awaited}; until then the load goes on, {longer}")
        while not self.tables.batches and time.monotonic() - begun_s < half_s + LATE_S_MAX:
            self._wait(POLL_S)
        late_s = time.monotonic() - begun_s - half_s
        if self.options.kill_leader and self.tables.batches:
            self.kill = self._kill_leader()
        elif self.options.kill_leader:
            self.not_killed = f"the leader was not killed: the tables had no rows {LATE_S_MAX:g} s after its time"
            self.report(self.not_killed)
        self._wait(begun_s + self.options.seconds + late_s - time.monotonic())
        self.seconds = time.monotonic() - begun_s
        self.end_wall_ms = _wall_ms()

    def end(self) -> int:
        """Stage 4; returns the offset below which all replicas and tables have everything."""
        self.report("stopping the load; waiting until all replicas and the tables hold every acknowledged record")
        self.cluster.end_load()
        end_offset = self.cluster.wait_until_caught_up()
        self.tables.wait_for(end_offset, self._watch)
        return end_offset

    def _kill_leader(self) -> Kill:
        journal = self.cluster.journal
        victim = self.cluster.nodes[journal.leader_id()]
        mark = journal.mark()
        killed_wall_ms = _wall_ms()
        victim.process.kill()
        self.report(f"node {victim.node_id} was killed with kill -9")
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
        self.report(f"node {first.node} leads epoch {first.epoch} and acknowledges, {kill.failover_ms:,} ms later")
        self.report(f"node {victim.node_id} is restarted")
        return kill

    def _wait(self, seconds: float) -> None:
        """Let the load run. Errors: as `_watch`."""
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(POLL_S, left_s))
            self._watch()

    def _watch(self) -> None:
        """Report the progress. Errors: LocalQuorumError or StorageError if a node, Spark or the stream has ended."""
        look_after(self.cluster, self.folder)
        self.tables.check()
        events, batches = self.cluster.journal.events(since=self._seen), self.tables.batches
        self._seen += len(events)
        self._acknowledged += sum(event.count for event in events if isinstance(event, Acknowledged))
        text = f"{counted(self._acknowledged, 'record')} acknowledged"
        if batches:
            last = batches[-1]
            text += f", {last.end_offset:,} in the tables, micro-batch {last.batch_id} took {last.duration_ms:,} ms"
        else:
            text += f", waiting for {self.tables.awaited}"
        self.report(text, is_passing=True)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def run_demo(options: DemoOptions, folder: Path, report: ReportProgress) -> Story:
    """All stages. ``folder`` gets everything that nodes and Spark write.

    Errors: PykraftError when a stage fails; faults in logs and tables are in the result instead.
    """
    options.check_disk(folder)
    with Children() as children:
        try:
            return _run(children, options, folder, report)
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


def _run(children: Children, options: DemoOptions, folder: Path, report: ReportProgress) -> Story:
    tables = LiveTables(children, folder)
    # 1. Spark starts while the nodes elect their leader.
    report(f"starting Spark and {counted(options.nodes, 'node')}")
    cluster, leader = start_cluster(children, folder, options, report)
    tables.follow(cluster.endpoints)
    load = DemoLoad(cluster=cluster, tables=tables, options=options, folder=folder, report=report)
    report(f"node {leader.node} leads epoch {leader.epoch}; writing {options.throughput:,} records/s")
    with Sampler(cluster.endpoints) as sampler:
        # 2. and 3.
        load.run()
        # 4. Everything that was acknowledged lies below this offset.
        end_offset = load.end()
        samples = sampler.stop()
    # 5. The log below that offset does not change any more, so nothing waits for the nodes to end.
    for node in cluster.nodes.values():
        node.process.terminate()
    report("stopping the stream")
    spark = tables.stop()
    # 6. Without Spark, so that a fault in the pipeline cannot hide one in the logs.
    report("comparing the logs byte by byte")
    said = [one for one in cluster.journal.acknowledgements() if one.end_offset <= end_offset]
    partitions = {f"node {node_id}": node.partition for node_id, node in cluster.nodes.items()}
    comparison = compare(partitions, said, end_offset=end_offset)
    if comparison.furthest is None:
        raise LocalQuorumError("; ".join(comparison.problems))
    # 7. The tables against the log and the journal.
    report("checking every acknowledged record with Spark")
    audit = ask_spark(spark, tables.tables, comparison.furthest, said, until_offset=end_offset)
    tables.close()
    result = Result(
        audit=audit,
        comparison=comparison,
        failover_ms=load.kill.failover_ms if load.kill is not None else None,
        seconds=load.seconds,
        commit_latency_ms=commit_latencies_ms(said),
        batch_latency_ms=batch_latencies_ms(said, tables.batches),
        not_killed=load.not_killed,
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
