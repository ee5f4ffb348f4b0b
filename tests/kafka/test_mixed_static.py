"""A static quorum of two pykraft nodes and one of Kafka's: a snapshot at kraft.version 0, without voters.

The two are embedded in the test and make a majority. The one that leads takes a snapshot; then Kafka's voter comes with
an empty disk, installs it, and its vote keeps the quorum going when one of the others leaves.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.kafka.java import JavaNode, Kafka
from lab.nodes.logs import wait_for_end_offset
from pykraft.client import Node, configure
from pykraft.config import TEST_CLUSTER_ID, RaftConfig
from pykraft.errors import NotLeaderError
from pykraft.local.child import Children
from pykraft.local.voters import HOST, PARTITION, free_ports
from pykraft.log.directory import format_directories
from pykraft.log.os_fs import OsFs
from pykraft.snapshot.files import checkpoint_path, list_snapshots
from pykraft.snapshot.head import read_head
from pykraft.types import NodeId, Uuid
from tests.kafka.test_mixed_dynamic import Application, snapshot_of, until

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
