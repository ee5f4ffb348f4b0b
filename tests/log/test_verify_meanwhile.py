"""A directory may change or become unreadable during a check: only what stays wrong is damage.

Source: ours.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pykraft.errors import StorageError
from pykraft.log.offline.verify import LOOKS_MAX, VerifyReport, verify
from pykraft.log.os_fs import OsFile, OsFs
from tests.log.data_directory import damage, flip, look, segments

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
    assert (partition.log.segments_count, partition.recovery_point) == (2, None)


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
    (note,) = look(node.parent).findings.notes
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
