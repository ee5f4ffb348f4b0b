"""A wrong epoch in a log keeps a witness: what may flip next to what."""

from __future__ import annotations

from pykraft.core.quarantine import Quarantine
from pykraft.log.small_files.epoch_checkpoint import FILE_NAME as EPOCHS
from pykraft.log.small_files.quarantine_file import FILE_NAME as QUARANTINE
from pykraft.log.small_files.quarantine_file import QuarantineFile
from pykraft.protocol.batch import scan
from pykraft.sim.facts.epoch_witnesses import is_last_witness
from pykraft.sim.machine.inode import Directory, Inode
from pykraft.sim.machine.node import SimulatedNode
from pykraft.types import Damage, Epoch, Offset
from tests.sim.worlds import led_world, run_until

LOG = f"{0:020d}.log"
EPOCH_AT = 15


def disk_of_a_leader() -> tuple[SimulatedNode, Directory, Inode]:
    """A node, its partition directory, and its log."""
    world, leader = led_world()
    node = world.nodes[int(leader.node_id)]
    world.users.begin()
    run_until(world, lambda: world.facts.atlas.durable_point(node) > 5)
    directory = node.disk.directory(node.config.partition_directory)
    assert directory is not None
    return node, directory, directory.synced[LOG]


def flip(inode: Inode, position: int) -> None:
    inode.rot(position, bytes([inode.synced[position] ^ 1]))
    assert inode.is_rotten


def note_damage(node: SimulatedNode, offset: Offset) -> None:
    """Put a durable note of damage at this offset on the disk."""
    damage = Damage(path=LOG, position=0, start_offset=offset, expected="epoch 1", found="epoch 0")
    note = Quarantine(epoch=Epoch(1), until_offset=None, damages=(damage,), is_cut=False)
    QuarantineFile(node.disk, node.config.partition_directory).write(note)


def test_a_checkpoint_stays_whole_while_it_alone_knows_a_wrong_epoch() -> None:
    node, _, log = disk_of_a_leader()
    assert not is_last_witness(node, EPOCHS, 0)
    position, header = list(scan(bytes(log.synced)))[-1]
    flip(log, position + header.size_bytes - 1)  # which the CRC shows
    assert not is_last_witness(node, EPOCHS, 0)
    flip(log, position + EPOCH_AT)
    assert is_last_witness(node, EPOCHS, 0)


def test_a_node_that_has_noted_a_wrong_epoch_needs_no_checkpoint() -> None:
    node, directory, log = disk_of_a_leader()
    position, header = list(scan(bytes(log.synced)))[-1]
    flip(log, position + EPOCH_AT)
    for offset, is_last in ((Offset(header.base_offset + 1), True), (header.base_offset, False)):
        note_damage(node, offset)
        assert is_last_witness(node, EPOCHS, 0) is is_last
    directory.synced[QUARANTINE] = Inode()  # a note that cannot be read
    assert is_last_witness(node, EPOCHS, 0)


def test_no_epoch_flips_in_a_log_without_a_sound_checkpoint() -> None:
    node, directory, log = disk_of_a_leader()
    position, _ = list(scan(bytes(log.synced)))[-1]
    assert not is_last_witness(node, LOG, position + EPOCH_AT)
    flip(directory.synced[EPOCHS], 0)
    assert is_last_witness(node, LOG, position + EPOCH_AT)
    assert not is_last_witness(node, LOG, position + EPOCH_AT + 1)
    del directory.synced[EPOCHS]
    assert is_last_witness(node, LOG, position + EPOCH_AT)
