"""The head of a snapshot: timestamp, kraft.version and voters, read without the rest.

KIP-630's names for the facts in a snapshot id.

Source: KIP-630, KIP-853; Kafka's ``RecordsSnapshotReader`` and ``KRaftControlRecordStateMachine``; KIP-630 §Snapshot
Format; Kafka's ``SnapshotReader`` and ``SnapshotWriter`` have both.
"""

from __future__ import annotations

import pytest

from pykraft.client.serde import bytes_serde
from pykraft.errors import CorruptionError, StorageError
from pykraft.snapshot import batches
from pykraft.snapshot.files import BOOTSTRAP_ID, checkpoint_path
from pykraft.snapshot.head import ContainsLog, SnapshotHead, read_head
from pykraft.snapshot.writer import SnapshotWriter
from pykraft.types import Epoch, Offset, OffsetAndEpoch
from tests.snapshot.snapshots import DIRECTORY, ID, TIMESTAMP_MS, VOTERS, disk, small_batches, write


def test_the_head_says_what_the_snapshot_was_begun_with() -> None:
    fs = disk()
    data = write(fs, [b"a"])
    assert read_head(fs, DIRECTORY, ID) == (len(data), SnapshotHead(last_contained_log_timestamp=TIMESTAMP_MS))
    fs = disk()
    writer = SnapshotWriter(
        fs, DIRECTORY, ID, bytes_serde, last_contained_log_timestamp=7, kraft_version=1, voters=VOTERS
    )
    size_bytes = writer.freeze()
    head = SnapshotHead(last_contained_log_timestamp=7, kraft_version=1, voters=VOTERS)
    assert read_head(fs, DIRECTORY, ID) == (size_bytes, head)


def test_damage_further_on_does_not_matter_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "CHUNK_SIZE_BYTES", 300)
    fs = disk()
    fs.open(checkpoint_path(DIRECTORY, ID), create=True).pwrite([small_batches()[:5_000]], 0)
    assert read_head(fs, DIRECTORY, ID)[1].last_contained_log_timestamp == 5


def test_a_head_that_is_damaged_or_missing_is_told() -> None:
    fs = disk()
    with pytest.raises(StorageError, match=checkpoint_path(DIRECTORY, ID).name):
        read_head(fs, DIRECTORY, ID)
    fs.open(checkpoint_path(DIRECTORY, ID), create=True).pwrite([small_batches()[:50]], 0)
    with pytest.raises(CorruptionError, match="the first 50 bytes"):
        read_head(fs, DIRECTORY, ID)


def test_the_last_contained_record_is_the_one_before_the_offset() -> None:
    snapshot = ContainsLog(OffsetAndEpoch(Offset(7), Epoch(3)))
    assert (snapshot.last_contained_log_offset, snapshot.last_contained_log_epoch) == (6, 3)


def test_the_bootstrap_snapshot_contains_nothing() -> None:
    assert ContainsLog(BOOTSTRAP_ID).last_contained_log_offset == -1
