"""Runs the demo: node processes under load, a leader killed with kill -9, and Spark reading their log meanwhile.

Each stage must succeed before the next one starts:

1. Start Spark in the background, start the nodes, and wait for a leader.
2. Let it write for half of the time, and until the tables grow.
3. Kill the leader, restart it, and continue for the other half.
4. Stop the load, and wait until all replicas and the tables hold everything that was acknowledged.
5. Stop the nodes and the stream.
6. Compare the logs byte by byte with each other and with the journal, without Spark.
7. Ask Spark whether the tables hold each acknowledged record once and in order, and nothing that is not in the log.

Source: the demo checks KIP-595's claims, that no acknowledged record is lost and that all replicas hold the same log;
and the pipeline's, that it writes each committed record exactly once.
"""

from __future__ import annotations

from pathlib import Path

from lab.demo.ask import ask_spark
from lab.demo.failures import NO_SPACE, ExplainedError, failed
from lab.demo.live_tables import LiveTables
from lab.demo.load import DemoLoad
from lab.demo.options import DemoOptions
from lab.demo.replicas import compare
from lab.demo.result import Result, batch_latencies_ms, commit_latencies_ms
from lab.demo.start import start_cluster
from lab.demo.story import Story
from pykraft.errors import LocalQuorumError
from pykraft.local.child import Children
from pykraft.local.progress import ReportProgress
from pykraft.local.sampler import Sampler
from pykraft.text.words import counted


def run_demo(options: DemoOptions, folder: Path, tell: ReportProgress) -> Story:
    """All stages. ``folder`` gets everything that nodes and Spark write.

    Errors: PykraftError when a stage fails; faults in logs and tables are in the result instead.
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


def _run(children: Children, options: DemoOptions, folder: Path, tell: ReportProgress) -> Story:
    tables = LiveTables(children, folder)
    # 1. Spark starts while the nodes elect their leader.
    tell(f"starting Spark and {counted(options.nodes, 'node')}")
    cluster, leader = start_cluster(children, folder, options, tell)
    tables.follow(cluster.endpoints)
    load = DemoLoad(cluster=cluster, tables=tables, options=options, folder=folder, tell=tell)
    tell(f"node {leader.node} leads epoch {leader.epoch}; writing {options.throughput:,} records/s")
    with Sampler(cluster.endpoints) as sampler:
        # 2. and 3.
        load.run()
        # 4. Everything that was acknowledged lies below this offset.
        end_offset = load.end()
        samples = sampler.stop()
    # 5. The log below that offset does not change any more, so nothing waits for the nodes to end.
    for node in cluster.nodes.values():
        node.process.terminate()
    tell("stopping the stream")
    spark = tables.stop()
    # 6. Without Spark, so that a fault in the pipeline cannot hide one in the logs.
    tell("comparing the logs byte by byte")
    said = [one for one in cluster.journal.acknowledgements() if one.end_offset <= end_offset]
    partitions = {f"node {node_id}": node.partition for node_id, node in cluster.nodes.items()}
    comparison = compare(partitions, said, end_offset=end_offset)
    if comparison.furthest is None:
        raise LocalQuorumError("; ".join(comparison.problems))
    # 7. The tables against the log and the journal.
    tell("checking every acknowledged record with Spark")
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
