"""Intact directories pass, also while they change; what does not belong there is reported, an only voter keeps all."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pykraft.errors import ProtocolError, StorageError, UsageError
from pykraft.log.judge import MISSING_START_REPAIR
from pykraft.log.offline.verify import (
    LOOKS_MAX,
    OF_AN_ONLY_VOTER,
    VerifyReport,
    is_only_voter,
    total_size_bytes,
    verify,
)
from pykraft.log.os_fs import OsFile, OsFs
from pykraft.log.scan import REPAIR
from pykraft.log.small_files.meta import encode_meta
from pykraft.log.small_files.quorum_state import REPAIR_FILE, ElectionStore
from pykraft.protocol.batch import HEADER_SIZE_BYTES
from pykraft.protocol.records import encode_control_batch
from pykraft.types import ControlRecord, Election, Epoch, KRaftVersion, KRaftVoters, NodeId, Offset
from tests.core.replicas import voter_set
from tests.log.data_directory import FIRST, GOLDEN, META, batch_size, damage, flip, segments, verified


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/disk/*/data")), ids=lambda path: str(path.relative_to(GOLDEN)))
def test_what_kafka_wrote_is_sound(path: Path) -> None:
    report = verified(path)
    assert report.findings.damage == []
    (partition,) = report.partitions
    assert partition.log.batches_count > 30
    assert partition.log.recovery_point is None
    assert all("left over" in note.text or "meta.properties" in note.text for note in report.findings.notes)


def test_what_pykraft_wrote_is_sound(node: Path) -> None:
    for directory in (node, node.parent):
        report = verified(directory)
        assert (report.findings.damage, report.findings.notes) == ([], [])
        (partition,) = report.partitions
        assert partition.log.end_offset == partition.log.recovery_point == 60
        assert partition.log.segments_count == 3
        assert [entry.epoch for entry in partition.log.epochs] == [1, 2]


def test_it_writes_nothing(node: Path) -> None:
    def state() -> dict[str, tuple[int, bytes]]:
        return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in node.iterdir()}

    before = state()
    verified(node.parent)
    assert state() == before


def test_progress_adds_up_to_all_bytes(node: Path) -> None:
    seen: list[int] = []
    verify(OsFs(), node.parent, on_progress=seen.append)
    assert sum(seen) == total_size_bytes(OsFs(), node.parent) == total_size_bytes(OsFs(), node) > 10_000


def test_leftovers_and_strange_names_are_notes_and_a_swap_is_not(node: Path) -> None:
    for name in (f"{FIRST}.log.deleted", "quorum-state.tmp", "00000000000000000010-0000000001.checkpoint.part"):
        (node / name).write_bytes(b"x")
    (node / "core.1234").write_bytes(b"x")
    (node / "00000000000000000010-0000000001.checkpoint.damaged").write_bytes(b"x")
    (node.parent / "my notes").mkdir()
    report = verified(node.parent)
    assert report.findings.damage == []
    texts = {note.path.name: note.text for note in report.findings.notes}
    assert len(texts) == 6
    assert "set aside" in texts["00000000000000000010-0000000001.checkpoint.damaged"]
    assert "left over" in texts["quorum-state.tmp"]
    assert "nothing reads it" in texts["core.1234"]
    assert "nothing reads it" in texts["my notes"]
    (node / f"{FIRST}.log.swap").write_bytes(b"x")
    assert [name for name, _ in damage(node)] == [f"{FIRST}.log.swap"]


def test_a_node_in_quarantine_is_told_and_an_unreadable_note_of_it_is_damage(node: Path) -> None:
    (node / "quarantine").write_bytes(b"?")
    report = verified(node)
    assert [Path(note.path).name for note in report.findings.notes] == ["quarantine"]
    assert "does not vote" in str(report.findings.notes[0])
    assert [name for name, _ in damage(node)] == ["quarantine"]


def test_a_log_that_starts_late_needs_a_snapshot(kafkas: Path) -> None:
    for path in kafkas.glob("*.checkpoint"):
        path.unlink()
    assert damage(kafkas)[0][1].startswith("0: a snapshot that reaches to offset 63")


def test_a_damaged_producer_snapshot_bootstrap_and_meta_are_named(kafkas: Path) -> None:
    flip(kafkas / "00000000000000000106.snapshot", 3)
    flip(kafkas.parent / "bootstrap.checkpoint", 70)
    (kafkas.parent / "meta.properties").write_text("version=1\n")
    names = [name for name, _ in damage(kafkas.parent)]
    assert names == ["bootstrap.checkpoint", "meta.properties", "00000000000000000106.snapshot"]


def test_partitions_of_other_topics_are_not_looked_at(node: Path) -> None:
    other = node.parent / "orders-3"
    other.mkdir()
    (other / f"{FIRST}.log").write_bytes(b"garbage")
    report = verified(node.parent)
    assert report.findings.damage == []
    assert [note.path for note in report.findings.notes] == [other]


def test_a_directory_that_is_just_formatted_is_sound(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_bytes(encode_meta(META))
    assert verified(tmp_path) == VerifyReport()


def test_another_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it holds nothing; give an entry"):
        verified(tmp_path)
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(UsageError, match="neither a log directory"):
        verified(tmp_path)
    with pytest.raises(StorageError):
        verified(tmp_path / "absent")


def test_a_truncation_meanwhile_is_looked_at_again(node: Path) -> None:
    """The first look finds damage; then the node, which was truncating, has finished in a new epoch."""
    path = segments(node)[0]
    whole = path.read_bytes()
    flip(path, 80)

    def repair(count: int) -> None:
        if path.read_bytes() != whole:
            path.write_bytes(whole)
            checkpoint = (node / "leader-epoch-checkpoint").read_bytes().replace(b"0\n2\n", b"0\n3\n") + b"3 60\n"
            (node / "leader-epoch-checkpoint").write_bytes(checkpoint)

    report = verify(OsFs(), node, on_progress=repair)
    assert report.findings.damage == []


CHECKPOINT = "leader-epoch-checkpoint"


class MeddledFs(OsFs):
    """Before a file or a directory is read, somebody may change it, or say that it cannot be read."""

    def __init__(self, meddle: Callable[[Path], None]) -> None:
        self._meddle = meddle

    def open(self, path: Path, *, create: bool = False, write: bool = False) -> OsFile:
        self._meddle(path)
        return super().open(path, create=create, write=write)

    def read(self, path: Path) -> bytes:
        self._meddle(path)
        return super().read(path)

    def listdir(self, path: Path) -> list[str]:
        self._meddle(path)
        return super().listdir(path)


def looked(directory: Path, meddle: Callable[[Path], None]) -> VerifyReport:
    return verify(MeddledFs(meddle), directory, on_progress=lambda count: None)


def unreadable(wanted: Path) -> Callable[[Path], None]:
    def meddle(path: Path) -> None:
        if path == wanted:
            raise StorageError(path, "cannot be read: Input/output error")

    return meddle


def begin_epoch(node: Path, epoch: int) -> None:
    """The node is in another epoch, as its checkpoint says; its log ends where it did."""
    path = node / CHECKPOINT
    path.write_text(f"0\n{epoch}\n" + "".join(f"{each} {30 * (each - 1)}\n" for each in range(1, epoch + 1)))


def test_a_segment_that_goes_away_in_a_truncation_is_no_error(node: Path) -> None:
    last = segments(node)[-1]
    gone = [last, last.with_suffix(".index"), last.with_suffix(".timeindex"), node / "recovery-point"]

    def truncate(path: Path) -> None:
        if path == last and last.exists():
            begin_epoch(node, 3)
            for each in gone:
                each.unlink()

    report = looked(node, truncate)
    assert report.findings.damage == []
    (partition,) = report.partitions
    assert (partition.log.segments_count, partition.log.recovery_point) == (2, None)


def test_what_cannot_be_read_while_nothing_changes_is_an_error(node: Path) -> None:
    for path in (segments(node)[1], node / CHECKPOINT):
        with pytest.raises(StorageError, match=f"{path.name}.*Input/output error"):
            looked(node, unreadable(path))


def test_a_directory_that_never_rests_is_told_with_its_damage(node: Path) -> None:
    flip(segments(node)[0], 80)
    epochs = iter(range(3, 3 + LOOKS_MAX))

    def go_on(path: Path) -> None:
        if path == segments(node)[0]:
            begin_epoch(node, next(epochs))

    findings = looked(node, go_on).findings
    assert next(epochs, None) is None, "it was looked at as often as that"
    assert [one.path for one in findings.damage] == [segments(node)[0]]
    assert any("changed during the check" in note.text for note in findings.notes)


@pytest.fixture
def checkpoint(kafkas: Path) -> Path:
    (path, *_) = sorted(kafkas.glob("*.checkpoint"))
    return path


def test_a_snapshot_that_a_running_node_removes_is_no_error(kafkas: Path, checkpoint: Path) -> None:
    def retire(path: Path) -> None:
        if path == checkpoint:
            checkpoint.unlink(missing_ok=True)

    assert looked(kafkas, retire).findings.damage == []
    assert not checkpoint.exists()


def test_a_snapshot_that_is_there_and_cannot_be_read_is_an_error(kafkas: Path, checkpoint: Path) -> None:
    with pytest.raises(StorageError, match=checkpoint.name):
        looked(kafkas, unreadable(checkpoint))


def test_a_file_with_the_name_of_a_partition_is_a_strange_file(node: Path) -> None:
    path = node.parent / "orders-3"
    path.write_bytes(b"x")
    (note,) = verified(node.parent).findings.notes
    assert (note.path, "not a file of Kafka's" in note.text) == (path, True)
    assert damage(node.parent) == []


def test_a_partition_that_cannot_be_listed_is_an_error(node: Path) -> None:
    with pytest.raises(StorageError, match="Input/output error"):
        looked(node.parent, unreadable(node))


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("written_bytes", [1, 4, 7])
def test_index_entry_that_is_being_written_is_no_damage(node: Path, suffix: str, written_bytes: int) -> None:
    """A read sees the first bytes of an entry, and zeros where the others come."""
    path = segments(node)[0].with_suffix(suffix)
    whole = path.read_bytes()
    size_bytes = {".index": 8, ".timeindex": 12}[suffix]
    last = len(whole.rstrip(b"\0")) // size_bytes * size_bytes
    last -= 0 if any(whole[last : last + size_bytes]) else size_bytes
    half = whole[: last + written_bytes].ljust(last + size_bytes, b"\0") + whole[last + size_bytes :]
    contents = iter([half])

    def write_on(opened: Path) -> None:
        if opened == path:
            path.write_bytes(next(contents, whole))

    assert looked(node, write_on).findings.damage == []
    assert next(contents, None) is None
    # One that stays like this is damage, unless it reads as none at all.
    path.write_bytes(half)
    assert bool(damage(node)) == any(half[last : last + size_bytes])


@pytest.mark.parametrize("name", ["quorum-state", "quorum-state.check", CHECKPOINT, "recovery-point"])
def test_small_file_that_is_being_written_is_no_damage(node: Path, name: str) -> None:
    path = node / name
    whole = path.read_bytes() if path.exists() else b""
    contents = iter([whole[: len(whole) // 2]])

    def write_on(read: Path) -> None:
        if read == path:
            path.write_bytes(next(contents, whole))

    assert looked(node, write_on).findings.damage == []


def test_damage_of_a_second_look_alone_is_none(node: Path) -> None:
    """Each look sees another write under way."""
    path = segments(node)[0]
    whole = path.read_bytes()
    flips = iter([80, 90])

    def write_on(opened: Path) -> None:
        if opened == path:
            at = next(flips, None)
            path.write_bytes(whole if at is None else whole[:at] + b"?" + whole[at + 1 :])

    assert looked(node, write_on).findings.damage == []


assert META.node_id == 1


def hold(node: Path, *voters: int, kraft_version: int = 0) -> None:
    """Write a quorum-state with these voters, or one of data version 1 without any."""
    store = ElectionStore(OsFs(), node)
    ids = tuple(NodeId(voter) for voter in voters)
    store.write(Election(epoch=Epoch(2), leader_id=NodeId(1)), voters=ids, kraft_version=kraft_version)
    store.close()


def put_voters(path: Path, *voters: int) -> None:
    """Put a voter set before everything else in this file."""
    records: list[ControlRecord] = [KRaftVersion(1), KRaftVoters(voter_set(*voters))]
    _, data = encode_control_batch(records, base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1)
    path.write_bytes(bytes(data) + (path.read_bytes() if path.exists() else b""))


def advice(node: Path) -> str:
    return verified(node).findings.damage[0].advice


def test_an_only_voter_keeps_its_directory(node: Path) -> None:
    flip(segments(node)[1], batch_size(segments(node)[1]) + 90)
    assert advice(node) == OF_AN_ONLY_VOTER[REPAIR]
    hold(node, 1, 2, 3)
    assert advice(node) == REPAIR


def test_so_it_does_without_its_beginning_and_its_election(node: Path) -> None:
    segments(node)[0].unlink()
    assert advice(node) == OF_AN_ONLY_VOTER[MISSING_START_REPAIR]


def test_an_election_that_cannot_be_read_names_no_voters(node: Path) -> None:
    for name in ("quorum-state", "quorum-state.check"):
        (node / name).write_bytes(b"{")
    put_voters(segments(node)[0], 1)
    told = {one.path.name: one.advice for one in verified(node).findings.damage}
    assert told["quorum-state"] == OF_AN_ONLY_VOTER[REPAIR_FILE]


@pytest.mark.parametrize(("voters", "is_only"), [((1,), True), ((1, 2), False), ((2,), False)])
def test_dynamic_voters_are_those_of_the_newest_readable_set(
    node: Path, voters: tuple[int, ...], is_only: bool
) -> None:
    hold(node, kraft_version=1)
    assert not is_only_voter(OsFs(), node)
    snapshot = node / "00000000000000000010-0000000001.checkpoint"
    put_voters(snapshot, *voters)
    assert is_only_voter(OsFs(), node) is is_only
    put_voters(segments(node)[1], *voters)
    put_voters(snapshot, 1, 2, 3)
    assert is_only_voter(OsFs(), node) is is_only


def test_sets_that_cannot_be_read_do_not_count(node: Path) -> None:
    hold(node, kraft_version=1)
    path = segments(node)[2]
    put_voters(path, 1)
    flip(path, HEADER_SIZE_BYTES + 3)
    assert not is_only_voter(OsFs(), node)
    data = bytearray(encode_control_batch([KRaftVersion(1)], base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1)[1])
    path.write_bytes(data)
    assert not is_only_voter(OsFs(), node)


def test_without_an_id_the_careful_advice_is_given(node: Path) -> None:
    (node.parent / "meta.properties").unlink()
    assert is_only_voter(OsFs(), node)


def test_no_advice_for_an_only_voter_empties_anything() -> None:
    for text in OF_AN_ONLY_VOTER.values():
        assert "Do not empty the directory" in text
        assert text.lower().count("empty the directory") == 1
    for text in OF_AN_ONLY_VOTER:
        assert "empty" not in text or "never" in text


def test_a_control_batch_of_nobodys_format_does_not_count(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(batch: bytes) -> Iterator[tuple[Offset, KRaftVoters]]:
        raise ProtocolError("an unknown control record")

    hold(node, kraft_version=1)
    put_voters(segments(node)[2], 1)
    assert is_only_voter(OsFs(), node)
    monkeypatch.setattr("pykraft.log.offline.verify.membership_records", unknown)
    assert not is_only_voter(OsFs(), node)
