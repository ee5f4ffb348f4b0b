"""The head of a snapshot: timestamp, kraft.version and voters, read without the rest.

Source: KIP-630, KIP-853; Kafka's ``RecordsSnapshotReader`` and ``KRaftControlRecordStateMachine``.
"""

from __future__ import annotations

import pytest

from pykraft.client.serde import bytes_serde
from pykraft.errors import CorruptionError, StorageError
from pykraft.snapshot import batches
from pykraft.snapshot.files import checkpoint_path
from pykraft.snapshot.head import SnapshotHead, read_head
from pykraft.snapshot.writer import SnapshotWriter
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
