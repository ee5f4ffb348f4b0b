"""Frames from a stream, however it is cut, and what is rejected.

Source: Kafka protocol guide §Protocol; Kafka's NetworkReceive.
"""

import struct
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pykraft.errors import ProtocolError
from pykraft.protocol.api import CUT_SIZE_BYTES, ROOM_SIZE_BYTES_MIN, VIEW_SIZE_BYTES_MIN, FrameReader, frame
from pykraft.protocol.cut_frame import CutFrame
from pykraft.types import Buffer
from tests.memory import taking_less_than

SIZE_MAX = 100_000


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


@given(
    st.lists(st.binary(min_size=1, max_size=30) | st.integers(4000, 9000).map(bytes), max_size=6),
    st.lists(st.integers(1, 5000), min_size=1, max_size=20),
)
def test_any_cut_of_the_stream_gives_the_same_frames(bodies: list[bytes], steps: list[int]) -> None:
    stream = framed(*bodies)
    reader = FrameReader(SIZE_MAX)
    found: list[bytes] = []
    position = turn = 0
    while position < len(stream):
        step = steps[turn % len(steps)]
        found += map(bytes, reader.feed(stream[position : position + step]))
        position += step
        turn += 1
    assert found == bodies
    assert reader.held_size_bytes == 0


def test_byte_by_byte() -> None:
    reader = FrameReader(SIZE_MAX)
    stream = framed(b"ab", b"c")
    assert [reader.feed(stream[index : index + 1]) for index in range(len(stream))] == [
        *([[]] * 5),
        [b"ab"],
        *([[]] * 4),
        [b"c"],
    ]


@given(
    st.lists(st.sampled_from([1, 5_000, 10_000, 10_001, 12_000, 30_000]), min_size=1, max_size=5),
    st.lists(st.integers(1, 9_000), min_size=1, max_size=20),
)
@example([30_000, 1], [4])
def test_of_a_frame_that_is_too_large_the_beginning_is_kept(sizes: list[int], steps: list[int]) -> None:
    bodies = [bytes([number]) + b"x" * (size - 1) for number, size in enumerate(sizes)]
    stream = framed(*bodies)
    reader = FrameReader(10_000, cut_size_bytes_max=30_000)
    found: list[Buffer] = []
    position = turn = 0
    while position < len(stream):
        step = steps[turn % len(steps)]
        found += reader.feed(stream[position : position + step])
        assert reader.held_size_bytes <= 10_000
        position += step
        turn += 1
    assert [bytes(each) for each in found] == [
        body if len(body) <= 10_000 else body[:CUT_SIZE_BYTES] for body in bodies
    ]
    assert [isinstance(each, CutFrame) for each in found] == [len(body) > 10_000 for body in bodies]
    with pytest.raises(ProtocolError, match="allowed are 1 to 10000"):
        reader.feed(struct.pack(">i", 30_001))


def test_an_empty_piece_changes_nothing() -> None:
    reader = FrameReader(SIZE_MAX)
    assert reader.feed(b"") == []
    assert reader.feed(framed(b"abc")[:5]) == []
    assert reader.feed(b"") == []
    assert reader.feed(b"bc") == [b"abc"]


def test_a_large_frame_in_one_piece_is_a_view_and_a_small_one_is_not() -> None:
    piece = framed(bytes(VIEW_SIZE_BYTES_MIN), b"small")
    large, small = FrameReader(SIZE_MAX).feed(piece)
    assert isinstance(large, memoryview)
    assert large.obj is piece
    assert isinstance(small, bytes)


def test_a_large_frame_in_many_pieces_is_assembled_once_and_read_only() -> None:
    reader = FrameReader(SIZE_MAX)
    stream = framed(bytes(range(250)) * 40)
    frames = [one for start in range(0, len(stream), 999) for one in reader.feed(stream[start : start + 999])]
    assert frames == [stream[4:]]
    assert isinstance(frames[0], memoryview)
    assert frames[0].readonly


def test_frames_stay_as_they_are_when_the_reader_goes_on() -> None:
    reader = FrameReader(SIZE_MAX)
    stream = framed(b"a" * 5000)
    reader.feed(stream[:100])
    (first,) = reader.feed(stream[100:])
    reader.feed(framed(b"b" * 5000)[:4900])
    assert first == b"a" * 5000


@pytest.mark.parametrize("size_bytes", [0, -1, -(2**31), SIZE_MAX + 1, 2**31 - 1])
@pytest.mark.parametrize("cut", [2, 4])
def test_sizes_that_are_not_allowed_are_refused_at_once(size_bytes: int, cut: int) -> None:
    reader = FrameReader(SIZE_MAX)
    prefix = struct.pack(">i", size_bytes)
    if cut < len(prefix):
        assert reader.feed(prefix[:cut]) == []
        prefix = prefix[cut:]
    with pytest.raises(ProtocolError, match=f"a frame of {size_bytes} bytes: allowed are 1 to {SIZE_MAX}"):
        reader.feed(prefix)


def test_the_largest_frame_is_accepted() -> None:
    assert FrameReader(3).feed(framed(b"abc")) == [b"abc"]


