"""The platter shows what was synced and nothing else, up to the first invalid byte; a wrong epoch keeps a witness."""

from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from pykraft.core.quarantine import Quarantine
from pykraft.host.snapshots.startup_check import DAMAGED
from pykraft.log.fs import make_directory
from pykraft.log.small_files.epoch_checkpoint import FILE_NAME as EPOCHS
from pykraft.log.small_files.proof_file import FILE_NAME as PROOF
from pykraft.log.small_files.quarantine_file import FILE_NAME as QUARANTINE
from pykraft.log.small_files.quarantine_file import QuarantineFile
from pykraft.log.small_files.quorum_state import ElectionStore
from pykraft.protocol.batch import scan
from pykraft.protocol.records import encode_batch
from pykraft.sim.facts.members import format_directory
from pykraft.sim.facts.platter import DurableElection, Platter, Platters, is_last_witness, is_unproven
from pykraft.sim.machine.disk import VirtualDisk
from pykraft.sim.machine.inode import Directory, Inode
from pykraft.sim.machine.ledger import BEGINNING
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import ClusterSettings, Scenario
from pykraft.snapshot.files import checkpoint_path
from pykraft.types import Damage, Election, Epoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from tests.sim.worlds import led_world, run_for, run_until

PARTITION = Path("/disk/log")


def batch(base_offset: int, *, epoch: int = 1) -> bytes:
    return encode_batch([b"value"], base_offset=Offset(base_offset), epoch=Epoch(epoch), timestamp_ms=0).data


def platter(**segments: bytes) -> tuple[VirtualDisk, Platter]:
    """A disk with these segments (``s<base offset>``), durable."""
    disk = VirtualDisk(Random(1))
    made = Platter(disk, PARTITION)
    make_directory(disk, PARTITION)
    for name, content in segments.items():
        file = disk.open(PARTITION / f"{int(name[1:]):020}.log", create=True)
        file.pwrite([content], 0)
        file.sync()
    disk.sync_dir(PARTITION)
    return disk, made


def with_snapshots(disk: VirtualDisk, *snapshot_ids: OffsetAndEpoch) -> None:
    for snapshot_id in snapshot_ids:
        file = disk.open(checkpoint_path(PARTITION, snapshot_id), create=True)
        file.pwrite([b"bytes"], 0)
        file.sync()
    disk.sync_dir(PARTITION)


def id_of(offset: int, epoch: int) -> OffsetAndEpoch:
    return OffsetAndEpoch(Offset(offset), Epoch(epoch))


def test_an_empty_disk_holds_nothing() -> None:
    oracle = Platter(VirtualDisk(Random(1)), PARTITION)
    assert oracle.end() == oracle.begin() == BEGINNING
    assert oracle.end_offset() == 0
    assert oracle.election() == DurableElection()


def test_the_end_is_that_of_the_last_batch_over_all_segments() -> None:
    _, oracle = platter(s0=batch(0) + batch(1), s2=batch(2), s3=b"")
    assert oracle.end_offset() == 3


def test_what_is_not_synced_does_not_count_and_counts_as_soon_as_it_is() -> None:
    disk, oracle = platter(s0=batch(0))
    file = disk.open(PARTITION / f"{0:020}.log", write=True)
    file.pwrite([batch(1)], file.size())
    assert oracle.end_offset() == 1
    file.sync()
    assert oracle.end_offset() == 2
    file.truncate(len(batch(0)))
    assert oracle.end_offset() == 2
    file.sync()
    assert oracle.end_offset() == 1


def test_a_segment_without_a_durable_name_does_not_count() -> None:
    disk, oracle = platter(s0=batch(0))
    file = disk.open(PARTITION / f"{1:020}.log", create=True)
    file.pwrite([batch(1)], 0)
    file.sync()
    assert oracle.end_offset() == 1
    disk.sync_dir(PARTITION)
    assert oracle.end_offset() == 2


def test_nothing_counts_behind_a_gap_a_lower_epoch_or_bytes_without_sense() -> None:
    assert platter(s0=batch(0), s2=batch(2))[1].end_offset() == 1
    assert platter(s0=batch(0) + batch(2))[1].end_offset() == 1
    assert platter(s0=batch(0, epoch=2) + batch(1, epoch=1))[1].end_offset() == 1
    assert platter(s0=batch(0) + bytes(100) + batch(1), s1=batch(1))[1].end_offset() == 1


