"""Which bytes a task reads: segments found and named, cut at batch boundaries, tails told from damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.errors import CorruptionError, ProtocolError, UsageError
from pykraft.protocol.batch import scan
from pykraft.spark.files import Piece, find_segments, headers_of, pieces_of, read_parts, replica_names
from pykraft.types import Offset
from tests.spark.logs import EPOCH, batch, three_batches, write_segment

BATCHES = three_batches()
SIZE_BYTES = len(BATCHES[0])


def test_segments_are_found_by_directory_file_and_glob(tmp_path: Path) -> None:
    files = [write_segment(tmp_path / name / "data" / "p-0", b"") for name in ("n1", "n2")]
    later = write_segment(tmp_path / "n1" / "data" / "p-0", b"", base_offset=10)
    (later.parent / "00000000000000000010.index").touch()
    (later.parent / "quorum-state").touch()
    expected = {"n1": [files[0], later], "n2": [files[1]]}
    assert find_segments([str(files[0].parent), str(files[1])]) == expected
    assert find_segments([f"{tmp_path}/n*/data/p-0"]) == expected
    assert find_segments([f"{tmp_path}/n*/data/p-0/*.log", str(later)]) == expected


def test_one_directory_is_one_replica_by_whatever_name(tmp_path: Path) -> None:
    segment = write_segment(tmp_path / "n[1]" / "p-0", b"")
    (tmp_path / "link").symlink_to(segment.parent)
    assert find_segments([str(segment.parent), str(tmp_path / "link"), str(segment)]) == {"n[1]": [segment]}


@pytest.mark.parametrize("pattern", ["absent", "", "*.txt"])
def test_a_pattern_without_segments_is_an_error(pattern: str, tmp_path: Path) -> None:
    write_segment(tmp_path / "p-0", b"")
    with pytest.raises(UsageError, match="no segment files; give partition directories"):
        find_segments([str(tmp_path / "p-0"), str(tmp_path / pattern)])


def test_a_replica_is_named_by_what_tells_it_from_the_others() -> None:
    alone, one, two = Path("/var/data/n1/p-0"), Path("/var/n1/data/p-0"), Path("/var/n2/data/p-0")
    assert replica_names([alone]) == {alone: "n1"}
    assert replica_names([one, two]) == {one: "n1", two: "n2"}
    assert replica_names([one.parent, one]) == {one.parent: "/var/n1/data", one: "p-0"}


def test_pieces_are_whole_batches_of_about_the_size(tmp_path: Path) -> None:
    older = write_segment(tmp_path, b"".join(BATCHES))
    newest = write_segment(tmp_path, batch([b"a3", b"b3"], base_offset=6), base_offset=6)
    segments = [older, newest]

    def cut(size_bytes: int) -> list[tuple[Path, int, int]]:
        pieces = pieces_of("n1", segments, size_bytes=size_bytes)
        return [(Path(piece.path), piece.position // SIZE_BYTES, piece.end_position // SIZE_BYTES) for piece in pieces]

    assert cut(1) == [(older, 0, 1), (older, 1, 2), (older, 2, 3), (newest, 0, 1)]
    assert cut(2 * SIZE_BYTES) == [(older, 0, 2), (older, 2, 3), (newest, 0, 1)]
    assert cut(3 * SIZE_BYTES) == [(older, 0, 3), (newest, 0, 1)]


def test_an_empty_segment_has_no_piece(tmp_path: Path) -> None:
    assert list(pieces_of("n1", [write_segment(tmp_path, b"")])) == []


def positions(segment: Path, *, end_offset: int | None = None) -> list[int]:
    """Where batches begin, counted in batches."""
    headers = headers_of(segment, end_offset=None if end_offset is None else Offset(end_offset))
    return [position // SIZE_BYTES for position, _ in headers]


def read_all(segment: Path) -> None:
    """All batches of a segment, as a driver and its workers read them."""
    for piece in pieces_of("n1", [segment]):
        for _, data in read_parts(piece):
            list(scan(data))


TAILS = {
    "a torn batch": BATCHES[2][:-1],
    "a torn header": BATCHES[2][:20],
    "less than a length": BATCHES[2][:9],
    "preallocated zeros": bytes(4096),
    "a few zeros": bytes(5),
}


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS)
def test_the_newest_segment_may_have_a_tail_and_an_older_one_may_not(tail: bytes, tmp_path: Path) -> None:
    segment = write_segment(tmp_path, BATCHES[0] + BATCHES[1] + tail)
    assert positions(segment) == [0, 1]
    with pytest.raises(CorruptionError) as caught:
        positions(segment, end_offset=4)
    assert (caught.value.path, caught.value.position) == (str(segment), 2 * SIZE_BYTES)


@pytest.mark.parametrize("index", [0, 1, 2], ids=["first", "middle", "last"])
def test_a_flipped_bit_of_what_no_crc_covers_is_damage_also_in_the_newest_segment(index: int, tmp_path: Path) -> None:
    """Base offset, length and magic; some only show when the CRC is compared over the wrong bytes."""
    for at in (*range(12), 16):
        for bit in range(8):
            damaged = [bytearray(each) for each in BATCHES]
            damaged[index][at] ^= 1 << bit
            segment = write_segment(tmp_path, b"".join(damaged))
            with pytest.raises((CorruptionError, ProtocolError)):
                read_all(segment)


def test_an_epoch_that_steps_back_is_damage(tmp_path: Path) -> None:
    segment = write_segment(tmp_path, BATCHES[0] + batch([b"x"], base_offset=2, epoch=EPOCH - 1))
    with pytest.raises(
        CorruptionError, match=f"expected offset 2 of epoch {EPOCH} or later, found offset 2 of epoch 2"
    ):
        positions(segment)


def test_a_segment_that_is_missing_is_damage_and_one_that_was_not_asked_for_is_not(tmp_path: Path) -> None:
    parts = [write_segment(tmp_path, data, base_offset=2 * index) for index, data in enumerate(BATCHES)]
    assert len(list(pieces_of("n1", [parts[0], parts[2]]))) == 2
    parts[1].unlink()
    with pytest.raises(
        CorruptionError, match="expected offset 2, found the end of the segment, and the next begins at 4"
    ):
        list(pieces_of("n1", [parts[0], parts[2]]))


def test_an_older_segment_has_no_torn_tail_when_the_newest_is_not_asked_for(tmp_path: Path) -> None:
    older = write_segment(tmp_path, BATCHES[0] + BATCHES[1][:-1])
    write_segment(tmp_path, BATCHES[1], base_offset=2)
    with pytest.raises(CorruptionError):
        list(pieces_of("n1", [older]))


@pytest.mark.parametrize("size_bytes", [1, 70, SIZE_BYTES, 2 * SIZE_BYTES + 5, 1_000])
def test_a_piece_is_read_in_parts_of_whole_batches(size_bytes: int, tmp_path: Path) -> None:
    segment = write_segment(tmp_path, b"".join(BATCHES))
    piece = Piece(replica="n1", path=str(segment), position=SIZE_BYTES, end_position=3 * SIZE_BYTES)
    parts = list(read_parts(piece, size_bytes=size_bytes))
    assert b"".join(data for _, data in parts) == BATCHES[1] + BATCHES[2]
    assert [len(data) for _, data in parts] == [part.end_position - part.position for part, _ in parts]
    assert len(parts) == (1 if size_bytes >= 2 * SIZE_BYTES else 2)


@pytest.mark.parametrize("data", [b"123", bytes(500), BATCHES[1][:-1], b""], ids=["few", "zeros", "cut", "nothing"])
def test_a_file_that_is_no_longer_as_it_was_is_damage(data: bytes, tmp_path: Path) -> None:
    segment = write_segment(tmp_path, BATCHES[0] + data)
    piece = Piece(replica="n1", path=str(segment), position=0, end_position=2 * SIZE_BYTES)
    with pytest.raises(CorruptionError, match="expected a whole batch") as caught:
        list(read_parts(piece))
    assert caught.value.position == SIZE_BYTES
