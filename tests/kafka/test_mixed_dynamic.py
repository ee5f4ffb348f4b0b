"""A dynamic quorum of pykraft and Kafka: snapshots in both directions, voters added and removed, leaders handed over.

Node 1 is pykraft's, embedded in the test, which is its application; node 2 is Kafka's; node 3 is a `pykraft server`.

1. Node 1 leads alone, takes a snapshot that names the voters, and writes more.
2. Node 2 comes with an empty disk: it installs the snapshot of node 1, and follows.
3. Node 2 becomes a voter, and its vote counts: without it nothing is committed any more.
4. Node 1 is removed, hands over to node 2, and follows it.
5. Node 3 comes with an empty disk: node 2 has only the snapshot that it got from node 1, and serves it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from click.testing import CliRunner

from lab.kafka.java import JavaNode, Kafka
from lab.nodes.logs import read_stream, require_identical, wait_for_end_offset
from pykraft.cli.config_file import checked_config, read_properties
from pykraft.cli.main import pykraft
from pykraft.client import Node
from pykraft.client.leadership import LeaderAndEpoch
from pykraft.client.reader import Reader
from pykraft.client.remote.admin import Admin
from pykraft.config import TEST_CLUSTER_ID
from pykraft.errors import OutcomeUnknownError
from pykraft.local import voters
from pykraft.local.child import Child, Children, wait_until
from pykraft.log.os_fs import OsFs
from pykraft.snapshot.files import BOOTSTRAP_ID, checkpoint_path, list_snapshots
from pykraft.snapshot.head import read_head
from pykraft.types import Endpoint, Listeners, NodeId, OffsetAndEpoch, ReplicaKey, Uuid
from tests.kafka.dump import dump_log
from tests.kafka.dynamic import dynamic_properties

JAVA = ReplicaKey(NodeId(2), Uuid(b"kafka" + (2).to_bytes(11)))
"""As `JavaNode` names its directory."""
STATE = [b"%d" % number * 40 for number in range(20_000)]
"""More than one slice of a snapshot."""
RECORDS = 50
T = TypeVar("T")


class Application:
    """Knows where the log ends that it was given, and who leads."""

    def __init__(self) -> None:
        self.end = (0, 0)
        self.leader_id: int | None = None

    def handle_commit(self, reader: Reader[bytes]) -> None:
        for batch in reader:
            self.end = (batch.last_offset + 1, batch.epoch)

    def handle_leader_change(self, leader_and_epoch: LeaderAndEpoch) -> None:
        self.leader_id = leader_and_epoch.leader_id


class Quorum:
    """The three nodes; none runs yet."""

    def __init__(self, kafka: Kafka, children: Children, folder: Path) -> None:
        self.ports = dict(enumerate(voters.free_ports(3), start=1))
        self.children = children
        self.configs = {node_id: self._format(folder / f"n{node_id}", node_id) for node_id in (1, 3)}
        self.partitions = {node_id: folder / f"n{node_id}" / "data" / voters.PARTITION for node_id in self.ports}
        self.java = JavaNode(
            kafka, children, folder / "n2", node_id=2, ports=self.ports, properties=dynamic_properties(self.ports)
        )

    def start_server(self) -> Child:
        """Node 3, as an observer."""
        command = voters.server_command(self.configs[3], "--throughput", "5000")
        log_path = self.configs[3].parent / "node.log"
        return self.children.start("node 3", command, log_path, environment={"PYTHONPATH": str(voters.SOURCES)})

    def add_java(self) -> bool:
        """Make node 2 a voter; False as long as it has not caught up. Not to be called on the application's loop."""

        async def ask() -> None:
            async with Admin([Endpoint(voters.HOST, self.ports[1])]) as admin:
                await admin.add_voter(JAVA, Listeners(((voters.LISTENER, Endpoint(voters.HOST, self.ports[2])),)))

        try:
            asyncio.run(ask())
        except OutcomeUnknownError as error:
            assert "has not caught up" in str(error)
            return False
        return True

    def _format(self, home: Path, node_id: int) -> Path:
        home.mkdir()
        values = voters.voter_properties(
            home / "data", node_id=node_id, ports=self.ports, extra=dynamic_properties(self.ports)
        )
        config = voters.write_properties(home / "server.properties", values)
        how = "--standalone" if node_id == 1 else "--no-initial-controllers"
        done = CliRunner().invoke(pykraft, ["storage", "format", "-c", str(config), "-t", TEST_CLUSTER_ID, how])
        assert done.exit_code == 0, done.exception
        return config


