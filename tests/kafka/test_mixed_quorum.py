"""One pykraft node and two of Kafka's form a quorum: pykraft follows Kafka, is elected, and Kafka follows pykraft.

Who wins each election is decided by Raft's own rules, not by luck with timers:

1. The two Java nodes start alone, so one of them leads; ours joins and follows it.
2. The Java follower is paused, and the quorum goes on without it, for longer than its fetch timeout: now its log is
   shorter than ours.
3. The Java leader is killed and the other one resumed. It looks for a leader at once, but nobody may vote for the
   shorter log. Our fetch timeout ends meanwhile; the node that looks itself grants our pre-vote, and ours is elected.
4. The killed node comes back and follows ours, and loses what only it had.
5. Ours leaves gracefully, and a Java node leads in the next epoch.

A client may write no compressed batch meanwhile, since Kafka's replicas could not read it. The logs of all three are
compared byte for byte at the end, and Kafka's dump tool reads ours.

A static quorum of two pykraft nodes and one of Kafka's: a snapshot at kraft.version 0, without voters.

The two are embedded in the test and make a majority. The one that leads takes a snapshot; then Kafka's voter comes with
an empty disk, installs it, and its vote keeps the quorum going when one of the others leaves.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from lab.kafka.java import SMALL_JVM, STOPPED_BY_SIGTERM, JavaNode, Kafka
from lab.nodes.cluster import JournalKeeper, PykraftNode
from lab.nodes.logs import read_stream, require_identical, wait_for_end_offset
from lab.nodes.verdict import check_journal
from pykraft.client import Node, configure
from pykraft.config import TEST_CLUSTER_ID, RaftConfig
from pykraft.errors import NotLeaderError
from pykraft.local.child import Children
from pykraft.local.journal import Led, record_spans
from pykraft.local.voters import HOST, PARTITION, free_ports
from pykraft.log.directory import format_directories
from pykraft.log.os_fs import OsFs
from pykraft.snapshot.files import checkpoint_path, list_snapshots
from pykraft.snapshot.head import read_head
from pykraft.types import NodeId, Uuid
from tests.kafka.broker_calls import broker_calls
from tests.kafka.dump import dump_log
from tests.kafka.produce_calls import gzip_batch, produce
from tests.kafka.test_mixed_dynamic import Application, snapshot_of, until
from tests.processes.elections import wait_for_known_leader

OURS = 1
THROUGHPUT = 200
"""Records a second, whoever leads."""
RECORDS = 50
"""How far a log must grow before the next thing happens."""
RECORDS_OF_A_PAUSE = 500
"""What is written while the Java follower's fetch timeout, 2 s, passes."""
PROPERTIES = {"controller.quorum.fetch.timeout.ms": "700", "pykraft.client.listeners": "PLAINTEXT"}
"""A fetch timeout below the least time for which a Java node stays prospective (its election timeout, 1000 ms)."""


class MixedQuorum:
    """Node 1 is pykraft's, nodes 2 and 3 are Kafka's."""

    def __init__(
        self,
        kafka: Kafka,
        children: Children,
        folder: Path,
        *,
        properties: Mapping[str, str] = PROPERTIES,
        java_properties: Mapping[str, str] | None = None,
        jvm: Sequence[str] = SMALL_JVM,
    ) -> None:
        """``properties`` are of ours, ``java_properties`` of the others."""
        self.ports = ports = dict(zip((OURS, 2, 3), free_ports(3), strict=True))
        self.journal = JournalKeeper(folder / "journal.jsonl")
        self.ours = PykraftNode(
            children,
            self.journal,
            folder / "n1",
            node_id=OURS,
            ports=ports,
            throughput=THROUGHPUT,
            properties=properties,
        )
        self.java = {
            i: JavaNode(
                kafka,
                children,
                folder / f"n{i}",
                node_id=i,
                ports=ports,
                throughput=THROUGHPUT,
                properties=java_properties,
                jvm=jvm,
            )
            for i in (2, 3)
        }

    @property
    def nodes(self) -> Mapping[int, PykraftNode | JavaNode]:
        return {OURS: self.ours, **self.java}

    def start_java_first(self) -> tuple[JavaNode, JavaNode, int]:
        """Start the Java nodes, and ours when one of them leads; returns leader, follower and epoch."""
        for node in self.java.values():
            node.start()
        known = wait_for_known_leader(self.java[2].partition, self.java[2].process)
        mark = self.journal.mark()
        self.ours.start()
        self.journal.wait_for_started(OURS, since=mark, process=self.ours.process)
        return self.java[known.id], self.java[5 - known.id], known.epoch

    def let_ours_lead(self) -> tuple[JavaNode, JavaNode, Led]:
        """Steps 1 to 3; returns the Java node that was killed, the other one, and our leadership."""
        leader, follower, epoch = self.start_java_first()
        ours = self.ours
        wait_for_end_offset(ours.partition, read_stream(leader.partition).end_offset + RECORDS, ours.process)
        assert wait_for_known_leader(ours.partition, ours.process).id == leader.node_id

        follower.process.pause()
        end_offset = read_stream(follower.partition).end_offset
        wait_for_end_offset(ours.partition, end_offset + RECORDS_OF_A_PAUSE, ours.process)

        mark = self.journal.mark()
        leader.process.kill()
        follower.process.resume()
        elected = self.journal.wait_for_leader(since=mark, alive=[ours.process, follower.process])
        assert elected.node == OURS
        assert elected.epoch > epoch
        self.journal.wait_for_acknowledged(RECORDS, since=mark)
        assert wait_for_known_leader(follower.partition, follower.process, after_epoch=epoch).id == OURS
        return leader, follower, elected

    def let_java_lead_again(self, killed: JavaNode, follower: JavaNode, elected: Led) -> None:
        """Steps 4 and 5, and the comparison of the logs."""
        killed.start()
        self.journal.wait_for_acknowledged(RECORDS, since=self.journal.mark())
        caught_up_offset = self.journal.end_offset
        for node in self.nodes.values():
            wait_for_end_offset(node.partition, caught_up_offset, node.process)
        assert self.ours.process.stop() == 0
        known = wait_for_known_leader(follower.partition, follower.process, after_epoch=elected.epoch)
        assert known.id in self.java
        assert {node.process.stop() for node in self.java.values()} == {STOPPED_BY_SIGTERM}

        streams = {f"node {node_id}": read_stream(node.partition) for node_id, node in self.nodes.items()}
        require_identical(streams, end_offset=caught_up_offset)
        verdict = check_journal(self.journal.acknowledgements(), record_spans(streams[f"node {OURS}"].data))
        assert verdict.is_clean, verdict


