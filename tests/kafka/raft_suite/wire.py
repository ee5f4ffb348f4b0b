"""Messages between the Java shim and the Python process: what `java.io.DataOutput` writes, in frames.

    frame     length int32, then that many bytes
    values    int8, int32 and int64 in big endian; text and bytes with an int32 length; lists with an int32 count

The shim sends one call and reads effects until the one that ends the call. Only a draw of a random number is answered
within a call. Invariant: a frame is used up by its reader.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from enum import IntEnum
from socket import MSG_WAITALL, socket
from typing import Final, TypeVar

from pykraft.types import Buffer, Endpoint, Listeners, Uuid

T = TypeVar("T")
NONE: Final = -1
"""An id, offset or time that is not there."""


class Call(IntEnum):
    """What the shim asks for."""

    OPEN = 1
    POLL = 2
    REQUEST = 3
    RESPONSE = 4
    REGISTER = 5
    UNREGISTER = 6
    RELEASE = 7
    PROPOSE = 8
    SCHEDULE = 9
    RESIGN = 10
    SHUTDOWN = 11
    UPGRADE = 12
    SNAPSHOT = 13
    SNAPSHOT_APPEND = 14
    SNAPSHOT_FREEZE = 15
    SNAPSHOT_CLOSE = 16
    METRICS = 17
    CLOSE = 18


class Did(IntEnum):
    """What the node did, and the shim mirrors."""

    DONE = 0
    FAILED = 1
    DRAW = 2
    APPEND = 3
    FLUSH = 4
    TRUNCATE = 5
    HIGH_WATERMARK = 6
    ELECTION = 7
    KEEP_SNAPSHOT = 8
    TRUNCATE_TO_SNAPSHOT = 9
    LOG_START = 10
    SEND = 11
    ANSWER = 12
    COMMIT = 13
    LEADER = 14
    LOAD = 15
    STOPPED = 16
    APPEND_AS_LEADER = 17


class Reader:
    """The values of one frame, in order."""

    def __init__(self, frame: bytes) -> None:
        self._frame = frame
        self._at = 0

    def _take(self, form: struct.Struct) -> int:
        (found,) = form.unpack_from(self._frame, self._at)
        self._at += form.size
        return int(found)

    def byte(self) -> int:
        return self._take(_BYTE)

    def flag(self) -> bool:
        return bool(self.byte())

    def int32(self) -> int:
        return self._take(_INT)

    def int64(self) -> int:
        return self._take(_LONG)

    def blob(self) -> bytes:
        size_bytes = self.int32()
        self._at += size_bytes
        return self._frame[self._at - size_bytes : self._at]

    def text(self) -> str:
        return self.blob().decode()

    def uuid(self) -> Uuid:
        return Uuid(self.blob())

    def many(self, read: Callable[[], T]) -> list[T]:
        return [read() for _ in range(self.int32())]

    def endpoint(self) -> Endpoint:
        return Endpoint(self.text(), self.int32())

    def listeners(self) -> Listeners:
        return Listeners(tuple(self.many(lambda: (self.text().upper(), self.endpoint()))))


class Writer:
    """Writes one frame; every method returns the writer."""

    def __init__(self, did: Did) -> None:
        self._parts: list[Buffer] = [_BYTE.pack(did)]

    def flag(self, value: object) -> Writer:
        self._parts.append(_BYTE.pack(bool(value)))
        return self

    def code(self, value: int) -> Writer:
        self._parts.append(_BYTE.pack(value))
        return self

    def int32(self, *values: int | None) -> Writer:
        self._parts += [_INT.pack(NONE if value is None else value) for value in values]
        return self

    def int64(self, *values: int | None) -> Writer:
        self._parts += [_LONG.pack(NONE if value is None else value) for value in values]
        return self

    def double(self, value: float) -> Writer:
        self._parts.append(struct.pack(">d", value))
        return self

    def blob(self, value: Buffer) -> Writer:
        self._parts += [_INT.pack(len(value)), value]
        return self

    def text(self, value: str) -> Writer:
        return self.blob(value.encode())

    def listeners(self, listeners: Listeners) -> Writer:
        self.int32(len(listeners))
        for name, endpoint in listeners:
            self.text(name).text(endpoint.host).int32(endpoint.port)
        return self

    def frame(self) -> bytes:
        body = b"".join(self._parts)
        return _INT.pack(len(body)) + body


class Link:
    """The connection to the shim."""

    def __init__(self, connection: socket) -> None:
        self._connection = connection
        self._waiting: list[bytes] = []

    def read(self) -> Reader | None:
        """The next frame; None when the shim has gone."""
        self._flush()
        head = self._connection.recv(4, MSG_WAITALL)
        if len(head) < _INT.size:
            return None
        (size_bytes,) = _INT.unpack(head)
        return Reader(self._connection.recv(size_bytes, MSG_WAITALL))

    def write(self, writer: Writer) -> None:
        """Send this frame with those before it, at the latest before the next one is read."""
        self._waiting.append(writer.frame())

    def draw(self, bound: int) -> int:
        """A random number below the bound, from the test's generator."""
        self.write(Writer(Did.DRAW).int32(bound))
        reader = self.read()
        assert reader is not None, "the shim answers a draw"
        return reader.int32()

    def _flush(self) -> None:
        frames, self._waiting = self._waiting, []
        if frames:
            self._connection.sendall(b"".join(frames))


def write_each(writer: Writer, values: Iterable[T], write: Callable[[T], object]) -> Writer:
    """A list: its count, and each value by ``write``."""
    kept = list(values)
    writer.int32(len(kept))
    for value in kept:
        write(value)
    return writer


_BYTE: Final = struct.Struct(">b")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
