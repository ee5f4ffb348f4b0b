"""Walking over a file: chunks, cuts at every byte, wrong lengths; runs of batches change nothing but the time."""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pykraft.errors import CorruptionError, StorageError
from pykraft.log import scan as scan_module
from pykraft.log.os_fs import OsFs
from pykraft.log.recovery import recover
from pykraft.log.scan import scan_file, scan_headers, scan_runs
from pykraft.protocol import batch as run_module
from pykraft.protocol.batch import BatchHeader, BatchRun
from tests.disks import ScriptedDisk, ScriptedFile
from tests.log.damaged_directories import KAFKAS, TABLE, Row
from tests.log.data_directory import CONFIG, verified
from tests.log.logs import Batch, bytes_of, run_of

PATH = Path("/data/0.log")


def file_of(content: bytes) -> ScriptedFile:
    fs = ScriptedDisk()
    fs.write(PATH, content)
    return fs.open(PATH)


def placed(batches: list[Batch]) -> list[tuple[int, BatchHeader]]:
    positions = [sum(map(len, bytes_of(batches[:at]))) for at in range(len(batches))]
    return [(position, header) for position, (header, _) in zip(positions, batches, strict=True)]


@pytest.mark.parametrize("chunk_size_bytes", [1, 61, 62, 100, 5000])
def test_batches_are_found_whatever_the_chunks(chunk_size_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_module, "CHUNK_SIZE_BYTES", chunk_size_bytes)
    monkeypatch.setattr(scan_module, "HEADERS_CHUNK_SIZE_BYTES", chunk_size_bytes)
    batches = [*run_of(0, 3), *run_of(3, 2, size_bytes=700), *run_of(5, 2)]
    content = b"".join(bytes_of(batches))
    assert list(scan_file(PATH, file_of(content), 0, len(content))) == placed(batches)
    assert list(scan_headers(PATH, file_of(content), 0, len(content))) == placed(batches)


def test_it_begins_and_ends_where_it_is_told() -> None:
    batches = run_of(0, 4)
    content = b"".join(bytes_of(batches))
    size_bytes = len(batches[0][1])
    assert list(scan_file(PATH, file_of(content), size_bytes, 3 * size_bytes)) == placed(batches)[1:3]
    assert list(scan_file(PATH, file_of(content), 0, 0)) == []


def test_a_cut_at_every_byte_is_reported_after_the_whole_batches() -> None:
    batches = run_of(0, 2)
    content = b"".join(bytes_of(batches))
    half = len(content) // 2
    for end in range(half + 1, len(content)):
        for cut_file, cut_end in ((content[:end], end), (content[:end], len(content)), (content, end)):
            found = scan_file(PATH, file_of(cut_file), 0, cut_end)
            assert next(found) == placed(batches)[0]
            with pytest.raises(CorruptionError) as caught:
                next(found)
            assert caught.value.position == half


def test_a_length_beyond_the_end_is_not_read_for() -> None:
    content = bytearray(run_of(0, 1)[0][1])
    content[8:12] = (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(CorruptionError, match="expected a batch of 2147483659 bytes, found 78 bytes"):
        list(scan_file(PATH, file_of(bytes(content)), 0, len(content)))


def test_a_changed_record_is_found_by_the_crc_only_where_it_is_asked_for() -> None:
    content = bytearray(run_of(0, 1)[0][1])
    content[-1] ^= 1
    with pytest.raises(CorruptionError, match=r"0\.log: at position 0: expected CRC \w{8} of 78 bytes, found CRC"):
        list(scan_file(PATH, file_of(bytes(content)), 0, len(content)))
    assert len(list(scan_headers(PATH, file_of(bytes(content)), 0, len(content)))) == 1


def test_zeros_are_no_batch() -> None:
    with pytest.raises(
        CorruptionError, match="expected a batch header, found one that says that 0 bytes follow its length"
    ):
        list(scan_file(PATH, file_of(bytes(500)), 0, 500))


CHUNK_SIZE_BYTES = 500
ALWAYS, NEVER = 1, 10**9
"""Values of `BATCHES_MIN`."""


class ReadFile:
    """A file that notes its reads."""

    def __init__(self, content: bytes) -> None:
        fs = ScriptedDisk()
        fs.write(PATH, content)
        self._file = fs.open(PATH)
        self.reads: list[tuple[int, int]] = []

    def pread(self, size_bytes: int, position: int) -> bytes:
        self.reads.append((size_bytes, position))
        return self._file.pread(size_bytes, position)


def single(places: Iterable[tuple[int, BatchHeader] | BatchRun]) -> Iterator[tuple[int, BatchHeader]]:
    for place in places:
        if isinstance(place, BatchRun):
            yield from place.headers()
        else:
            yield place


def found_by(scan: Any, content: bytes) -> tuple[object, ...]:
    """The batches, the problem, and the reads."""
    file = ReadFile(content)
    batches: list[tuple[int, BatchHeader]] = []
    problem = None
    try:
        batches.extend(single(scan(PATH, file, 0, len(content))))
    except CorruptionError as error:
        problem = (error.position, error.expected, error.found)
    return batches, problem, file.reads


@pytest.mark.no_cover
def test_flipped_bits_and_cuts_are_found_as_without_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small chunks, groups and runs, so that each border is somewhere in the log."""
    monkeypatch.setattr(scan_module, "CHUNK_SIZE_BYTES", CHUNK_SIZE_BYTES)
    monkeypatch.setattr(run_module, "GROUP_BATCHES", 2)
    monkeypatch.setattr(run_module, "BATCHES_MAX", 5)
    monkeypatch.setattr(scan_module, "BATCHES_MIN", ALWAYS)
    content = b"".join(bytes_of([*run_of(0, 8), *run_of(8, 3, size_bytes=90), *run_of(11, 4)]))

    def alone(*arguments: Any) -> Any:
        return scan_file(*arguments, chunk_size_bytes=CHUNK_SIZE_BYTES)

    assert found_by(scan_runs, content) == found_by(alone, content)
    for at in range(len(content)):
        flipped = bytearray(content)
        flipped[at] ^= 1 << at % 8
        assert found_by(scan_runs, bytes(flipped)) == found_by(alone, bytes(flipped))
        assert found_by(scan_runs, content[:at]) == found_by(alone, content[:at])


def recovered(node: Path) -> object:
    """All that a start finds and derives; it repairs the directory."""
    try:
        found = recover(OsFs(), node, CONFIG)
    except StorageError as error:
        return str(error)
    segments = [
        (segment.base_offset, segment.end_offset, index.offset_bytes(), index.time_bytes())
        for segment in found.segments
        for index in [segment.content.index]
    ]
    return found.report, found.epochs.entries, segments


@pytest.mark.no_cover
@pytest.mark.parametrize("case", [*TABLE, *KAFKAS], ids=lambda case: case.name)
def test_a_damaged_directory_is_judged_as_without_runs(
    case: Row, node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for do in case.cases:
        do(node)
    kept = tmp_path / "kept"
    shutil.copytree(node, kept)
    seen = []
    # Several runs in each segment.
    monkeypatch.setattr(run_module, "BATCHES_MAX", 3)
    for least in (ALWAYS, NEVER):
        monkeypatch.setattr(scan_module, "BATCHES_MIN", least)
        report = verified(node)
        start = recovered(node)
        files = {path.name: path.read_bytes() for path in sorted(node.iterdir()) if path.is_file()}
        seen.append((report, start, files))
        shutil.rmtree(node)
        shutil.copytree(kept, node)
    assert seen[0] == seen[1]