@pytest.mark.conformance(151)
@pytest.mark.kafka
def test_ours_follows_java_is_elected_and_java_follows_ours(kafka: Kafka, children: Children, tmp_path: Path) -> None:
    quorum = MixedQuorum(kafka, children, tmp_path)
    killed, follower, elected = quorum.let_ours_lead()
    ours = quorum.ours
    with broker_calls(ours.port) as calls:
        refused = produce(calls, gzip_batch())
    assert refused.error_code is ErrorCode.invalid_record
    assert "it is compressed with gzip; it is refused because replica" in refused.error_message
    assert "it calls itself apache-kafka-java" in refused.error_message
    quorum.let_java_lead_again(killed, follower, elected)
    indexed = sorted(path for path in ours.partition.iterdir() if path.suffix in (".log", ".index", ".timeindex"))
    assert dump_log(kafka, indexed, "--deep-iteration").complaints == []


PATIENT = RaftConfig(fetch_timeout_ms=10_000)
"""So that the leader stays one, however busy the machine is."""


async def leader_of(nodes: Sequence[Node[bytes]]) -> Node[bytes]:
    """The one that leads, as soon as it can be written to."""
    while True:
        known = await nodes[0].wait_for_leader()
        for node in nodes:
            if node.node_id == known.leader_id:
                try:
                    await node.propose([b"are you there?"])
                except NotLeaderError:
                    continue
                return node


async def story(java: JavaNode, nodes: Sequence[Node[bytes]], partitions: dict[int, Path]) -> None:
    applications = {node: Application() for node in nodes}
    for node, application in applications.items():
        node.register(application)
    one, other = nodes
    async with one, other:
        leader = await leader_of(nodes)
        application = applications[leader]
        last = await leader.propose([b"the last one below"])
        await until(lambda: application.end[0] == last.base_offset + 1, "what was committed")
        taken = await snapshot_of(leader, application)
        await leader.propose([b"after the snapshot"])

        java.start()
        found = await until(
            lambda: (list_snapshots(OsFs(), java.partition) if java.partition.exists() else []) or None,
            "Kafka's voter to install a snapshot",
            java.process,
        )
        assert found == [taken]
        assert leader.node_id is not None
        path = checkpoint_path(java.partition, taken)
        assert path.read_bytes() == checkpoint_path(partitions[leader.node_id], taken).read_bytes()
        _, head = read_head(OsFs(), java.partition, taken)
        assert (head.kraft_version, head.voters) == (0, None)
        stream = await asyncio.to_thread(wait_for_end_offset, java.partition, taken.offset + 1, java.process)
        assert stream.start_offset == taken.offset

        follower = other if leader is one else one
        await follower.close()
        committed = await leader.propose([b"with the vote of Kafka's"])
        await asyncio.to_thread(wait_for_end_offset, java.partition, committed.base_offset + 1, java.process)


@pytest.mark.conformance(151)
@pytest.mark.kafka
def test_kafkas_voter_installs_a_snapshot_without_voters(kafka: Kafka, children: Children, tmp_path: Path) -> None:
    ports = dict(enumerate(free_ports(3), start=1))
    voters = {node_id: f"{HOST}:{port}" for node_id, port in ports.items()}
    folders = {node_id: tmp_path / f"n{node_id}" for node_id in (1, 2)}
    java = JavaNode(kafka, children, tmp_path / "n3", node_id=3, ports=ports)
    nodes = [
        Node(configure(folder, node_id=node_id, voters=voters, raft=PATIENT), own_thread=True)
        for node_id, folder in folders.items()
    ]
    for node_id, folder in folders.items():  # or they would wait for Kafka's voter
        format_directories(
            OsFs(),
            [folder],
            node_id=NodeId(node_id),
            cluster_id=TEST_CLUSTER_ID,
            directory_ids={},
            ignore_formatted=False,
            random_uuid=lambda: Uuid(os.urandom(16)),
        )
    asyncio.run(story(java, nodes, {node_id: folder / PARTITION for node_id, folder in folders.items()}))
