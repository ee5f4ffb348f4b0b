"""Files by name: each kind is read, and each kind of damage is a problem with position, expected and found.

Source: Kafka's ``DumpLogSegments``; the modules that parse a format cite its source.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from pykraft.core.quarantine import Quarantine
from pykraft.errors import StorageError, UsageError
from pykraft.log.offline.dump import INDEX_CHUNK_ENTRIES, dump_file
from pykraft.log.offline.dump_batches import Fact
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.quarantine_file import QuarantineFile
from pykraft.log.small_files.quorum_state import ElectionStore
from pykraft.log.small_files.recovery_point import RecoveryPoint
from pykraft.protocol.records import encode_batch
from pykraft.types import Election, Epoch, NodeId, Offset, ReplicaKey, Uuid

BASE = "00000000000000000100"


def batch(base_offset: int, count: int = 1) -> bytes:
    return encode_batch([b"abc"] * count, base_offset=Offset(base_offset), epoch=Epoch(1), timestamp_ms=1000).data


def dumped(path: Path, content: bytes | None = None, *, with_records: bool = False) -> list[Fact]:
    if content is not None:
        path.write_bytes(content)
    return list(dump_file(OsFs(), path, with_records=with_records))


def entries(path: Path, content: bytes | None = None) -> list[dict[str, object]]:
    found = dumped(path, content)
    assert {fact.kind for fact in found} <= {"entry"}, found
    return [fact.fields for fact in found]


def problem(position: int, expected: str, found: str) -> Fact:
    return Fact("problem", {"position": position, "expected": expected, "found": found})


def test_a_log_begins_where_its_name_says(tmp_path: Path) -> None:
    heading, first = dumped(tmp_path / f"{BASE}.log", batch(100))
    assert heading == Fact("heading", {"text": "Log starting offset: 100"})
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
    count = 2 * INDEX_CHUNK_ENTRIES + 3
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
        {"generation": 1, "content": '{"epoch":3,"untilOffset":null,"damages":[]}'},
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
