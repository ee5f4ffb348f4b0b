"""What a start finds of snapshots, and what it leaves alone.

Source: Kafka's ``KafkaRaftLog``.
"""

from __future__ import annotations

import pytest

from pykraft.client.serde import bytes_serde
from pykraft.config import LogSettings
from pykraft.host.snapshots.files import SnapshotFiles, real_snapshots
from pykraft.snapshot.files import BOOTSTRAP_ID, list_snapshots
from pykraft.snapshot.writer import write_bootstrap
from pykraft.types import Epoch, KRaftVersion, Offset
from tests.disks import ScriptedDisk
from tests.snapshot.snapshots import DIRECTORY, ID, id_of, write


def opened(fs: ScriptedDisk, log_start_offset: int = 0) -> SnapshotFiles:
    return SnapshotFiles.open(
        fs, DIRECTORY, log_start_offset=Offset(log_start_offset), leader_epoch=Epoch(1), settings=LogSettings()
    )


@pytest.mark.conformance(121)
def test_the_bootstrap_checkpoint_is_none_of_them_and_a_directory_without_others_is_left_as_it_is() -> None:
    fs = ScriptedDisk()
    write_bootstrap(fs, DIRECTORY, None)
    fs.operations.clear()
    assert opened(fs).catalog.ids == ()
    assert fs.operations == []
    assert list_snapshots(fs, DIRECTORY) == [BOOTSTRAP_ID]
    assert real_snapshots(fs, DIRECTORY) == []


@pytest.mark.conformance(108)
def test_what_is_left_of_snapshots_is_brought_into_order() -> None:
    fs = ScriptedDisk()
    fs.prepare(DIRECTORY)
    write(fs, [b"old"], snapshot_id=id_of(3, 1))
    write(fs, [b"new"])
    fs.open(DIRECTORY / f"{200:020d}-{5:010d}.checkpoint.part", create=True).close()
    files = opened(fs, log_start_offset=10)
    assert files.catalog.ids == (ID,)
    assert [name for name in fs.listdir(DIRECTORY) if "checkpoint" in name] == [f"{157:020d}-{3:010d}.checkpoint"]
    with_reader = files.open_newest(bytes_serde)
    assert [value for batch in with_reader for value in batch.records] == [b"new"]
    with_reader.close()


def test_a_frozen_one_is_in_the_catalog_and_says_who_votes() -> None:
    fs = ScriptedDisk()
    write_bootstrap(fs, DIRECTORY, None)
    files = opened(fs)
    told = files.frozen(BOOTSTRAP_ID)
    assert told.membership == (KRaftVersion(1),)
    assert files.catalog.ids == (BOOTSTRAP_ID,)
