"""A damaged snapshot is set aside when the log holds the same, and keeps the node down when it does not."""

import pytest

from pykraft.errors import CorruptionError
from pykraft.host.snapshots.startup_check import set_damaged_aside
from pykraft.log.log import Log
from pykraft.snapshot.files import checkpoint_path, list_snapshots
from pykraft.snapshot.writer import write_bootstrap
from pykraft.types import Offset, OffsetAndEpoch
from tests.disks import ScriptedDisk
from tests.host.cluster import Cluster
from tests.host.snapshots.test_store import lagging
from tests.log.logs import DIRECTORY, fill, open_log, run_of
from tests.snapshot.snapshots import id_of, write


class Directory:
    """A log from 0 to 20 with snapshots of it, some of them damaged."""

    def __init__(self, *offsets: int, damaged: tuple[int, ...] = (), begins_behind: int = 0) -> None:
        self.fs = ScriptedDisk()
        self.log, _ = open_log(self.fs)
        fill(self.log, run_of(0, 20, size_bytes=300))
        for offset in offsets:
            write(self.fs, [b"state " * 200], directory=DIRECTORY, snapshot_id=id_of(offset, 1))
        if begins_behind:
            self.log.delete_before(Offset(begins_behind))
        for offset in damaged:
            self.damage(id_of(offset, 1))

    def damage(self, snapshot_id: OffsetAndEpoch, *, at: int = -100) -> None:
        path = checkpoint_path(DIRECTORY, snapshot_id)
        content = bytearray(self.fs.read(path))
        content[at] ^= 4
        self.fs.write(path, bytes(content))

    def set_aside(self) -> list[str]:
        return set_damaged_aside(self.fs, self.log)

    @property
    def counting(self) -> list[int]:
        return [each.offset for each in list_snapshots(self.fs, DIRECTORY)]

    @property
    def aside(self) -> list[str]:
        return [name for name in self.fs.listdir(DIRECTORY) if name.endswith(".damaged")]


def test_sound_ones_are_left_alone_and_older_ones_not_looked_at() -> None:
    directory = Directory(5, 10, 20, damaged=(5,))
    before = directory.fs.listdir(DIRECTORY)
    assert directory.set_aside() == []
    assert directory.fs.listdir(DIRECTORY) == before
    assert Directory().set_aside() == []


@pytest.mark.parametrize("at", [3, 80, -100, -3])
def test_what_the_log_holds_from_its_beginning_is_not_needed(at: int) -> None:
    directory = Directory(10)
    directory.damage(id_of(10, 1), at=at)
    [told] = directory.set_aside()
    assert told.startswith("DAMAGED SNAPSHOT, set aside as .damaged since the log holds the same: ")
    assert f"{10:020d}-{1:010d}.checkpoint at position" in told
    assert directory.counting == []
    assert directory.aside == [f"{10:020d}-{1:010d}.checkpoint.damaged"]
    assert directory.set_aside() == []


def test_one_is_set_aside_durably() -> None:
    directory = Directory(10, damaged=(10,))
    directory.set_aside()
    assert directory.fs.operations[-1][0] == "sync_dir"


@pytest.mark.parametrize(("offsets", "damaged", "kept"), [((8, 20), (20,), [8]), ((8, 12, 20), (12, 20), [8])])
def test_what_the_log_holds_behind_an_older_sound_one_is_not_needed(
    offsets: tuple[int, ...], damaged: tuple[int, ...], kept: list[int]
) -> None:
    directory = Directory(*offsets, damaged=damaged, begins_behind=8)
    assert len(directory.set_aside()) == len(damaged)
    assert directory.counting == kept


@pytest.mark.parametrize(
    ("directory", "why"),
    [
        (Directory(8, damaged=(8,), begins_behind=8), "the log begins at offset 8, and no other snapshot here covers"),
        (Directory(8, 20, damaged=(8, 20), begins_behind=8), "the log begins at offset 8"),
        (Directory(30, damaged=(30,)), "the log ends at offset 20, before the snapshot does"),
        (Directory(10, 30, damaged=(30,)), "the log ends at offset 20, before the snapshot does"),
    ],
    ids=["behind", "all", "before", "before, with an older one"],
)
def test_one_that_is_needed_keeps_the_node_down_with_the_repair(directory: Directory, why: str) -> None:
    before = directory.fs.listdir(DIRECTORY)
    with pytest.raises(CorruptionError, match="expected CRC") as caught:
        directory.set_aside()
    assert why in str(caught.value)
    assert "replace it with the file of this name from another replica, or add a later snapshot" in str(caught.value)
    assert directory.fs.listdir(DIRECTORY) == before


def test_a_later_one_of_another_replica_mends_it() -> None:
    directory = Directory(8, damaged=(8,), begins_behind=8)
    write(directory.fs, [b"theirs"], directory=DIRECTORY, snapshot_id=id_of(15, 1))
    assert directory.set_aside() == []


def test_the_checkpoint_of_formatting_is_needed_while_it_is_the_newest() -> None:
    directory = Directory()
    write_bootstrap(directory.fs, DIRECTORY, None)
    assert directory.set_aside() == []
    directory.damage(id_of(0, 0), at=70)
    with pytest.raises(CorruptionError, match="it holds the first voter set"):
        directory.set_aside()
    write(directory.fs, [b"state"], directory=DIRECTORY, snapshot_id=id_of(10, 1))
    assert directory.set_aside() == []


@pytest.mark.parametrize("repair", ["copied", "fetched"])
def test_both_repairs_that_the_error_names_work(cluster: Cluster, repair: str) -> None:
    leader, away, snapshot_id = lagging(cluster)
    away.fs = type(away.fs)()
    away.start()
    cluster.run_until(lambda: away.running.status.log_start_offset == snapshot_id.offset)
    leader.propose(b"behind")
    cluster.run_until_committed(snapshot_id.offset + 1, away)
    away.leave()
    path = checkpoint_path(away.config.partition_directory, snapshot_id)
    away.fs.write(path, away.fs.read(path)[:-1])
    with pytest.raises(CorruptionError, match="never on an only voter, remove the snapshots and the segments"):
        away.start()
    if repair == "copied":
        away.fs.write(path, leader.fs.read(checkpoint_path(leader.config.partition_directory, snapshot_id)))
        away.start()
        assert away.running.status.quarantine is None
        assert away.running.status.log_end_offset == snapshot_id.offset + 1
    else:
        for name in away.fs.listdir(path.parent):
            if name.startswith("0"):
                away.fs.remove(path.parent / name)
        away.start()
        assert away.running.status.quarantine is not None
        cluster.run_until(lambda: away.running.status.quarantine is None)
        assert away.running.status.log_start_offset == snapshot_id.offset
    leader.propose(b"after")
    cluster.run_until_committed(snapshot_id.offset + 2, away)


def test_what_ends_before_the_log_begins_is_of_no_interest() -> None:
    directory = Directory(3, 8, damaged=(3,), begins_behind=8)
    log: Log = directory.log
    assert log.start_offset == 8
    assert directory.set_aside() == []
