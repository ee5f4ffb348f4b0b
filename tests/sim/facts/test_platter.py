"""The platter shows what was synced and nothing else, up to the first invalid byte."""

from __future__ import annotations

from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from pykraft.host.snapshots.startup_check import DAMAGED
from pykraft.log.fs import make_directory
from pykraft.log.small_files.quorum_state import ElectionStore
from pykraft.protocol.records import encode_batch
from pykraft.sim.facts.platter import DurableElection, Platter
from pykraft.sim.machine.disk import VirtualDisk
from pykraft.sim.machine.ledger import BEGINNING
from pykraft.snapshot.files import checkpoint_path
from pykraft.types import Election, Epoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey

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
