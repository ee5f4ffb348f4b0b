"""The bootstrap checkpoint of a dynamic quorum: written completely, and its voters read back.

Source: KIP-853 §Bootstrapping; Kafka's ``Formatter`` and ``BootstrapDirectory``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.client.serde import bytes_serde
from pykraft.log.os_fs import OsFs
from pykraft.snapshot.bootstrap import membership_in_snapshot, write_bootstrap
from pykraft.snapshot.files import BOOTSTRAP_ID, checkpoint_path, list_snapshots
from pykraft.snapshot.reader import SnapshotReader
from pykraft.snapshot.writer import SnapshotWriter
from pykraft.types import Epoch, KRaftVersion, KRaftVoters, MembershipRecord, Offset, OffsetAndEpoch, VoterSet
from tests.core.replicas import voter_set


@pytest.mark.parametrize(
    ("voters", "records"),
    [(voter_set(1, 2), (KRaftVersion(1), KRaftVoters(voter_set(1, 2)))), (None, (KRaftVersion(1),))],
)
def test_what_is_written_is_read(
    tmp_path: Path, voters: VoterSet | None, records: tuple[MembershipRecord, ...]
) -> None:
    fs, partition = OsFs(), tmp_path / "t-0"
    write_bootstrap(fs, partition, voters)
    assert list_snapshots(fs, partition) == [BOOTSTRAP_ID]
    assert membership_in_snapshot(fs, partition, Offset(0)) == (0, records)


def test_the_newest_snapshot_within_the_log_says_it_or_else_the_first_one_beyond(tmp_path: Path) -> None:
    """A damaged log that ended before all its snapshots left its node without voters (simulated seed 20007)."""
    fs = OsFs()
    for end_offset, voter_id in ((10, 1), (20, 2), (30, 3)):
        writer = SnapshotWriter(
            fs,
            tmp_path,
            OffsetAndEpoch(offset=Offset(end_offset), epoch=Epoch(1)),
            bytes_serde,
            last_contained_log_timestamp=0,
            kraft_version=1,
            voters=voter_set(voter_id),
        )
        writer.freeze()
        writer.close()
    for log_end, told_at, voter_id in ((9, 9, 1), (10, 10, 1), (25, 20, 2), (99, 30, 3)):
        found = membership_in_snapshot(fs, tmp_path, Offset(log_end))
        assert found == (told_at, (KRaftVersion(1), KRaftVoters(voter_set(voter_id))))


def test_without_a_snapshot_nothing_is_said(tmp_path: Path) -> None:
    assert membership_in_snapshot(OsFs(), tmp_path, Offset(9)) == (0, ())


def test_it_holds_no_records_of_an_application(tmp_path: Path) -> None:
    write_bootstrap(OsFs(), tmp_path, voter_set(1))

    class _AsItIs:
        def deserialize(self, data: bytes) -> bytes:
            return data

    reader = SnapshotReader(OsFs(), checkpoint_path(tmp_path, BOOTSTRAP_ID), BOOTSTRAP_ID, _AsItIs())
    assert [record for batch in reader for record in batch.records] == []
    reader.close()
