"""A torn tail is distinguished from damage: cut at every byte, zeros from every sector on, a wrong length."""

from pathlib import Path

import pytest

from pykraft.log.judge import Verdict
from pykraft.log.os_fs import OsFs
from pykraft.log.tail import SECTOR_SIZE_BYTES, TORN_SIZE_BYTES_MAX, Expected, verdict_from, written_end
from pykraft.protocol.batch import read_header
from pykraft.types import Epoch, Offset
from tests.spark.logs import EPOCH, batch

FIRST = batch([b"first" * 10], base_offset=0)
SEVERAL = batch([b"one", b"two", b"three"], base_offset=1)
LARGE = batch([b"value %d" % place for place in range(300)], base_offset=1)
SMALL = batch([b"s"], base_offset=301)
NEXT = Expected(base_offset=Offset(1), epoch=Epoch(EPOCH))


def looked_at(path: Path, data: bytes) -> bool:
    """Whether what stands behind the first batch is a torn tail."""
    path.write_bytes(FIRST + data)
    return verdict_from(OsFs(), path, len(FIRST), NEXT, later=()) is Verdict.TORN


def test_a_batch_that_is_cut_anywhere_is_torn(tmp_path: Path) -> None:
    for size_bytes in range(len(SEVERAL)):
        assert looked_at(tmp_path / "log", SEVERAL[:size_bytes]), size_bytes


@pytest.mark.parametrize("zeros", [SECTOR_SIZE_BYTES, 10_000])
def test_sectors_that_were_never_written_are_torn(zeros: int, tmp_path: Path) -> None:
    for end in range(SECTOR_SIZE_BYTES - len(FIRST), len(LARGE), SECTOR_SIZE_BYTES):
        assert looked_at(tmp_path / "log", LARGE[:end] + bytes(len(LARGE) - end + zeros)), end
    assert looked_at(tmp_path / "log", bytes(zeros))
    assert looked_at(tmp_path / "log", LARGE[:30] + bytes(zeros))


def with_length(data: bytes, size_bytes: int) -> bytes:
    """The same batch, but it says that it is of another size."""
    return data[:8] + (size_bytes - 12).to_bytes(4, "big") + data[12:]


DAMAGE = {
    "a length beyond the end, and the next batch follows": with_length(LARGE, 1 << 20) + SMALL,
    "a length beyond the end, and all is there": with_length(LARGE, len(LARGE) + 1),
    "a header that is none": bytes([0xFF]) * 100,
    "another offset": batch([b"x"] * 50, base_offset=2)[:-1],
    "an epoch before": batch([b"x"] * 50, base_offset=1, epoch=EPOCH - 1)[:-1],
    "a changed byte, and the next batch follows": LARGE[:100] + b"!" + LARGE[101:] + SMALL,
}


@pytest.mark.parametrize("data", DAMAGE.values(), ids=DAMAGE)
def test_what_a_crash_does_not_explain_is_not_torn(data: bytes, tmp_path: Path) -> None:
    assert not looked_at(tmp_path / "log", data)
    assert not looked_at(tmp_path / "log", data + bytes(4 * SECTOR_SIZE_BYTES))


FOLLOWERS = {
    "the next batch": (SMALL, Verdict.DAMAGED),
    "a later batch": (batch([b"s"], base_offset=9_000), Verdict.DAMAGED),
    "a batch of a later epoch": (batch([b"s"], base_offset=301, epoch=EPOCH + 1), Verdict.DAMAGED),
    "a batch of an epoch before": (batch([b"s"], base_offset=301, epoch=EPOCH - 1), Verdict.UNPROVEN),
    "a batch of an offset before": (FIRST, Verdict.UNPROVEN),
    "a batch with a wrong CRC": (SMALL[:-1] + b"!", Verdict.UNPROVEN),
}


@pytest.mark.parametrize("is_later", [False, True], ids=["same segment", "later segment"])
@pytest.mark.parametrize("bad", [LARGE[:100] + b"!" + LARGE[101:], bytes(2_000)], ids=["changed", "lost"])
@pytest.mark.parametrize(("follower", "verdict"), FOLLOWERS.values(), ids=FOLLOWERS)
def test_bad_bytes_before_a_batch_that_can_follow_are_damage(
    follower: bytes, verdict: Verdict, bad: bytes, *, is_later: bool, tmp_path: Path
) -> None:
    path, other = tmp_path / "log", tmp_path / "later"
    path.write_bytes(FIRST + bad if is_later else FIRST + bad + follower)
    other.write_bytes(follower if is_later else b"")
    assert verdict_from(OsFs(), path, len(FIRST), NEXT, later=[other]) is verdict


def test_more_than_any_batch_holds_is_not_the_begin_of_one(tmp_path: Path) -> None:
    assert not looked_at(tmp_path / "log", with_length(LARGE, 1 << 30) + b"x" * TORN_SIZE_BYTES_MAX)


def test_a_value_that_looks_like_an_offset_does_not_make_a_follower(tmp_path: Path) -> None:
    alike = (301).to_bytes(8, "big")
    data = batch([alike + b"." * 90] * 300, base_offset=1)
    assert read_header(data).end_offset == 301
    assert looked_at(tmp_path / "log", data[:-1])


@pytest.mark.parametrize(
    ("data", "end"),
    [
        (b"", 0),
        (bytes(2_000_000), 0),
        (b"x", 1),
        (b"x" + bytes(5), 6),
        (b"x" + bytes(2_000_000), SECTOR_SIZE_BYTES),
        (b"x" * 700, 700),
    ],
)
def test_zeros_at_the_end_are_not_written_from_a_sector_on(data: bytes, end: int, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    file = OsFs().open(path)
    assert written_end(file) == end
    file.close()
