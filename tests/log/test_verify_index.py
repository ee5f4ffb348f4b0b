"""Every wrong entry of an index is found and named."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from pykraft.log.index import OFFSET_ENTRY, TIME_ENTRY
from pykraft.log.os_fs import OsFs
from pykraft.log.verify import verify
from pykraft.log.verify_findings import Findings
from tests.log.data_directory import FIRST, damage, look, segments


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
        (".index", rewrite(OFFSET_ENTRY, shift(-1, 100, 1_000_000)), "below the end of the log"),
        (".index", cut, "whole entries of 8 bytes"),
        (".index", dirt_behind, "zeros behind the last entry"),
        (".timeindex", rewrite(TIME_ENTRY, shift(1, 0, 1)), "a batch that ends with offset"),
        (".timeindex", rewrite(TIME_ENTRY, shift(1, 1, 0)), "its largest timestamp"),
        (".timeindex", rewrite(TIME_ENTRY, lambda entries: entries.reverse()), "an entry above"),
        (".timeindex", rewrite(TIME_ENTRY, shift(-1, 100, 1_000_000)), "an offset below the end"),
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
    assert "remove this index" in look(node).findings.damage[0].advice


def test_a_preallocated_index_may_end_in_zeros(node: Path) -> None:
    for suffix in (".index", ".timeindex"):
        path = node / (segments(node)[-1].stem + suffix)
        path.write_bytes(path.read_bytes() + bytes(24 * 1000))
    assert damage(node) == []


def test_missing_indexes_and_indexes_without_a_log_are_notes(node: Path) -> None:
    (node / f"{FIRST}.index").rename(node / "00000000000000000999.index")
    report = look(node)
    assert report.findings.damage == []
    assert {note.path.name for note in report.findings.notes} == {f"{FIRST}.index", "00000000000000000999.index"}


def test_an_entry_that_is_written_meanwhile_is_no_damage(node: Path) -> None:
    """A segment that is closed gets its last time entry, and its log does not grow."""
    path = node / (segments(node)[-1].stem + ".timeindex")
    whole = path.read_bytes()
    path.write_bytes(bytes(480))

    def close_segment(count: int) -> None:
        path.write_bytes(whole)

    assert verify(OsFs(), node, on_progress=close_segment).findings == Findings()