async def until(poll: Callable[[], T | None], what: str, *alive: Child) -> T:
    """Wait for something, while the application goes on."""
    return await asyncio.to_thread(wait_until, poll, what, alive=alive)


async def installed(quorum: Quorum, node_id: int, process: Child, expected: OffsetAndEpoch) -> None:
    """Wait until a node has this snapshot; it is that of node 1, to the byte."""
    partition = quorum.partitions[node_id]

    def poll() -> list[OffsetAndEpoch] | None:
        found = list_snapshots(OsFs(), partition) if partition.exists() else []
        return [each for each in found if each != BOOTSTRAP_ID] or None

    assert await until(poll, f"node {node_id} to install a snapshot", process) == [expected]
    ours = checkpoint_path(quorum.partitions[1], expected).read_bytes()
    assert checkpoint_path(partition, expected).read_bytes() == ours
    stream = await asyncio.to_thread(wait_for_end_offset, partition, expected.offset + 1, process)
    assert stream.start_offset == expected.offset


async def snapshot_of(node: Node[bytes], application: Application) -> OffsetAndEpoch:
    """Take a snapshot of all that is committed."""
    snapshot = await node.create_snapshot(*application.end)
    assert snapshot is not None
    async with snapshot:
        await snapshot.append(STATE)
        await snapshot.freeze()
    return snapshot.snapshot_id


async def story(quorum: Quorum) -> None:
    config = replace(checked_config(read_properties(quorum.configs[1])), cluster_id=TEST_CLUSTER_ID)
    java, application = quorum.java, Application()
    node = Node(config, own_thread=True)
    node.register(application)
    async with node, Admin([Endpoint(voters.HOST, quorum.ports[1])]) as admin:
        await node.wait_for_leader()
        for number in range(RECORDS):
            committed = await node.propose([b"%d" % number] * 3)
        await until(lambda: application.end[0] == committed.base_offset + 3, "what was committed")
        taken = await snapshot_of(node, application)
        await node.propose([b"after the snapshot"])

        java.start()
        await installed(quorum, 2, java.process, taken)
        await until(lambda: "Latest set of voters is VoterSet(voters={1=" in java.process.log(), "Kafka's word")

        await until(quorum.add_java, "node 2 to have caught up, and to be a voter", java.process)
        await node.propose([b"with the vote of both"])
        java.process.pause()
        waiting = asyncio.ensure_future(node.propose([b"not without Kafka"]))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting), 0.3)
        java.process.resume()
        await waiting

        described = await admin.describe_quorum()
        assert {voter.key.id for voter in described.voters} == {1, 2}
        [own] = [voter.key for voter in described.voters if voter.key.id == 1]
        await admin.remove_voter(own)
        await until(lambda: application.leader_id == 2, "node 1 to follow node 2", java.process)
        seen = application.end[0]
        await until(lambda: application.end[0] > seen + RECORDS, "the records of node 2", java.process)

        server = quorum.start_server()
        await installed(quorum, 3, server, taken)
        _, head = read_head(OsFs(), quorum.partitions[3], taken)
        assert head.voters is not None
        assert head.voters.ids == (1,)
        stream = read_stream(java.partition)
        for partition, process in ((quorum.partitions[1], java.process), (quorum.partitions[3], server)):
            await asyncio.to_thread(wait_for_end_offset, partition, stream.end_offset, process)
        assert server.stop() == 0
    java.process.terminate()
    java.process.wait(timeout_s=20)
    require_identical(
        {"node 2": read_stream(java.partition), "node 3": read_stream(quorum.partitions[3])},
        end_offset=stream.end_offset,
    )


@pytest.mark.conformance(151)
@pytest.mark.kafka
def test_snapshots_and_voters_of_both_kinds(kafka: Kafka, children: Children, tmp_path: Path) -> None:
    quorum = Quorum(kafka, children, tmp_path)
    asyncio.run(story(quorum))
    files = [path for node in (1, 3) for path in quorum.partitions[node].iterdir()]
    wanted = sorted(path for path in files if path.suffix in (".log", ".checkpoint"))
    dump = dump_log(kafka, wanted, "--deep-iteration")
    assert (dump.complaints, sorted(dump.files)) == ([], wanted)
