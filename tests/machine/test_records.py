"""Records of a state machine, byte by byte; what another version wrote is never guessed at."""

import pytest

from pykraft.errors import ForeignRecordError, UnknownRecordError
from pykraft.machine.records import (
    AgreedRecord,
    CheckRecord,
    CommandRecord,
    DigestRecord,
    LogRecord,
    OpenRecord,
    ResultRecord,
    SessionRecord,
    SkippedRecord,
    SkipRecord,
    SnapshotRecord,
    StateRecord,
    TickRecord,
    TimeRecord,
    VersionRecord,
    check_forwarded,
    decode_log_record,
    decode_snapshot_record,
    encode_command,
    encode_log_record,
    encode_snapshot_record,
    forwarded_alone,
    pack_records,
    stamped,
    unpack_records,
)

NONCE = bytes(range(16))
IN_LOG = {
    "01 01 0000000000000007" + NONCE.hex(): OpenRecord(7, NONCE),
    "01 02 0000000000000007 0000000000000003 0000000000000005 0000000000000004 6869": CommandRecord(7, 3, 5, 4, b"hi"),
    "01 02 0000000000000007 0000000000000003 0000000000000005 0000000000000004": CommandRecord(7, 3, 5, 4, b""),
    "01 03 0000000000000007": TickRecord(7),
    "01 04 0000000000000007": CheckRecord(7),
    "01 05 0000000000000007 00000002 0000000000000005 00000009" + NONCE.hex() + "01020304": DigestRecord(
        7, 2, 5, 9, NONCE, b"\x01\x02\x03\x04"
    ),
    "01 06 0000000000000007 00000003": VersionRecord(7, 3),
    "01 07 0000000000000007 0000000000000003": SkipRecord(7, 3),
}
IN_SNAPSHOT = {
    "01 10 0000000000000007 0000000000000006": TimeRecord(7, 6),
    "01 11 0000000000000003" + NONCE.hex() + "0000000000000007 0000000000000004": SessionRecord(3, NONCE, 7, 4),
    "01 12 0000000000000003 0000000000000005 01 6e6f": ResultRecord(3, 5, True, b"no"),
    "01 12 0000000000000003 0000000000000005 00": ResultRecord(3, 5, False, b""),
    "01 13 6869": StateRecord(b"hi"),
    "01 13": StateRecord(b""),
    "01 14 00000003": AgreedRecord(3),
    "01 15 0000000000000003": SkippedRecord(3),
}


@pytest.mark.parametrize(("text", "record"), IN_LOG.items())
def test_a_record_of_the_log(text: str, record: LogRecord) -> None:
    assert encode_log_record(record) == bytes.fromhex(text)
    assert decode_log_record(bytes.fromhex(text)) == record


@pytest.mark.parametrize(("text", "record"), IN_SNAPSHOT.items())
def test_a_record_of_a_snapshot(text: str, record: SnapshotRecord) -> None:
    assert encode_snapshot_record(record) == bytes.fromhex(text)
    assert decode_snapshot_record(bytes.fromhex(text)) == record


@pytest.mark.parametrize("text", IN_LOG)
def test_a_new_time_changes_nothing_else(text: str) -> None:
    before = bytes.fromhex(text)
    after = stamped(before, 9)
    assert decode_log_record(after).time_ms == 9
    assert stamped(after, 7) == before


@pytest.mark.parametrize("data", [b"\x02\x01", b"\x02" + bytes(40), b"\x0f\x00", b"\x01\x09" + bytes(9)])
def test_records_of_a_later_version_are_unknown(data: bytes) -> None:
    for decode in (decode_log_record, check_forwarded):
        with pytest.raises(
            UnknownRecordError, match=f"a record of {len(data)} bytes .* is none of version 1"
        ) as raised:
            decode(data)
        assert type(raised.value) is UnknownRecordError
    with pytest.raises(UnknownRecordError):
        decode_snapshot_record(data)


@pytest.mark.parametrize(
    "data", [b"", b"x", b"\x01", b"\x10\x01", b"\x00" + bytes(40), b"\x01\x02\x00", b"\x01\x10" + bytes(9), b'{"a":1}']
)
def test_what_no_version_writes_is_foreign(data: bytes) -> None:
    for decode in (decode_log_record, check_forwarded):
        with pytest.raises(ForeignRecordError, match=f"a record of {len(data)} bytes .* is none of a state machine"):
            decode(data)
    with pytest.raises(UnknownRecordError):
        decode_snapshot_record(data)


@pytest.mark.parametrize("text", ["01 01 0000000000000007 00", "01 03 0000000000000007 00"])
def test_a_record_of_another_length_is_none(text: str) -> None:
    with pytest.raises(ForeignRecordError):
        decode_log_record(bytes.fromhex(text))


def test_nodes_forward_what_concerns_their_clients_and_a_digest_alone() -> None:
    command, opening = encode_command(0, 1, 2, 3, b"it"), encode_log_record(OpenRecord(0, bytes(16)))
    assert (check_forwarded(command), check_forwarded(opening)) == (b"it", None)
    found = DigestRecord(0, 1, 2, 3, bytes(16), b"")
    digest = encode_log_record(found)
    for of_another in (TickRecord(0), CheckRecord(0), found, VersionRecord(0, 1), SkipRecord(0, 1)):
        with pytest.raises(ForeignRecordError, match="is none that a node forwards"):
            check_forwarded(encode_log_record(of_another))
    assert forwarded_alone([digest]) == found
    assert forwarded_alone([encode_log_record(VersionRecord(0, 1))]) == VersionRecord(0, 1)
    for others in ([], [command], [opening], [digest, digest]):
        assert forwarded_alone(others) is None


def test_records_of_a_request() -> None:
    for records in ([], [b"a"], [b"ab", b"", b"c" * 300]):
        assert unpack_records(pack_records(records)) == records
    assert pack_records([b"hi", b"x"]) == bytes.fromhex("00000002 6869 00000001 78")
    for torn in (b"\x00\x00\x00\x05hi", b"\x00\x00\x00\x01", b"\x00\x01"):
        with pytest.raises(UnknownRecordError):
            unpack_records(torn)
