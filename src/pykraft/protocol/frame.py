"""Cuts a stream of bytes into frames, and puts the size in front of a message.

    size int32 (of what follows), then that many bytes: a request or a response with its header

Owns the bytes of at most one unfinished frame. Invariant: it holds no more than the frame's announced size, which
is checked against the bound as soon as it is known, and what it holds grows with what arrived, never with what
was announced. Each byte is copied at most once: a large frame that lies whole in one piece is passed on as a
view of that piece. Refuses to know what is in a frame.

Source: Kafka protocol guide §Protocol; Kafka's NetworkReceive.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pykraft.errors import ProtocolError
from pykraft.types import Buffer

SIZE_PREFIX_SIZE_BYTES = 4
FRAME_SIZE_BYTES_MAX = 2**31 - 1
"""What the size prefix can say; the bound that a reader is given is far below."""
VIEW_SIZE_BYTES_MIN = 4096
"""A frame from this size on is a view of the piece it came in; a smaller one is copied and lets the piece go."""

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
    """Collects the frames of one connection; after an error the connection is to be closed."""

    __slots__ = ("_held", "_need_bytes", "size_bytes_max")

    def __init__(self, size_bytes_max: int) -> None:
        assert 0 < size_bytes_max <= FRAME_SIZE_BYTES_MAX
        self.size_bytes_max = size_bytes_max
        """The largest frame that is accepted; may be raised once a peer is known."""
        self._held = bytearray()
        self._need_bytes = 0  # of the unfinished frame; 0 while its size is not known

    @property
    def held_size_bytes(self) -> int:
        """How much of an unfinished frame is held."""
        return len(self._held)

    @property
    def need_size_bytes(self) -> int:
        """How large the unfinished frame will be; 0 while that is not known, or there is none."""
        return self._need_bytes

    def feed(self, data: bytes) -> list[Buffer]:
        """Take the next piece of the stream; returns the frames that are complete now, without their sizes.

        Frames may be views of ``data``, which is therefore `bytes` and never a buffer that is filled again.

        Errors: ProtocolError when a size is not positive or above ``size_bytes_max``.
        """
        frames: list[Buffer] = []
        position = self._resume(data, frames)
        end = len(data)
        while end - position >= SIZE_PREFIX_SIZE_BYTES:
            size_bytes = self._check_size(data, position)
            position += SIZE_PREFIX_SIZE_BYTES
            if size_bytes > end - position:
                self._need_bytes = size_bytes
                break
            stop = position + size_bytes
            if size_bytes < VIEW_SIZE_BYTES_MIN:
                frames.append(data[position:stop])
            else:
                frames.append(memoryview(data)[position:stop])
            position = stop
        if position < end:
            self._held += memoryview(data)[position:]
        return frames

    def _resume(self, data: bytes, frames: list[Buffer]) -> int:
        """Go on with what is held; returns the position in ``data`` from which on nothing is held."""
        position = 0
        if not self._need_bytes:
            if not self._held:
                return 0
            position = SIZE_PREFIX_SIZE_BYTES - len(self._held)
            self._held += data[:position]
            if len(self._held) < SIZE_PREFIX_SIZE_BYTES:
                return len(data)
            self._need_bytes = self._check_size(self._held, 0)
            self._held = bytearray()
        stop = position + self._need_bytes - len(self._held)
        self._held += memoryview(data)[position:stop]
        if len(self._held) < self._need_bytes:
            return len(data)
        small = self._need_bytes < VIEW_SIZE_BYTES_MIN
        frames.append(bytes(self._held) if small else memoryview(self._held).toreadonly())
        self._held = bytearray()
        self._need_bytes = 0
        return stop

    def _check_size(self, data: Buffer, position: int) -> int:
        (size_bytes,) = _SIZE.unpack_from(data, position)
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
