"""Every wrong entry of an index is found and named."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from pykraft.log.index import OFFSET_ENTRY, TIME_ENTRY
from pykraft.log.offline.verify import verify
from pykraft.log.offline.verify_findings import Findings
from pykraft.log.os_fs import OsFs
from tests.log.data_directory import FIRST, batch_size, damage, flip, segments, verified
from tests.log.logs import batch


def rewrite(layout: struct.Struct, change: Callable[[list[tuple[int, int]]], None]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        entries = list(layout.iter_unpack(path.read_bytes()))
        change(entries)
        path.write_bytes(b"".join(layout.pack(*entry) for entry in entries))

    return apply


def shift(at: int, first: int, second: int) -> Callable[[list[tuple[int, int]]], None]:
    def change(entries: list[tuple[int, int]]) -> None:
        entries[at] = (entries[at][0] + first, entries[at][1] + second)

    return change


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def dirt_behind(path: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(24) + b"\1" * 24)


@pytest.mark.parametrize(
    ("suffix", "plant", "expected"),
    [
        (".index", rewrite(OFFSET_ENTRY, shift(1, 0, 5)), "at position"),
        (".index", rewrite(OFFSET_ENTRY, shift(1, 1, 0)), "a batch that ends with offset"),
        (".index", rewrite(OFFSET_ENTRY, lambda entries: entries.reverse()), "an entry above"),
        (".index", rewrite(OFFSET_ENTRY, shift(-1, 100, 1_000_000)), "the end of the log"),
        (".index", cut, "whole entries of 8 bytes"),
        (".index", dirt_behind, "zeros after the last entry"),
        (".timeindex", rewrite(TIME_ENTRY, shift(1, 0, 1)), "a batch that ends with offset"),
        (".timeindex", rewrite(TIME_ENTRY, shift(1, 1, 0)), "its largest timestamp"),
        (".timeindex", rewrite(TIME_ENTRY, lambda entries: entries.reverse()), "an entry above"),
        (".timeindex", rewrite(TIME_ENTRY, shift(-1, 100, 1_000_000)), "the end of the log"),
        (".timeindex", cut, "whole entries of 12 bytes"),
    ],
)
def test_a_wrong_index_entry_is_named(node: Path, suffix: str, plant: Callable[[Path], None], expected: str) -> None:
    path = node / (FIRST + suffix)
    plant(path)
    found = damage(node)
    assert found, "nothing was found"
    assert {name for name, _ in found} == {path.name}
    assert any(expected in text for _, text in found), found
    assert "remove this index" in verified(node).findings.damage[0].advice


def test_a_preallocated_index_may_end_in_zeros(node: Path) -> None:
    for suffix in (".index", ".timeindex"):
        path = node / (segments(node)[-1].stem + suffix)
        path.write_bytes(path.read_bytes() + bytes(24 * 1000))
    assert damage(node) == []


def test_missing_indexes_and_indexes_without_a_log_are_notes(node: Path) -> None:
    (node / f"{FIRST}.index").rename(node / "00000000000000000999.index")
    report = verified(node)
    assert report.findings.damage == []
    assert {note.path.name for note in report.findings.notes} == {f"{FIRST}.index", "00000000000000000999.index"}


def at_the_end_of(node: Path, act: Callable[[], object]) -> Callable[[int], None]:
    """What a node does while its last segment is looked at; progress is told once for each segment."""
    left = [len(segments(node))]

    def on_progress(_: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            act()

    return on_progress


def test_an_entry_that_is_written_meanwhile_is_no_damage(node: Path) -> None:
    """A segment that is closed gets its last time entry, and its log does not grow."""
    path = node / (segments(node)[-1].stem + ".timeindex")
    whole = path.read_bytes()
    path.write_bytes(bytes(480))
    close = at_the_end_of(node, lambda: path.write_bytes(whole))
    assert verify(OsFs(), node, on_progress=close).findings == Findings()
    path.write_bytes(bytes(480))
    tear = at_the_end_of(node, lambda: path.write_bytes(whole + b"\1"))
    assert [one.expected for one in verify(OsFs(), node, on_progress=tear).findings.damage] == [
        "whole entries of 12 bytes"
    ]


def test_entries_of_what_is_appended_meanwhile_are_no_damage(node: Path) -> None:
    last = segments(node)[-1]
    end = last.stat().st_size
    index, times = last.with_suffix(".index"), last.with_suffix(".timeindex")
    new = [(index, OFFSET_ENTRY.pack(60 - int(last.stem), end)), (times, TIME_ENTRY.pack(1_000_060, 60))]
    _, data = batch(60, epoch=2, size_bytes=100, time=60)
    before = {path: path.read_bytes() for path in (last, index, times)}
    for path, entry in new:
        path.write_bytes(before[path] + entry)
    assert {name for name, _ in damage(node)} == {index.name, times.name}, "of nothing that is there"
    grow = at_the_end_of(node, lambda: last.write_bytes(before[last] + data))
    assert verify(OsFs(), node, on_progress=grow).findings == Findings()


def test_a_damaged_batch_is_not_blamed_on_its_index_entries(node: Path) -> None:
    path = segments(node)[0]
    whole, size = path.read_bytes(), batch_size(path)
    assert len((node / f"{FIRST}.index").read_bytes()) > 2 * OFFSET_ENTRY.size
    for position in range(0, len(whole) - size, size):
        flip(path, position + size - 1)
        assert [name for name, _ in damage(node)] == [path.name], position
        path.write_bytes(whole)
