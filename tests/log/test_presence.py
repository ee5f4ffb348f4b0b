"""Files that are deleted, renamed or replaced under a running node are noticed; the node's own changes are not.

Source: ours.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pykraft.core.effects import InstallSnapshot, MoveLogStart, TruncateTo, WriteElectionState
from pykraft.errors import StorageError
from pykraft.log.directory import LogDirectory
from pykraft.log.lane import AppendBytes, OrderedLane
from pykraft.log.log import Log
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.proof_file import ProofFile
from pykraft.log.small_files.quarantine_file import QuarantineFile
from pykraft.log.small_files.quorum_state import ElectionStore
from pykraft.types import Election, Epoch, Io, NodeId, Offset, OffsetAndEpoch, Uuid
from tests.log.logs import AnySize, run_of


class Desk:
    """A lane on real files, with a batch in each segment."""

    def __init__(self, folder: Path) -> None:
        fs, self.path = OsFs(), folder / "topic-0"
        config = AnySize(segment_size_bytes=1)
        self.log, _ = Log.open(fs, self.path, config=config, topic_id=Uuid(bytes([1]) * 16))
        notes = QuarantineFile(fs, self.path), ProofFile(fs, folder)
        self.directory = LogDirectory.open(
            fs,
            folder,
            node_id=NodeId(1),
            cluster_id="c",
            directory_id=None,
            random_uuid=lambda: Uuid(bytes(range(16))),
        )
        self.lane = OrderedLane(self.log, ElectionStore(fs, self.path), *notes, directory=self.directory)
        self.lane.look()
        self.lane.perform([WriteElectionState(io=Io(1), election=Election(), voters=(), kraft_version=0)])
        self.lane.perform([AppendBytes(io=Io(2), batches=run_of(0, 6))])
        self.lane.look()

    @property
    def names(self) -> list[str]:
        return [view.path.name for view in self.log.views()]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def replace_by_a_copy(path: Path) -> None:
    shutil.copy(path, path.with_suffix(".copy"))
    path.with_suffix(".copy").replace(path)


def rename(path: Path) -> None:
    path.rename(path.with_suffix(".renamed"))


@pytest.mark.parametrize("harm", [shutil.rmtree, rename])
def test_a_directory_that_is_gone_is_noticed(desk: Desk, harm: Callable[[Path], None]) -> None:
    harm(desk.path)
    with pytest.raises(StorageError, match="topic-0: is gone, or something else is in its place"):
        desk.lane.look()


def test_a_copy_of_the_directory_is_another_one(desk: Desk) -> None:
    rename(desk.path)
    shutil.copytree(desk.path.with_suffix(".renamed"), desk.path)
    with pytest.raises(StorageError, match=f"{desk.names[-1]}: is gone, or something else"):
        desk.lane.look()


@pytest.mark.parametrize("harm", [Path.unlink, rename, replace_by_a_copy])
def test_the_newest_segment_must_be_the_open_file(desk: Desk, harm: Callable[[Path], None]) -> None:
    harm(desk.path / desk.names[-1])
    with pytest.raises(StorageError, match=f"{desk.names[-1]}: is gone"):
        desk.lane.look()


@pytest.mark.parametrize("name", ["quorum-state", "partition.metadata", "first", "second"])
def test_other_files_must_have_their_names(desk: Desk, name: str) -> None:
    name = {"first": desk.names[0], "second": desk.names[1]}.get(name, name)
    (desk.path / name).unlink()
    with pytest.raises(StorageError, match=f"{name}: is gone"):
        desk.lane.look()
    with pytest.raises(StorageError, match="nothing more is written after a failure"):
        desk.lane.look()


@pytest.mark.parametrize("harm", [Path.unlink, rename, replace_by_a_copy])
def test_name_of_the_lock_must_belong_to_the_lock_that_is_held(desk: Desk, harm: Callable[[Path], None]) -> None:
    harm(desk.directory.path / ".lock")
    with pytest.raises(StorageError, match=r"\.lock: is gone, or another file is in its place"):
        desk.lane.look()


def test_what_the_node_removes_itself_is_not_missed(desk: Desk) -> None:
    for job in (
        TruncateTo(io=Io(3), end_offset=Offset(4)),
        MoveLogStart(io=Io(4), snapshot_id=OffsetAndEpoch(Offset(2), Epoch(1))),
        AppendBytes(io=Io(5), batches=run_of(4, 2)),
        InstallSnapshot(io=Io(6), snapshot_id=OffsetAndEpoch(Offset(9), Epoch(1))),
    ):
        before = desk.names
        desk.lane.perform([job])
        assert desk.names != before
        desk.lane.look()
