"""Walking over a file: chunks, cuts at every byte, and wrong lengths.

Source: Kafka's ``FileLogInputStream`` and ``LogSegment.recover``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.errors import CorruptionError
from pykraft.log import scan as scan_module
from pykraft.log.scan import scan_file, scan_headers
from pykraft.protocol.batch import BatchHeader
from tests.disks import ScriptedDisk, ScriptedFile
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
