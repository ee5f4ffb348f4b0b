"""Codecs: round trips; damage, cuts and decompression bombs end in one error, with bounded memory."""

import gzip
import struct

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.compression import FRAMES_MAX, Compression, decompress
from tests.memory import taking_less_than

XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
REFUSALS = (ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE)
CODECS = [codec for codec in Compression if codec is not Compression.NONE]


def xerial(*blocks: bytes) -> bytes:
    raw = [bytes(cramjam.snappy.compress_raw(block)) for block in blocks]
    return XERIAL_HEADER + b"".join(struct.pack(">i", len(block)) + block for block in raw)


def compress(codec: Compression, data: bytes) -> bytes:
    match codec:
        case Compression.GZIP:
            return gzip.compress(data, mtime=0)
        case Compression.SNAPPY:
            return xerial(data)
        case Compression.LZ4:
            return bytes(cramjam.lz4.compress(data, level=1))
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=1))
        case Compression.NONE:
            return data


@given(st.sampled_from(Compression), st.binary(min_size=1, max_size=2000), st.integers(1, 50))
def test_what_was_compressed_comes_back(codec: Compression, data: bytes, times: int) -> None:
    assert bytes(decompress(codec, memoryview(compress(codec, data * times)))) == data * times


def test_output_that_grows_beyond_the_first_guess() -> None:
    data = bytes(2_000_000)
    for codec in (Compression.LZ4, Compression.ZSTD):
        assert decompress(codec, compress(codec, data)) == data


def test_snappy_without_framing_is_one_block() -> None:
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(b"one block" * 9))) == b"one block" * 9


def test_snappy_blocks_are_joined() -> None:
    assert decompress(Compression.SNAPPY, xerial(b"first ", b"second ", b"third")) == b"first second third"
    assert decompress(Compression.SNAPPY, XERIAL_HEADER) == b""


def test_snappy_blocks_that_hold_next_to_nothing_are_counted() -> None:
    """A batch of 7.6 MiB held 1.6 million empty blocks, which took two seconds."""
    small = b"x" * 1024
    many = (small,) * 3 * FRAMES_MAX
    assert decompress(Compression.SNAPPY, xerial(*many, *[b""] * (FRAMES_MAX - 1), b"end")) == b"".join(many) + b"end"
    for block in (b"", b"x"):
        with pytest.raises(ProtocolError, match=f"{FRAMES_MAX + 1} blocks hold only") as caught:
            decompress(Compression.SNAPPY, xerial(small, *[block] * (FRAMES_MAX + 1)))
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_gzip_members_are_joined() -> None:
    assert decompress(Compression.GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"


@pytest.mark.parametrize("codec", CODECS)
def test_every_cut_is_refused(codec: Compression) -> None:
    data = bytes(range(256)) * 4
    whole = compress(codec, data)
    for size_bytes in range(len(whole)):
        try:
            found = decompress(codec, whole[:size_bytes], size_bytes_max=2000)
        except ProtocolError as error:
            assert error.code in REFUSALS
        else:
            # The bare framing of snappy is a stream of no blocks, and a codec may not miss its trailing checksum.
            assert found == (b"" if codec is Compression.SNAPPY else data)


@pytest.mark.parametrize("codec", CODECS)
@given(damage=st.binary(max_size=200))
@settings(deadline=None)
def test_garbage_is_refused_or_read_but_never_breaks(codec: Compression, damage: bytes) -> None:
    for stream in (damage, compress(codec, b"begin")[:12] + damage, XERIAL_HEADER + damage):
        try:
            decompress(codec, stream, size_bytes_max=100_000)
        except ProtocolError as error:
            assert error.code in REFUSALS


@pytest.mark.parametrize("codec", CODECS)
def test_the_bound_is_exact(codec: Compression) -> None:
    stream = compress(codec, bytes(5000))
    assert decompress(codec, stream, size_bytes_max=5000) == bytes(5000)
    with pytest.raises(ProtocolError, match=r"expand beyond 4999 bytes") as caught:
        decompress(codec, stream, size_bytes_max=4999)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_takes_no_more_memory_than_the_bound(codec: Compression) -> None:
    bomb = xerial(*[bytes(65_536)] * 500) if codec is Compression.SNAPPY else compress(codec, bytes(32_000_000))

    def refuse() -> None:
        with pytest.raises(ProtocolError):
            decompress(codec, bomb, size_bytes_max=500_000)

    taking_less_than(1_500_000, refuse)


def test_a_small_snappy_block_cannot_promise_much() -> None:
    lie = bytes.fromhex("ffffff7f00")  # 256 MiB, then one byte.
    with pytest.raises(ProtocolError, match="expand beyond 1000 bytes"):
        decompress(Compression.SNAPPY, lie, size_bytes_max=1000)
    with pytest.raises(ProtocolError, match="a block of 5 bytes promises 268435455"):
        decompress(Compression.SNAPPY, lie, size_bytes_max=2**30)


@pytest.mark.parametrize(
    ("rest", "problem"),
    [
        ("0000", "the length at byte 16 is cut off"),
        ("00000003aaaa", "the block at byte 20 is cut off: 2 of 3 bytes"),
        ("ffffffffaaaa", "the block at byte 20 is cut off: 2 of -1 bytes"),
        ("00000003aaaaaa", "snappy"),
    ],
)
def test_bad_snappy_framing_says_where(rest: str, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        decompress(Compression.SNAPPY, XERIAL_HEADER + bytes.fromhex(rest))


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD])
def test_more_members_or_frames_than_any_producer_writes_are_refused(codec: Compression) -> None:
    empty = compress(codec, b"")
    assert decompress(codec, compress(codec, b"x") + empty * (FRAMES_MAX - 2) + compress(codec, b"y")) == b"xy"
    with pytest.raises(ProtocolError, match=f"more than {FRAMES_MAX}") as caught:
        decompress(codec, empty * (FRAMES_MAX + 1))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def zstd_frame(descriptor: int, *blocks: bytes) -> bytes:
    """A frame with what its descriptor says it has, and a window of 1 KiB where that is asked for."""
    is_single = descriptor >> 5 & 1
    content = ((bytes(is_single)), bytes(2), bytes(4), bytes(8))[descriptor >> 6]
    window = b"" if is_single else b"\0"
    checksum = bytes(4) if descriptor & 4 else b""
    head = b"\x28\xb5\x2f\xfd" + bytes([descriptor]) + window + bytes((0, 1, 2, 4)[descriptor & 3]) + content
    return head + b"".join(blocks) + checksum


@pytest.mark.parametrize("descriptor", [0, 1, 2, 3, 4, 0x20, 0x24, 0x40, 0x60, 0x80, 0xA0, 0xC0, 0xE0, 0xE7])
def test_frames_of_zstd_are_counted_by_their_headers(descriptor: int) -> None:
    raw, rle, last = b"\x10\0\0ab", b"\x22\0\0x", b"\x01\0\0"
    frame = zstd_frame(descriptor, raw, rle, last)
    with pytest.raises(ProtocolError, match=f"more than {FRAMES_MAX} frames"):
        decompress(Compression.ZSTD, frame * (FRAMES_MAX + 1))


def test_frames_of_zstd_that_are_skipped_count_too() -> None:
    skipped = struct.pack("<II", 0x184D2A57, 3) + b"abc"
    assert decompress(Compression.ZSTD, skipped + compress(Compression.ZSTD, b"x")) == b"x"
    with pytest.raises(ProtocolError, match=f"more than {FRAMES_MAX} frames"):
        decompress(Compression.ZSTD, skipped * (FRAMES_MAX + 1))
