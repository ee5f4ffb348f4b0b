"""Each kind of file is read, each kind of damage is a problem with position, expected and found."""

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from pykraft.core.quarantine import Quarantine
from pykraft.errors import StorageError, UsageError
from pykraft.log.index import CHUNK_ENTRIES
from pykraft.log.offline import dump
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.quarantine_file import QuarantineFile
from pykraft.log.small_files.quorum_state import ElectionStore
from pykraft.log.small_files.recovery_point import RecoveryPoint
from pykraft.protocol.batch import HEADER_SIZE_BYTES
from pykraft.protocol.control import encode_control
from pykraft.protocol.primitives import encode_varint
from pykraft.protocol.records import encode_batch, encode_control_batch
from pykraft.types import (
    Buffer,
    ControlRecord,
    Election,
    Epoch,
    LeaderChange,
    NodeId,
    Offset,
    ReplicaKey,
    SnapshotHeader,
    Uuid,
)

BASE = "00000000000000000100"


def batch(base_offset: int, count: int = 1) -> bytes:
    return encode_batch([b"abc"] * count, base_offset=Offset(base_offset), epoch=Epoch(1), timestamp_ms=1000).data


def dumped(path: Path, content: bytes | None = None, *, with_records: bool = False) -> list[dump.Fact]:
    if content is not None:
        path.write_bytes(content)
    return list(dump.dump_file(OsFs(), path, with_records=with_records))


def entries(path: Path, content: bytes | None = None) -> list[dict[str, object]]:
    found = dumped(path, content)
    assert {fact.kind for fact in found} <= {"entry"}, found
    return [fact.fields for fact in found]


def problem(position: int, expected: str, found: str) -> dump.Fact:
    return dump.Fact("problem", {"position": position, "expected": expected, "found": found})


def test_a_log_begins_where_its_name_says(tmp_path: Path) -> None:
    heading, first = dumped(tmp_path / f"{BASE}.log", batch(100))
    assert heading == dump.Fact("heading", {"text": "Log starting offset: 100"})
    assert first.fields["baseOffset"] == 100
    assert dumped(tmp_path / f"{BASE}.log", batch(7))[2] == problem(0, "offset 100", "offset 7")


@pytest.mark.parametrize("ending", ["", ".deleted", ".cleaned", ".swap", ".part", ".tmp"])
def test_left_over_files_are_read_like_the_others(tmp_path: Path, ending: str) -> None:
    assert [fact.kind for fact in dumped(tmp_path / f"{BASE}.log{ending}", batch(100))] == ["heading", "batch"]
    assert dumped(tmp_path / f"{BASE}.index{ending}", struct.pack(">ii", 1, 2))[0].kind == "entry"


@pytest.mark.parametrize(
    ("name", "heading"),
    [
        ("00000000000000000161-0000000002.checkpoint", "Snapshot end offset: 161, epoch: 2"),
        ("00000000000000000161-0000000002-9876543210.checkpoint.part", "Snapshot end offset: 161, epoch: 2"),
        ("bootstrap.checkpoint", "KRaft bootstrap snapshot"),
    ],
)
def test_a_snapshot_counts_from_0(tmp_path: Path, name: str, heading: str) -> None:
    found = dumped(tmp_path / name, batch(0), with_records=True)
    assert [fact.kind for fact in found] == ["heading", "batch"]
    assert found[0].fields["text"] == heading
    assert found[1].fields["records"][0]["value"] == b"abc"


def test_an_offset_index_counts_from_its_base(tmp_path: Path) -> None:
    content = struct.pack(">iiii", 5, 4100, 9, 8300)
    assert entries(tmp_path / f"{BASE}.index", content) == [
        {"offset": 105, "position": 4100},
        {"offset": 109, "position": 8300},
    ]


def test_a_time_index_counts_from_its_base(tmp_path: Path) -> None:
    content = struct.pack(">qiqi", 1000, 5, 1001, 5)
    assert entries(tmp_path / f"{BASE}.timeindex", content) == [
        {"timestamp": 1000, "offset": 105},
        {"timestamp": 1001, "offset": 105},
    ]


def test_the_zeros_of_a_preallocated_index_are_no_entries(tmp_path: Path) -> None:
    assert len(entries(tmp_path / f"{BASE}.index", struct.pack(">ii", 5, 4100) + bytes(80_000))) == 1
    assert entries(tmp_path / f"{BASE}.timeindex", bytes(120)) == []
    assert entries(tmp_path / f"{BASE}.index", b"") == []


def test_a_long_index_is_read_in_chunks(tmp_path: Path) -> None:
    count = 2 * CHUNK_ENTRIES + 3
    content = b"".join(struct.pack(">ii", number, number) for number in range(1, count + 1))
    assert len(entries(tmp_path / f"{BASE}.index", content)) == count


