"""Which bytes a task reads: segments found and named, cut at batch boundaries, tails told from damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.errors import CorruptionError, UsageError
from pykraft.spark.files import Piece, batch_ends, find_segments, pieces_of, read_piece, replica_names
from tests.spark.logs import three_batches, write_segment

BATCHES = three_batches()
SIZE_BYTES = len(BATCHES[0])


def test_segments_are_found_by_directory_file_and_glob(tmp_path: Path) -> None:
    files = [write_segment(tmp_path / name / "data" / "p-0", b"") for name in ("n1", "n2")]
    later = write_segment(tmp_path / "n1" / "data" / "p-0", b"", base_offset=10)
    (later.parent / "00000000000000000010.index").touch()
    (later.parent / "quorum-state").touch()
    expected = {"n1": [files[0], later], "n2": [files[1]]}
    assert find_segments(f"{files[0].parent}, {files[1]}") == expected
    assert find_segments(f"{tmp_path}/n*/data/p-0") == expected
    assert find_segments(f"{tmp_path}/n*/data/p-0/*.log,{later}") == expected


@pytest.mark.parametrize("paths", ["", " , ", "{folder}/absent", "{folder}"])
def test_a_path_without_segments_is_an_error(paths: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give partition directories"):
        find_segments(paths.format(folder=tmp_path))


def test_a_replica_is_named_by_what_tells_it_from_the_others() -> None:
    alone, one, two = Path("/var/data/n1/p-0"), Path("/var/n1/data/p-0"), Path("/var/n2/data/p-0")
    assert replica_names([alone]) == {alone: "n1"}
    assert replica_names([one, two]) == {one: "n1", two: "n2"}
    assert replica_names([one.parent, one]) == {one.parent: "/var/n1/data", one: "p-0"}


def test_pieces_are_whole_batches_of_about_the_size(tmp_path: Path) -> None:
    older = write_segment(tmp_path, b"".join(BATCHES))
    newest = write_segment(tmp_path, BATCHES[0], base_offset=6)
    segments = [older, newest]

    def cut(size_bytes: int) -> list[tuple[Path, int, int]]:
        pieces = pieces_of("n1", segments, size_bytes=size_bytes)
        return [(Path(piece.path), piece.position // SIZE_BYTES, piece.end_position // SIZE_BYTES) for piece in pieces]

    assert cut(1) == [(older, 0, 1), (older, 1, 2), (older, 2, 3), (newest, 0, 1)]
    assert cut(2 * SIZE_BYTES) == [(older, 0, 2), (older, 2, 3), (newest, 0, 1)]
    assert cut(3 * SIZE_BYTES) == [(older, 0, 3), (newest, 0, 1)]


def test_an_empty_segment_has_no_piece(tmp_path: Path) -> None:
    assert list(pieces_of("n1", [write_segment(tmp_path, b"")])) == []


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
    assert list(batch_ends(segment, is_newest=True)) == [SIZE_BYTES, 2 * SIZE_BYTES]
    with pytest.raises(CorruptionError, match="expected a whole batch") as caught:
        list(batch_ends(segment, is_newest=False))
    assert (caught.value.path, caught.value.position) == (str(segment), 2 * SIZE_BYTES)


def test_a_length_that_no_batch_has_is_damage_in_the_newest_segment_too(tmp_path: Path) -> None:
    damaged = BATCHES[1][:8] + (7).to_bytes(4, "big") + BATCHES[1][12:]
    segment = write_segment(tmp_path, BATCHES[0] + damaged + BATCHES[2])
    with pytest.raises(CorruptionError, match="a batch length of 7 bytes") as caught:
        list(pieces_of("n1", [segment]))
    assert caught.value.position == SIZE_BYTES


def test_a_piece_is_read_from_its_place_and_not_when_the_file_became_shorter(tmp_path: Path) -> None:
    segment = write_segment(tmp_path, b"".join(BATCHES))
    piece = Piece(replica="n1", path=str(segment), position=SIZE_BYTES, end_position=2 * SIZE_BYTES)
    assert read_piece(piece) == BATCHES[1]
    segment.write_bytes(BATCHES[0] + b"123")
    with pytest.raises(CorruptionError, match=f"expected {SIZE_BYTES} bytes, found only 3 bytes"):
        read_piece(piece)
