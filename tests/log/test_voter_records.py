"""The voter records in a log are found again at its start, without reading every batch twice.

Source: KIP-853 §Log; Kafka ``KRaftControlRecordStateMachine``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.config import LogSettings
from pykraft.errors import ProtocolError
from pykraft.log.log import Log
from pykraft.log.os_fs import OsFs
from pykraft.log.voter_records import control_records_of
from pykraft.protocol.records import crc_of, encode_batch, encode_control_batch, membership_records, read_header
from pykraft.types import Epoch, KRaftVersion, KRaftVoters, LeaderChange, NodeId, Offset, Uuid
from tests.core.replicas import voter_set

TOPIC = Uuid(bytes(15) + b"\1")
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
