"""Cuts a stream of bytes into frames, and puts the size in front of a message.

    size int32 (of what follows), then that many bytes: a request or a response with its header

The reader holds at most one unfinished frame, and the piece of the stream that it takes frames from. Invariant: it
holds no more of an unfinished frame than the announced size, which it checks against the limit as soon as it knows it.
Memory grows with the bytes that arrived, never with the announced size. Frames are taken one by one, since a piece may
contain thousands. Each byte is copied at most once: a large frame that lies whole in one piece is a view of that piece.
The rest of a large frame may be received where it belongs (`FrameReader.room`), without a copy.

Source: Kafka protocol guide §Protocol; Kafka's NetworkReceive.
"""

import struct
from collections.abc import Sequence

from pykraft.errors import ProtocolError
from pykraft.types import Buffer

SIZE_PREFIX_SIZE_BYTES = 4
FRAME_SIZE_BYTES_MAX = 2**31 - 1
"""Largest size that the prefix can express; the limit of a reader is far below."""
VIEW_SIZE_BYTES_MIN = 4096
"""From this size on a frame is a view of its piece; a smaller one is copied, so that the piece can be freed."""
ROOM_SIZE_BYTES_MIN = 64 * 1024
"""If less than this is missing of a frame, the next piece may as well hold the rest and more."""

_SIZE = struct.Struct(">i")
_FOREIGN_STARTS = (
    (b"\x16\x03", "TLS"),
    (b"GET ", "HTTP"),
    (b"POST", "HTTP"),
    (b"HEAD", "HTTP"),
    (b"HTTP", "HTTP"),
    (b"SSH-", "SSH"),
)