def test_the_bound_may_be_raised_later() -> None:
    reader = FrameReader(3)
    reader.size_bytes_max = 4
    assert reader.feed(framed(b"abcd")) == [b"abcd"]


@pytest.mark.parametrize(
    ("start", "name"),
    [
        (b"\x16\x03\x01\x02\x00\x01", "TLS"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"HTTP/1.0 400", "HTTP"),
        (b"SSH-2.0-x\r\n", "SSH"),
    ],
)
def test_a_foreign_protocol_is_named(start: bytes, name: str) -> None:
    with pytest.raises(ProtocolError, match=f"; the peer seems to speak {name}$"):
        FrameReader(SIZE_MAX).feed(start)


def test_what_is_held_grows_with_what_arrived_and_not_with_what_was_announced() -> None:
    def fed() -> FrameReader:
        reader = FrameReader(2**30)
        reader.feed(struct.pack(">i", 2**30) + b"x" * 1000)
        return reader

    assert taking_less_than(256 * 1024, fed).held_size_bytes == 1000


def receive(reader: FrameReader, data: bytes) -> list[bytes]:
    """Let the bytes arrive as a loop does that receives in place; it drops its view only at the next call."""
    found: list[bytes] = []
    while data:
        room = reader.room()
        if room is None:
            size_bytes = min(len(data), 50_000)
            reader.put(data[:size_bytes])
        else:
            size_bytes = min(len(data), len(room))
            room[:size_bytes] = data[:size_bytes]
            reader.filled(size_bytes)
        data = data[size_bytes:]
        while (frame := reader.take()) is not None:
            found.append(bytes(frame))
    return found


@given(
    st.lists(st.integers(1, 300) | st.sampled_from([70_000, 200_000, 999_999]), min_size=1, max_size=4),
    st.lists(st.sampled_from([1, 3, 4, 5, 100, 65_536, 65_541, 300_000]), min_size=1, max_size=8),
)
@example([999_999, 999_999], [300_000])
def test_frames_received_in_place_are_those_of_any_other_way(sizes: list[int], steps: list[int]) -> None:
    bodies = [bytes([1 + at]) * size for at, size in enumerate(sizes)]
    stream, reader, found, turn = framed(*bodies), FrameReader(2**20), [], 0
    while stream:
        step = max(steps[turn % len(steps)], len(stream) // 50)
        found += receive(reader, stream[:step])
        stream, turn = stream[step:], turn + 1
        assert reader.held_size_bytes <= 4 + max(sizes)
    assert found == bodies
    assert reader.held_size_bytes == 0


def test_only_the_rest_of_a_large_frame_is_received_in_place() -> None:
    reader = FrameReader(2**20)
    assert reader.room() is None
    reader.feed(framed(bytes(ROOM_SIZE_BYTES_MIN))[:-1])
    assert reader.room() is None
    reader.feed(b"x")
    reader.put(struct.pack(">i", ROOM_SIZE_BYTES_MIN))
    assert reader.room() is None, "nobody has looked yet whether a frame begins there"
    assert reader.take() is None
    assert reader.room() is not None


def test_room_grows_with_what_arrived_and_not_with_what_was_announced() -> None:
    reader = FrameReader(2**30)
    reader.feed(struct.pack(">i", 2**30) + b"x" * 1000)
    for _ in range(3):
        room = reader.room()
        assert room is not None
        assert len(room) <= max(reader.held_size_bytes, ROOM_SIZE_BYTES_MIN)
        size_bytes = len(room)
        reader.filled(size_bytes)
    assert reader.need_size_bytes == 2**30


def test_a_frame_as_large_as_the_one_before_has_room_at_once() -> None:
    reader = FrameReader(2**20)
    body = bytes(900_000)
    assert receive(reader, framed(body)) == [body]
    reader.feed(framed(body)[:10])
    room = reader.room()
    assert room is not None
    assert len(room) == len(body) - 6


def test_many_small_pieces_cost_linear_time() -> None:
    def cost_s(pieces: int) -> float:
        reader = FrameReader(2**30)
        reader.feed(struct.pack(">i", 2**30))
        started = time.process_time()
        for _ in range(pieces):
            reader.feed(b"x" * 100)
        return time.process_time() - started

    assert min(cost_s(40_000) for _ in range(3)) < 30 * min(cost_s(4_000) for _ in range(3)) + 0.02


def test_frame_puts_the_size_in_front() -> None:
    assert frame([b"ab", b"cde"]) == [b"\0\0\0\5ab", b"cde"]
    large = memoryview(bytes(600))
    assert frame([b"", large])[1] is large


@pytest.mark.parametrize("cut", range(1, 7))
def test_what_came_after_a_frame_is_for_another_reader(cut: int) -> None:
    frames, stream = FrameReader(SIZE_MAX), framed(b"ab") + b"\0\0\0\7rest"
    frames.put(stream[:cut])
    found = frames.take()
    if found is None:
        frames.put(stream[cut:])
        found = frames.take()
        assert frames.untaken == b"\0\0\0\7rest"
    assert (found, frames.untaken) == (b"ab", b"" if cut == 6 else b"\0\0\0\7rest")
