"""KIP-630's names for the facts in a snapshot id.

Source: KIP-630 §Snapshot Format; Kafka's ``SnapshotReader`` and ``SnapshotWriter`` have both.
"""

from __future__ import annotations

from pykraft.snapshot.contained import ContainsLog
from pykraft.snapshot.files import BOOTSTRAP_ID
from pykraft.types import Epoch, Offset, OffsetAndEpoch


def test_the_last_contained_record_is_the_one_before_the_offset() -> None:
    snapshot = ContainsLog(OffsetAndEpoch(Offset(7), Epoch(3)))
    assert (snapshot.last_contained_log_offset, snapshot.last_contained_log_epoch) == (6, 3)


def test_the_bootstrap_snapshot_contains_nothing() -> None:
    assert ContainsLog(BOOTSTRAP_ID).last_contained_log_offset == -1