class FrameReader:
    """Collects the frames of one connection; after an error, close the connection."""

    __slots__ = (
        "_data",
        "_filled_bytes",
        "_former_bytes",
        "_held",
        "_need_bytes",
        "_position",
        "_room",
        "size_bytes_max",
    )

    def __init__(self, size_bytes_max: int) -> None:
        assert 0 < size_bytes_max <= FRAME_SIZE_BYTES_MAX
        self.size_bytes_max = size_bytes_max
        """Largest accepted frame; may be raised once the peer is known."""
        self._data = b""  # the newest piece of the stream, unread from `_position` on
        self._position = 0
        self._held = bytearray()  # bytes of a frame, or of its size, that began in an earlier piece; then room for more
        self._filled_bytes = 0  # how much of `_held` has arrived
        self._former_bytes = 0  # size of the last frame that came in several pieces
        self._room: memoryview | None = None
        self._need_bytes = 0  # size of the frame in `_held`; 0 while it is unknown

    @property
    def held_size_bytes(self) -> int:
        """Bytes held: of an unfinished frame, and of frames not taken yet."""
        return self._filled_bytes + len(self._data) - self._position

    @property
    def need_size_bytes(self) -> int:
        """Full size of the unfinished frame; 0 while it is unknown, or there is none."""
        return self._need_bytes

    def feed(self, data: bytes) -> list[Buffer]:
        """Add the next piece of the stream; returns the frames that are complete now, without their sizes.

        Errors: see `take`.
        """
        self.put(data)
        frames: list[Buffer] = []
        while (found := self.take()) is not None:
            frames.append(found)
        return frames

    def put(self, data: bytes) -> None:
        """Add the next piece of the stream; it must be immutable, since frames may be views of it."""
        self._release_room()
        left = self._data[self._position :]
        self._data = left + data if left else data
        self._position = 0

    def room(self) -> memoryview | None:
        """Where the next bytes of the stream belong if they are the rest of a large frame; None if `put` takes them.

        It is at most as large as the frame before, or as what has arrived of this one. It is valid until the next call
        but for `filled`.
        """
        self._release_room()
        missing_bytes = self._need_bytes - self._filled_bytes
        if missing_bytes < ROOM_SIZE_BYTES_MIN or len(self._data) > self._position:
            return None
        if self._filled_bytes == len(self._held):
            # Not the announced size: memory is only for a peer that did send as much before.
            room_bytes = max(self._filled_bytes, self._former_bytes, ROOM_SIZE_BYTES_MIN)
            held = bytearray(self._filled_bytes + min(missing_bytes, room_bytes))
            held[: self._filled_bytes] = self._held
            self._held = held
        self._room = memoryview(self._held)[self._filled_bytes :]
        return self._room

    def filled(self, size_bytes: int) -> None:
        """The next piece of the stream was received in the `room`."""
        self._filled_bytes += size_bytes

    def _release_room(self) -> None:
        # Not in `filled`: uvloop uses the view until that call has returned. And a loop may keep the view for longer,
        # but as long as it is valid the buffer cannot grow.
        if self._room is not None:
            self._room.release()
            self._room = None

    def take(self) -> Buffer | None:
        """The next frame, without its size; None until more arrives. Frames that are not taken cost only their bytes.

        Errors: ProtocolError when a size is not positive or above ``size_bytes_max``.
        """
        data, start = self._data, self._position + SIZE_PREFIX_SIZE_BYTES
        if self._filled_bytes or self._need_bytes:
            return self._resume(data)
        if start > len(data):
            if self._position < len(data):
                self._hold(data, self._position)
            else:
                self._data, self._position = b"", 0
            return None
        size_bytes = self._check_size(data, self._position)
        stop = start + size_bytes
        if stop > len(data):
            self._need_bytes = size_bytes
            self._hold(data, start)
            return None
        self._position = stop
        return data[start:stop] if size_bytes < VIEW_SIZE_BYTES_MIN else memoryview(data)[start:stop]

    def _hold(self, data: bytes, position: int) -> None:
        """Keep the bytes of an unfinished frame, and let its piece be freed."""
        self._add(memoryview(data)[position:])
        self._data, self._position = b"", 0

    def _add(self, piece: memoryview) -> None:
        end = self._filled_bytes + len(piece)
        self._held[self._filled_bytes : end] = piece
        self._filled_bytes = end

    def _resume(self, data: bytes) -> Buffer | None:
        position = self._position
        if not self._need_bytes:
            start = position + SIZE_PREFIX_SIZE_BYTES - self._filled_bytes
            if start > len(data):
                self._hold(data, position)
                return None
            self._need_bytes = self._check_size(self._held + data[position:start], 0)
            self._held, self._filled_bytes = bytearray(), 0
            position = start
        stop = position + self._need_bytes - self._filled_bytes
        if stop > len(data):
            self._hold(data, position)
            return None
        self._add(memoryview(data)[position:stop])
        self._position = stop
        small = self._need_bytes < VIEW_SIZE_BYTES_MIN
        found: Buffer = bytes(self._held) if small else memoryview(self._held).toreadonly()
        self._held, self._filled_bytes, self._former_bytes, self._need_bytes = bytearray(), 0, self._need_bytes, 0
        return found

    def _check_size(self, data: Buffer, position: int) -> int:
        (size_bytes,) = _SIZE.unpack_from(data, position)
        # Check the announced size before any byte of the frame is kept for it.
        if 0 < size_bytes <= self.size_bytes_max:
            return int(size_bytes)
        start = bytes(data[position : position + SIZE_PREFIX_SIZE_BYTES])
        hint = next(
            (f"; the peer seems to speak {name}" for text, name in _FOREIGN_STARTS if start.startswith(text)), ""
        )
        raise ProtocolError(f"a frame of {size_bytes} bytes: allowed are 1 to {self.size_bytes_max}{hint}")


def frame(parts: Sequence[Buffer]) -> list[Buffer]:
    """Put the size in front of a message that consists of these buffers."""
    size = _SIZE.pack(sum(map(len, parts)))
    return [size + bytes(parts[0]), *parts[1:]]