def test_an_index_that_does_not_ascend(tmp_path: Path) -> None:
    content = struct.pack(">iiiiii", 5, 4100, 5, 8300, 6, 8200)
    found = dumped(tmp_path / f"{BASE}.index", content)
    assert [fact.kind for fact in found] == ["entry", "entry", "problem", "entry", "problem"]
    assert found[2] == problem(8, "an entry above (5, 4100)", "(5, 8300)")
    assert found[4] == problem(16, "an entry above (5, 8300)", "(6, 8200)")


def test_an_index_with_a_cut_entry(tmp_path: Path) -> None:
    _, what = dumped(tmp_path / f"{BASE}.timeindex", struct.pack(">qi", 1000, 5) + b"cut")
    assert what == problem(12, "an entry of 12 bytes", "3 bytes")


def test_index_entries_are_looked_up_in_the_log(tmp_path: Path) -> None:
    first, second = batch(100, 2), batch(102, 3)
    (tmp_path / f"{BASE}.log").write_bytes(first + second)
    path = tmp_path / f"{BASE}.index"
    assert entries(path, struct.pack(">iiii", 1, 0, 4, len(first))) == [
        {"offset": 101, "position": 0},
        {"offset": 104, "position": len(first)},
    ]
    wrong = struct.pack(">iiiiii", 1, 1, 3, len(first), 5, len(first + second))
    bad = [fact for fact in dumped(path, wrong) if fact.kind == "problem"]
    where = "a batch with last offset {} at position {} of the log"
    assert bad[0].fields["expected"] == where.format(101, 1)
    assert bad[0].fields["found"].startswith("one that has ")
    assert bad[1] == problem(8, where.format(103, len(first)), "one with last offset 104")
    assert bad[2] == problem(16, where.format(105, len(first + second)), "0 bytes")
    (negative,) = [fact for fact in dumped(path, struct.pack(">ii", 1, -8)) if fact.kind == "problem"]
    assert negative == problem(0, where.format(101, -8), "nothing there")


def producer_snapshot(producers: bytes = b"", count: int = 0) -> bytes:
    rest = struct.pack(">i", count) + producers
    return struct.pack(">hI", 1, crc32c(rest)) + rest


def test_the_producer_snapshot_that_kraft_writes(tmp_path: Path) -> None:
    content = producer_snapshot()
    assert content == bytes.fromhex("0001 48674bc7 00000000")
    (fact,) = entries(tmp_path / f"{BASE}.snapshot", content)
    assert fact == {"what": "producer snapshot", "version": 1, "crc": 0x48674BC7, "producers": 0, "isvalid": True}
    (fact,) = entries(tmp_path / f"{BASE}.snapshot", producer_snapshot(bytes(92), 2))
    assert (fact["producers"], fact["isvalid"]) == (2, True)


def test_a_damaged_producer_snapshot(tmp_path: Path) -> None:
    path = tmp_path / f"{BASE}.snapshot"
    (what,) = dumped(path, producer_snapshot()[:9])
    assert what == problem(0, "a producer snapshot of at least 10 bytes", "9 bytes")
    shown, what = dumped(path, producer_snapshot()[:-1] + b"\x01")
    assert shown.fields["isvalid"] is False
    assert what.fields["expected"] == "CRC 48674bc7"
    _, what = dumped(path, producer_snapshot(bytes(45), 1))
    assert what == problem(10, "1 producer of 46 bytes", "45 bytes")