@given(st.integers(0, 2 * len(batch(0)) - 1), st.integers(1, 255))
def test_nothing_counts_from_a_changed_byte_on(position: int, change: int) -> None:
    content = bytearray(batch(0) + batch(1))
    content[position] ^= change
    epoch_bytes = {at % len(batch(0)) for at in range(12, 16)}
    ends = {0, 1, 2} if position % len(batch(0)) in epoch_bytes else {position // len(batch(0))}
    assert platter(s0=bytes(content))[1].end_offset() in ends


def test_the_election_is_the_one_that_was_made_durable() -> None:
    disk, oracle = platter()
    store = ElectionStore(disk, PARTITION)
    for epoch, voted in ((3, ReplicaKey(NodeId(2))), (4, None)):
        store.write(Election(epoch=Epoch(epoch), voted=voted), voters=(NodeId(1), NodeId(2)), kraft_version=0)
        assert oracle.election() == DurableElection(epoch=epoch, voted_id=voted.id if voted else None)
    file = disk.open(PARTITION / "quorum-state", write=True)
    file.truncate(0)
    assert oracle.election().epoch == 4
    file.sync()
    assert oracle.election() == DurableElection()
    file.pwrite([b'{"clusterId":"'], 0)
    file.sync()
    assert oracle.election() == DurableElection(), "what is torn is no election"


def test_a_log_counts_that_begins_where_a_snapshot_reaches_and_no_other() -> None:
    disk, oracle = platter(s2=batch(2) + batch(3))
    assert oracle.end() == BEGINNING
    with_snapshots(disk, id_of(3, 1))
    assert (oracle.begin().offset, oracle.end()) == (2, id_of(4, 1))
    assert [entry.base_offset for entry in oracle.entries()] == [2, 3]
    with_snapshots(disk, id_of(2, 1))
    assert oracle.begin() == id_of(2, 1)
    assert oracle.snapshots() == [id_of(2, 1), id_of(3, 1)]


def test_a_snapshot_that_holds_more_takes_the_place_of_the_log() -> None:
    disk, oracle = platter(s0=batch(0) + batch(1) + batch(2))
    with_snapshots(disk, id_of(2, 1))
    assert oracle.end() == id_of(3, 1)
    with_snapshots(disk, id_of(1, 2))
    assert oracle.begin() == oracle.end() == id_of(1, 2)
    assert oracle.entries() == []
    assert oracle.entry_at(2) is None


def test_a_start_finds_uncut_damage_whatever_a_snapshot_holds() -> None:
    """An oracle compared such a log with that snapshot (seed 30087)."""
    disk, oracle = platter(s2=batch(2) + batch(3))
    with_snapshots(disk, id_of(9, 1))
    kept, replaced = (oracle.recovered(keeps_damage=keeps) for keeps in (True, False))
    assert ([entry.base_offset for entry in kept.entries], kept.begin.offset) == ([2, 3], 2)
    assert (replaced.entries, replaced.begin) == ([], id_of(9, 1))


def test_a_snapshot_stands_for_an_empty_log_behind_it() -> None:
    disk, oracle = platter(s2=b"")
    with_snapshots(disk, id_of(2, 1))
    assert oracle.end() == id_of(2, 1)
    assert oracle.snapshot(id_of(2, 1)) == b"bytes"
    assert oracle.snapshot(id_of(3, 1)) is None
    disk.remove(PARTITION / "00000000000000000002.log")
    disk.sync_dir(PARTITION)
    assert oracle.end() == oracle.begin() == id_of(2, 1)


def test_a_snapshot_is_set_aside_that_is_damaged_and_no_other() -> None:
    disk, oracle = platter()
    with_snapshots(disk, id_of(2, 1))
    path = checkpoint_path(PARTITION, id_of(2, 1))
    disk.rename(path, path.with_name(path.name + DAMAGED))
    disk.sync_dir(PARTITION)
    assert not oracle.is_set_aside(id_of(2, 1))
    directory = disk.directory(PARTITION)
    assert directory is not None
    directory.synced[path.name + DAMAGED].rot(0, b"?")
    assert oracle.is_set_aside(id_of(2, 1))
    assert not disk.is_rotten


THREE = Scenario(cluster=ClusterSettings(voters=(3,), observers=(0,)))


def test_a_directory_without_anything_is_unproven_and_a_formatted_one_is_not() -> None:
    node = World(8, scenario=THREE).nodes[1]
    assert is_unproven(node)
    format_directory(node)
    assert not is_unproven(node)


def test_a_new_directory_is_proven_once_the_others_were_heard() -> None:
    world = World(8, scenario=THREE)
    for node in world.nodes.values():
        node.start()
    first = world.nodes[1]
    assert is_unproven(first)
    run_until(world, lambda: not is_unproven(first))


def test_a_proof_that_cannot_be_read_proves_nothing() -> None:
    world, _ = led_world()
    node = world.nodes[1]
    directory = node.disk.directory(node.config.log_dir)
    assert directory is not None
    inode = directory.synced[PROOF]
    assert not is_unproven(node)
    inode.synced[0] ^= 1
    assert is_unproven(node)


def test_each_node_is_asked_for_its_own() -> None:
    world, leader = led_world()
    run_for(world, 200_000)
    node = world.nodes[leader.node_id]
    platters = Platters([])
    platters.joined(node)
    end = platters.end(node)
    assert end.offset == platters.end_offset(node) > 0
    assert platters.election(node).epoch == leader.host.status.epoch
    entry = platters.entry_at(node, 0)
    assert entry is not None
    assert platters.holds(node, entry)
    assert platters.recovered(node, keeps_damage=False).at(0) == entry
    assert platters.entry_at(node, end.offset) is None


def test_without_snapshots_there_is_no_news_of_one() -> None:
    world, leader = led_world()
    node, snapshot_id = world.nodes[leader.node_id], OffsetAndEpoch(Offset(1), Epoch(1))
    platters = world.facts.platters
    assert list(platters.snapshots(node)) == []
    assert platters.snapshot(node, snapshot_id) is None
    assert not platters.is_set_aside(node, snapshot_id)
    assert not platters.has_news(node)


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
