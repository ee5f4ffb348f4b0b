"""Batches as values: every kind of damage is reported and never raised; large files are read in windows.

Source: Kafka's ``DumpLogSegments``: field names, and what it prints for each control record.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from pykraft.log.offline.dump_batches import BATCH_SIZE_BYTES_MAX, CHUNK_SIZE_BYTES, Fact, batch_facts
from pykraft.log.os_fs import OsFs
from pykraft.protocol.batch import HEADER_SIZE_BYTES
from pykraft.protocol.control import encode_control
from pykraft.protocol.records import encode_batch, encode_control_batch
from pykraft.protocol.varint import encode_varint
from pykraft.types import Buffer, ControlRecord, Epoch, LeaderChange, NodeId, Offset, SnapshotHeader


class Bytes:
    """A file that is its bytes; ``size_bytes`` may claim more than there are."""

    def __init__(self, data: bytes, size_bytes: int | None = None) -> None:
        self._data = data
        self._size_bytes = len(data) if size_bytes is None else size_bytes
        self.largest_read = 0

    def pread(self, size_bytes: int, position: int) -> bytes:
        self.largest_read = max(self.largest_read, size_bytes)
        return self._data[position : position + size_bytes]

    def size(self) -> int:
        return self._size_bytes

    def is_at(self, path: Path) -> bool:
        raise AssertionError(f"a dump does not ask for {path}")

    def pwrite(self, parts: Sequence[Buffer], position: int) -> int:
        raise AssertionError("a dump writes nothing")

    def truncate(self, size_bytes: int) -> None:
        raise AssertionError("a dump writes nothing")

    def sync(self) -> None:
        raise AssertionError("a dump writes nothing")

    def reserve(self, position: int, size_bytes: int) -> None:
        raise AssertionError("a dump writes nothing")

    def unreserve(self) -> None:
        raise AssertionError("a dump writes nothing")

    def uncache(self, position: int, size_bytes: int) -> None:
        raise AssertionError("a dump does not know how old the bytes are")

    def close(self) -> None:
        pass


def batch(*values: bytes, base_offset: int = 0) -> bytes:
    return encode_batch(values or (b"abc",), base_offset=Offset(base_offset), epoch=Epoch(1), timestamp_ms=1000).data


def control(record: ControlRecord) -> bytes:
    return encode_control_batch([record], base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1000).data


def resealed(data: bytes, *, body: bytes | None = None, patches: Sequence[tuple[int, str, int]] = ()) -> bytes:
    """The batch with another body and other header fields (position, layout, value), length and CRC made right."""
    changed = bytearray(data[:HEADER_SIZE_BYTES] + (data[HEADER_SIZE_BYTES:] if body is None else body))
    struct.pack_into(">i", changed, 8, len(changed) - 12)
    for position, layout, value in patches:
        struct.pack_into(layout, changed, position, value)
    struct.pack_into(">I", changed, 17, crc32c(changed[21:]))
    return bytes(changed)


def facts(data: bytes, *, expected_offset: int = 0, with_records: bool = True) -> list[Fact]:
    return list(batch_facts(Bytes(data), Offset(expected_offset), with_records=with_records))


def problem(position: int, expected: str, found: str) -> Fact:
    return Fact("problem", {"position": position, "expected": expected, "found": found})


def test_an_empty_file_has_no_facts() -> None:
    assert facts(b"") == []


def test_records_are_there_when_asked_for() -> None:
    (fact,) = facts(batch(b"one", b"three"))
    assert [(record["offset"], record["key"], record["value"]) for record in fact.fields["records"]] == [
        (0, None, b"one"),
        (1, None, b"three"),
    ]
    assert fact.fields["records"][1]["valueSize"] == 5
    (fact,) = facts(batch(), with_records=False)
    assert "records" not in fact.fields


def test_offsets_that_do_not_follow_are_a_problem() -> None:
    found = facts(batch() + batch(base_offset=5))
    assert [fact.kind for fact in found] == ["batch", "batch", "problem"]
    assert found[2] == problem(len(batch()), "offset 1", "offset 5")
    assert facts(batch(base_offset=5), expected_offset=4)[1] == problem(0, "offset 4", "offset 5")


def test_a_file_cut_at_any_byte() -> None:
    first, second = batch(), batch(b"second", base_offset=1)
    data = first + second
    for size_bytes in range(len(first) + 1, len(data)):
        _, what, tail = facts(data[:size_bytes])
        expected = f"a batch{' header' * (size_bytes - len(first) < 61)} of"
        assert what.fields["position"] == len(first)
        assert what.fields["expected"].startswith(expected)
        assert tail == Fact("tail", {"position": len(first), "invalidBytes": size_bytes - len(first)})
    assert facts(data[:-1])[1] == problem(len(first), f"a batch of {len(second)} bytes", f"{len(second) - 1} bytes")


@pytest.mark.parametrize(
    ("position", "layout", "value", "found"),
    [
        (16, ">b", 0, "one that has magic 0; only 2 is read"),
        (8, ">i", 0, "one that says that 0 bytes follow its length, but its header alone has 49"),
        (8, ">i", -1, "one that says that -1 bytes follow its length, but its header alone has 49"),
    ],
)
def test_a_header_that_hides_the_next_batch_ends_the_file(position: int, layout: str, value: int, found: str) -> None:
    damaged = bytearray(batch(base_offset=1))
    struct.pack_into(layout, damaged, position, value)
    _, what, tail = facts(batch() + damaged + batch())
    assert what == problem(len(batch()), "a batch header of 61 bytes", found)
    assert tail.fields["invalidBytes"] == 2 * len(batch())


def test_a_wrong_crc_is_shown_and_the_records_too() -> None:
    damaged = bytearray(batch())
    damaged[17] ^= 1
    shown, what, following = facts(bytes(damaged) + batch(base_offset=1))
    assert shown.fields["isvalid"] is False
    assert shown.fields["records"][0]["value"] == b"abc"
    assert what.fields["expected"].startswith("CRC ")
    assert following.fields["isvalid"] is True


def test_records_that_cannot_be_read_are_a_problem_of_their_batch() -> None:
    shown, what = facts(resealed(batch(), body=b"\x7e" * 10))
    assert shown.fields["isvalid"] is True
    assert "records" not in shown.fields
    assert what == problem(0, "a batch that can be read", "record 0 of the batch has length 63, 9 bytes are left")


def test_a_header_that_contradicts_itself_is_shown() -> None:
    shown, what = facts(resealed(batch(), patches=[(57, ">i", 9)]), with_records=False)
    assert shown.fields["count"] == 9
    assert what.fields["found"] == "the batch at byte 0 claims 9 records for the offsets 0 to 0"


def test_codecs_by_name() -> None:
    shown, what = facts(resealed(batch(), patches=[(21, ">h", 7)]))
    assert shown.fields["compresscodec"] == "unknown(7)"
    assert what.fields["found"] == "the batch at byte 0 has codec 7, which does not exist"
    shown, what = facts(resealed(batch(), patches=[(21, ">h", 4)]))
    assert shown.fields["compresscodec"] == "zstd"
    assert "cannot be decompressed" in what.fields["found"]


def control_of(data: bytes) -> object:
    (fact,) = facts(data)
    return fact.fields["records"][0]["control"]


def test_control_records_under_kafkas_names() -> None:
    change = LeaderChange(leader_id=NodeId(1), voters=(NodeId(1),), granting_voters=())
    assert control_of(control(change)) == [
        "LeaderChange",
        {"version": 0, "leaderId": 1, "voters": [{"voterId": 1}], "grantingVoters": []},
    ]
    assert control_of(control(SnapshotHeader(9))) == ["SnapshotHeader", {"version": 0, "lastContainedLogTimestamp": 9}]


def control_record(key: bytes, value: bytes) -> bytes:
    rest = b"\x00\x00\x00" + encode_varint(len(key)) + key + encode_varint(len(value)) + value + b"\x00"
    return resealed(control(SnapshotHeader(9)), body=encode_varint(len(rest)) + rest)


def test_directory_ids_of_a_leader_change_of_version_1() -> None:
    voter = struct.pack(">i16sb", 1, bytes(15) + b"\x01", 0)
    value = struct.pack(">hi", 1, 1) + b"\x02" + voter + b"\x01\x00"
    assert control_of(control_record(struct.pack(">hh", 0, 2), value)) == [
        "LeaderChange",
        {
            "version": 1,
            "leaderId": 1,
            "voters": [{"voterId": 1, "voterDirectoryId": "AAAAAAAAAAAAAAAAAAAAAQ"}],
            "grantingVoters": [],
        },
    ]


@pytest.mark.parametrize(("number", "name"), [(0, "ABORT"), (1, "COMMIT"), (9, "UNKNOWN(9)")])
def test_control_records_that_are_not_of_raft_are_named(number: int, name: str) -> None:
    assert control_of(control_record(struct.pack(">hh", 0, number), b"anything")) == ["controlType", name]


def test_a_control_record_that_cannot_be_read() -> None:
    key, value = encode_control(SnapshotHeader(9))
    for data in (control_record(key, value[:-1]), control_record(b"", value)):
        shown, what = facts(data)
        assert "records" not in shown.fields
        assert what.fields["found"].startswith("a control record cannot be read")


def test_a_file_that_becomes_shorter_while_it_is_read() -> None:
    data = batch()
    (what,) = batch_facts(Bytes(data[:-1], len(data)), Offset(0), with_records=False)
    assert what == problem(0, f"a batch of {len(data)} bytes", f"{len(data) - 1} bytes: the file became shorter")


def test_batches_larger_and_smaller_than_the_window() -> None:
    sizes = [10, CHUNK_SIZE_BYTES - 200, CHUNK_SIZE_BYTES + 5000, 10, 3 * CHUNK_SIZE_BYTES, 20]
    file = Bytes(b"".join(batch(bytes(size), base_offset=offset) for offset, size in enumerate(sizes)))
    found = list(batch_facts(file, Offset(0), with_records=True))
    assert [fact.fields["records"][0]["valueSize"] for fact in found] == sizes
    assert all(fact.fields["isvalid"] for fact in found)
    assert file.largest_read == len(batch(bytes(3 * CHUNK_SIZE_BYTES)))


def test_a_batch_that_claims_too_much_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    damaged = bytearray(batch())
    struct.pack_into(">i", damaged, 8, BATCH_SIZE_BYTES_MAX)
    path.write_bytes(damaged)
    with path.open("r+b") as sparse:
        sparse.truncate(2 * BATCH_SIZE_BYTES_MAX)
    file = OsFs().open(path)
    what, tail = batch_facts(file, Offset(0), with_records=True)
    file.close()
    assert what == problem(0, f"a batch of at most {BATCH_SIZE_BYTES_MAX} bytes", f"one of {BATCH_SIZE_BYTES_MAX + 12}")
    assert tail.fields["invalidBytes"] == 2 * BATCH_SIZE_BYTES_MAX


@given(st.data())
def test_any_damage_is_told_and_none_is_raised(draw: st.DataObject) -> None:
    change = LeaderChange(leader_id=NodeId(1), voters=(NodeId(1),), granting_voters=())
    data = bytearray(control(change) + batch(b"two", b"three", base_offset=1))
    for _ in range(draw.draw(st.integers(1, 4))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    if bytes(data) != control(change) + batch(b"two", b"three", base_offset=1):
        assert facts(bytes(data))