def test_leader_epochs(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    assert entries(path, b"0\n2\n1 0\n2 479\n") == [{"epoch": 1, "startOffset": 0}, {"epoch": 2, "startOffset": 479}]
    (what,) = dumped(path, b"0\n3\n1 0\n2 479\n")
    assert what.kind == "problem"


def test_quorum_state_of_both_versions(tmp_path: Path) -> None:
    path = tmp_path / "quorum-state"
    content = (
        b'{"clusterId":"","leaderId":3,"leaderEpoch":1,"votedId":3,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":3}],"data_version":0}'
    )
    assert entries(path, content) == [
        {
            "leaderId": 3,
            "leaderEpoch": 1,
            "votedId": 3,
            "votedDirectoryId": None,
            "currentVoters": [1, 3],
            "dataVersion": 0,
        }
    ]
    content = (
        b'{"leaderId":-1,"leaderEpoch":2,"votedId":3,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAQ","data_version":1}'
    )
    (fact,) = entries(path, content)
    assert (fact["leaderId"], fact["votedId"], fact["votedDirectoryId"]) == (None, 3, "AAAAAAAAAAAAAAAAAAAAAQ")
    content = content.replace(b'"votedId":3', b'"votedId":-1')
    (fact,) = entries(path, content)
    assert (fact["votedId"], fact["votedDirectoryId"]) == (None, None)
    (what,) = dumped(path, content[:-1])
    assert what.kind == "problem"


def test_the_check_file_shows_the_newest_two_elections(tmp_path: Path) -> None:
    store = ElectionStore(OsFs(), tmp_path)
    for epoch in (1, 2, 3):
        election = Election(epoch=Epoch(epoch), voted=ReplicaKey(NodeId(1), Uuid(b"0123456789abcdef")))
        store.write(election, voters=(), kraft_version=1)
    store.close()
    older, newer = entries(tmp_path / "quorum-state.check")
    assert [older["generation"], newer["generation"]] == [3, 4]
    assert newer["content"] == (tmp_path / "quorum-state").read_text()


def test_a_quarantine_shows_what_was_noted(tmp_path: Path) -> None:
    note = Quarantine(epoch=Epoch(3), until_offset=None, damages=(), is_cut=True)
    QuarantineFile(OsFs(), tmp_path).write(note)
    assert entries(tmp_path / "quarantine") == [
        {"generation": 1, "content": '{"epoch":3,"untilOffset":null,"damages":[]}'}
    ]


def test_the_recovery_point_shows_its_two_slots(tmp_path: Path) -> None:
    point = RecoveryPoint.create(OsFs(), tmp_path, Offset(7))
    point.raise_to(Offset(20))
    point.close()
    assert entries(tmp_path / "recovery-point") == [
        {"generation": 1, "content": "7 0"},
        {"generation": 2, "content": "20 0"},
    ]
    (what,) = dumped(tmp_path / "recovery-point", b"anything")
    assert what == problem(0, "a slot with a valid CRC", "neither of two")


def test_partition_metadata_and_meta_properties(tmp_path: Path) -> None:
    path = tmp_path / "partition.metadata"
    assert entries(path, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ") == [
        {"version": 0, "topicId": "AAAAAAAAAAAAAAAAAAAAAQ"}
    ]
    assert dumped(path, b"version: 9")[0].kind == "problem"
    path = tmp_path / "meta.properties"
    content = b"#\n#date\nnode.id=1\nversion=1\ncluster.id=xyz\n"
    (fact,) = entries(path, content)
    assert fact == {"version": 1, "nodeId": 1, "clusterId": "xyz", "directoryId": None}
    (fact,) = entries(path, content + b"directory.id=AAAAAAAAAAAAAAAAAAAAAQ\n")
    assert fact["directoryId"] == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert dumped(path, b"node.id=x")[0].kind == "problem"


@pytest.mark.parametrize(
    "name", ["notes.txt", "1.log", f"{BASE}.txnindex", "99999999999999999999.log", "0-0.checkpoint", ".log"]
)
def test_other_names_are_refused_with_those_that_are_known(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"dump does not know this kind of file; it knows \.log, .*recovery-point"):
        dumped(tmp_path / name, b"")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    for name in (f"{BASE}.log", f"{BASE}.index", f"{BASE}.snapshot", "quorum-state", "bootstrap.checkpoint"):
        with pytest.raises(StorageError, match="No such file"):
            dumped(tmp_path / name)


def test_nothing_is_written(tmp_path: Path) -> None:
    for name in (f"{BASE}.log", f"{BASE}.index", "recovery-point", "quorum-state"):
        path = tmp_path / name
        path.write_bytes(b"anything")
        path.chmod(0o444)
        dumped(path)
        assert path.read_bytes() == b"anything"
    assert len(list(tmp_path.iterdir())) == 4


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


def batch_of(*values: bytes, base_offset: int = 0) -> bytes:
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


def facts(data: bytes, *, expected_offset: int = 0, with_records: bool = True) -> list[dump.Fact]:
    return list(dump.batch_facts(Bytes(data), Offset(expected_offset), with_records=with_records))


def test_an_empty_file_has_no_facts() -> None:
    assert facts(b"") == []


def test_records_are_there_when_asked_for() -> None:
    (fact,) = facts(batch_of(b"one", b"three"))
    assert [(record["offset"], record["key"], record["value"]) for record in fact.fields["records"]] == [
        (0, None, b"one"),
        (1, None, b"three"),
    ]
    assert fact.fields["records"][1]["valueSize"] == 5
    (fact,) = facts(batch_of(), with_records=False)
    assert "records" not in fact.fields


def test_offsets_that_do_not_follow_are_a_problem() -> None:
    found = facts(batch_of() + batch_of(base_offset=5))
    assert [fact.kind for fact in found] == ["batch", "batch", "problem"]
    assert found[2] == problem(len(batch_of()), "offset 1", "offset 5")
    assert facts(batch_of(base_offset=5), expected_offset=4)[1] == problem(0, "offset 4", "offset 5")


def test_a_file_cut_at_any_byte() -> None:
    first, second = batch_of(), batch_of(b"second", base_offset=1)
    data = first + second
    for size_bytes in range(len(first) + 1, len(data)):
        _, what, tail = facts(data[:size_bytes])
        expected = f"a batch{' header' * (size_bytes - len(first) < 61)} of"
        assert what.fields["position"] == len(first)
        assert what.fields["expected"].startswith(expected)
        assert tail == dump.Fact("tail", {"position": len(first), "invalidBytes": size_bytes - len(first)})
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
    damaged = bytearray(batch_of(base_offset=1))
    struct.pack_into(layout, damaged, position, value)
    _, what, tail = facts(batch_of() + damaged + batch_of())
    assert what == problem(len(batch_of()), "a batch header of 61 bytes", found)
    assert tail.fields["invalidBytes"] == 2 * len(batch_of())


def test_a_wrong_crc_is_shown_and_the_records_too() -> None:
    damaged = bytearray(batch_of())
    damaged[17] ^= 1
    shown, what, following = facts(bytes(damaged) + batch_of(base_offset=1))
    assert shown.fields["isvalid"] is False
    assert shown.fields["records"][0]["value"] == b"abc"
    assert what.fields["expected"].startswith("CRC ")
    assert following.fields["isvalid"] is True


def test_records_that_cannot_be_read_are_a_problem_of_their_batch() -> None:
    shown, what = facts(resealed(batch_of(), body=b"\x7e" * 10))
    assert shown.fields["isvalid"] is True
    assert "records" not in shown.fields
    assert what == problem(0, "a batch that can be read", "record 0 of the batch has length 63, 9 bytes are left")


def test_a_header_that_contradicts_itself_is_shown() -> None:
    shown, what = facts(resealed(batch_of(), patches=[(57, ">i", 9)]), with_records=False)
    assert shown.fields["count"] == 9
    assert what.fields["found"] == "the batch at byte 0 claims 9 records for the offsets 0 to 0"


def test_codecs_by_name() -> None:
    shown, what = facts(resealed(batch_of(), patches=[(21, ">h", 7)]))
    assert shown.fields["compresscodec"] == "unknown(7)"
    assert what.fields["found"] == "the batch at byte 0 has codec 7, which does not exist"
    shown, what = facts(resealed(batch_of(), patches=[(21, ">h", 4)]))
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
    data = batch_of()
    (what,) = dump.batch_facts(Bytes(data[:-1], len(data)), Offset(0), with_records=False)
    assert what == problem(0, f"a batch of {len(data)} bytes", f"{len(data) - 1} bytes: the file became shorter")


def test_batches_larger_and_smaller_than_the_window() -> None:
    sizes = [10, dump.CHUNK_SIZE_BYTES - 200, dump.CHUNK_SIZE_BYTES + 5000, 10, 3 * dump.CHUNK_SIZE_BYTES, 20]
    file = Bytes(b"".join(batch_of(bytes(size), base_offset=offset) for offset, size in enumerate(sizes)))
    found = list(dump.batch_facts(file, Offset(0), with_records=True))
    assert [fact.fields["records"][0]["valueSize"] for fact in found] == sizes
    assert all(fact.fields["isvalid"] for fact in found)
    assert file.largest_read == len(batch_of(bytes(3 * dump.CHUNK_SIZE_BYTES)))


def test_a_batch_that_claims_too_much_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    damaged = bytearray(batch_of())
    struct.pack_into(">i", damaged, 8, dump.BATCH_SIZE_BYTES_MAX)
    path.write_bytes(damaged)
    with path.open("r+b") as sparse:
        sparse.truncate(2 * dump.BATCH_SIZE_BYTES_MAX)
    file = OsFs().open(path)
    what, tail = dump.batch_facts(file, Offset(0), with_records=True)
    file.close()
    assert what == problem(
        0, f"a batch of at most {dump.BATCH_SIZE_BYTES_MAX} bytes", f"one of {dump.BATCH_SIZE_BYTES_MAX + 12}"
    )
    assert tail.fields["invalidBytes"] == 2 * dump.BATCH_SIZE_BYTES_MAX


@given(st.data())
def test_any_damage_is_told_and_none_is_raised(draw: st.DataObject) -> None:
    change = LeaderChange(leader_id=NodeId(1), voters=(NodeId(1),), granting_voters=())
    data = bytearray(control(change) + batch_of(b"two", b"three", base_offset=1))
    for _ in range(draw.draw(st.integers(1, 4))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    if bytes(data) != control(change) + batch_of(b"two", b"three", base_offset=1):
        assert facts(bytes(data))
