"""A formatted disk durably holds the node's identity and the first voters; a new disk is another replica."""

from __future__ import annotations

from pykraft.sim.machine.format import replace_disk
from pykraft.snapshot.writer import membership_in_snapshot
from pykraft.types import KRaftVoters, Offset, VoterSet
from tests.sim.worlds import dynamic_world, started


def test_voters_of_a_dynamic_world_are_on_the_disks_of_the_voters_alone() -> None:
    world = dynamic_world(observers=1)
    voters = world.facts.members.electorate.initial
    assert voters.ids == (1, 2, 3)
    for node in world.nodes.values():
        node.disk.lose_power()
        _, records = membership_in_snapshot(node.disk, node.config.partition_directory, Offset(0))
        assert (KRaftVoters(voters) in records) is (node.node_id in voters.ids)
        entry = voters.get(node.node_id)
        assert entry is None or entry.key == node.key


def test_a_replaced_disk_knows_nobody_and_has_another_directory_id() -> None:
    world = started(dynamic_world())
    node = world.nodes[1]
    key = node.key
    replace_disk(node)
    assert node.process is None
    assert node.key != key
    assert node.first_voters == VoterSet()
    node.start()
    assert node.host is not None
    assert node.host.directory_id == node.key.directory_id
    assert node.host.status.role == "unattached"
