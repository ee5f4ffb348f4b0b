"""Voters that a node knows at its start: from the checkpoint of formatting, then from its log.

Source: KIP-853; Kafka's ``KRaftControlRecordStateMachine``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.config import LogSettings
from pykraft.errors import ProtocolError
from pykraft.host.voter_records import control_records_of, voter_records_at_start
from pykraft.log.log import Log
from pykraft.log.os_fs import OsFs
from pykraft.protocol.records import crc_of, encode_batch, encode_control_batch, membership_records, read_header
from pykraft.snapshot.writer import write_bootstrap
from pykraft.types import Epoch, KRaftVersion, KRaftVoters, LeaderChange, NodeId, Offset, Uuid, VoterSet
from tests.core.replicas import voter_set

TOPIC = Uuid(bytes(15) + b"\1")


@pytest.mark.conformance(139)
def test_the_checkpoint_comes_before_the_log(tmp_path: Path) -> None:
    fs, partition = OsFs(), tmp_path / "t-0"
    write_bootstrap(fs, partition, voter_set(1))
    log, _ = Log.open(fs, partition, config=LogSettings(), topic_id=TOPIC)
    batch = encode_control_batch([KRaftVoters(voter_set(1, 2))], base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1)
    log.append([batch])
    found = voter_records_at_start(fs, log, [Offset(0)], end_offset=log.end_offset).membership
    log.close()
    assert found == [
        (-1, KRaftVersion(1)),
        (-1, KRaftVoters(voter_set(1))),
        (0, KRaftVoters(voter_set(1, 2))),
    ]


def test_the_last_leader_change_tells_which_voters_led(tmp_path: Path) -> None:
    fs, partition = OsFs(), tmp_path / "t-0"
    log, _ = Log.open(fs, partition, config=LogSettings(), topic_id=TOPIC)
    assert voter_records_at_start(fs, log, [], end_offset=log.end_offset).led_by_others(voter_set(1)) is None
    first, last = (
        LeaderChange(leader_id=NodeId(1), voters=tuple(map(NodeId, ids)), granting_voters=(NodeId(1),))
        for ids in ((1,), (1, 2))
    )
    for at, change in enumerate((first, last)):
        log.append([encode_control_batch([change], base_offset=Offset(at), epoch=Epoch(1 + at), timestamp_ms=1)])
    records = voter_records_at_start(fs, log, [Offset(0), Offset(1)], end_offset=log.end_offset)
    assert records.led_by_others(voter_set(1)) == last
    assert records.led_by_others(voter_set(2, 1)) is None
    assert records.led_by_others(VoterSet()) is None  # bootstrap servers instead of a list
    # A voter set of the log is in force instead of the list, and may differ from what led before it.
    records.membership.append((Offset(1), KRaftVoters(voter_set(1))))
    assert records.led_by_others(voter_set(1)) is None
    log.close()


def test_what_a_snapshot_took_the_place_of_is_not_looked_for(tmp_path: Path) -> None:
    """A node that ended between a fetched snapshot and its install found that out at its start, and did not start."""
    fs, partition = OsFs(), tmp_path / "t-0"
    log, recovery = Log.open(fs, partition, config=LogSettings(), topic_id=TOPIC)
    batch = encode_control_batch([KRaftVoters(voter_set(1, 2))], base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1)
    log.append([batch])
    log.close()
    log, recovery = Log.open(fs, partition, config=LogSettings(), topic_id=TOPIC)
    assert recovery.control_offsets == (0,)
    log.begin_anew_at(Offset(7))
    assert voter_records_at_start(fs, log, recovery.control_offsets, end_offset=log.end_offset).membership == []
    log.close()


def test_a_node_that_joins_believes_the_log_and_not_its_own_checkpoint(tmp_path: Path) -> None:
    """One that joined a quorum of level 0 took snapshots that said level 1."""
    fs, partition = OsFs(), tmp_path / "t-0"
    write_bootstrap(fs, partition, None)
    log, _ = Log.open(fs, partition, config=LogSettings(), topic_id=TOPIC)
    assert voter_records_at_start(fs, log, [], end_offset=log.end_offset).membership == []
    log.close()


OPENING = (
    LeaderChange(leader_id=NodeId(1), voters=(NodeId(1),), granting_voters=(NodeId(1),)),
    KRaftVersion(1),
    KRaftVoters(voter_set(1)),
)


@pytest.mark.conformance(139)
def test_records_of_voters_are_found_after_a_restart(tmp_path: Path) -> None:
    batches = [
        encode_control_batch(OPENING, base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1),
        encode_batch([b"x", b"y"], base_offset=Offset(3), epoch=Epoch(1), timestamp_ms=1),
        encode_control_batch([KRaftVoters(voter_set(1, 2))], base_offset=Offset(5), epoch=Epoch(1), timestamp_ms=1),
    ]
    log, recovery = Log.open(OsFs(), tmp_path / "t-0", config=LogSettings(), topic_id=TOPIC)
    assert recovery.control_offsets == ()
    log.append(batches)
    log.close()
    log, recovery = Log.open(OsFs(), tmp_path / "t-0", config=LogSettings(), topic_id=TOPIC)
    assert recovery.control_offsets == (0, 5)
    assert list(control_records_of(log, recovery.control_offsets)) == [
        (0, OPENING[0]),
        (1, KRaftVersion(1)),
        (2, KRaftVoters(voter_set(1))),
        (5, KRaftVoters(voter_set(1, 2))),
    ]
    log.close()


def test_a_control_batch_that_lies_about_its_offsets_is_refused() -> None:
    batch = bytearray(encode_control_batch(OPENING, base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1).data)
    batch[23:27] = (7).to_bytes(4, "big")
    batch[17:21] = crc_of(batch, 0, read_header(batch)).to_bytes(4, "big")
    with pytest.raises(ProtocolError, match="8 offsets holds 3 records"):
        list(membership_records(batch))
