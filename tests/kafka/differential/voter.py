"""A voter that a test plays: it holds each request of the node under test until the test says what to answer.

It has a listening socket and a thread for each connection. Invariant: it holds requests in the order in which they
came, and answers each at most once. It answers only ApiVersions by itself.
"""

import socket
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Any, Final

from pykraft.local.voters import HOST
from pykraft.protocol.api import decode_request_body, decode_request_header, encode_response, frame
from pykraft.protocol.messages import ApiKey

VERSIONS: Final[Mapping[ApiKey, tuple[int, int]]] = {
    ApiKey.FETCH: (4, 17),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.VOTE: (0, 2),
    ApiKey.BEGIN_QUORUM_EPOCH: (0, 1),
    ApiKey.END_QUORUM_EPOCH: (0, 1),
    ApiKey.DESCRIBE_QUORUM: (0, 2),
    ApiKey.FETCH_SNAPSHOT: (0, 1),
}
"""What a played voter speaks: the versions of Kafka 4.3."""


@dataclass(slots=True, kw_only=True, eq=False)
class Asked:
    """A request of the node's that waits for its answer."""

    connection: socket.socket
    api_key: ApiKey
    version: int
    correlation_id: int
    body: dict[str, Any]
    arrived_s: float
    is_gone: bool = field(default=False)
    """The node has closed the connection."""


class PlayedVoter:
    """One voter, at a port of its own."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._lock = Lock()
        self._asked: list[Asked] = []
        self._connections: list[socket.socket] = []
        self._listener = socket.create_server((HOST, port))
        Thread(target=self._accept, name=f"played voter at {port}", daemon=True).start()

    def asked(self) -> list[Asked]:
        """What waits for an answer, oldest first."""
        with self._lock:
            return [each for each in self._asked if not each.is_gone]

    def answer(self, asked: Asked, body: dict[str, Any]) -> None:
        """Answer a request; nothing happens when the node is gone."""
        with self._lock:
            if asked not in self._asked:
                return
            self._asked.remove(asked)
        self._send(asked, body)

    def forget(self) -> None:
        """Close all connections: the node has died, or is to be told nothing more."""
        with self._lock:
            connections, self._connections, self._asked = self._connections, [], []
        for connection in connections:
            _close(connection)

    def close(self) -> None:
        """End it."""
        _close(self._listener)
        self.forget()

    def _send(self, asked: Asked, body: dict[str, Any]) -> None:
        message = frame(encode_response(asked.api_key, asked.version, asked.correlation_id, body))
        with suppress(OSError):
            asked.connection.sendall(b"".join(message))

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._connections.append(connection)
            Thread(target=self._serve, args=(connection,), name="a connection of the node", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            while True:
                (size_bytes,) = struct.unpack(">i", exactly(connection, 4))
                self._take(connection, exactly(connection, size_bytes))
        except OSError:
            pass
        with self._lock:
            for each in self._asked:
                each.is_gone |= each.connection is connection
        _close(connection)

    def _take(self, connection: socket.socket, message: bytes) -> None:
        header = decode_request_header(message)
        asked = Asked(
            connection=connection,
            api_key=ApiKey(header.api_key),
            version=header.api_version,
            correlation_id=header.correlation_id,
            body=dict(decode_request_body(header, message)),
            arrived_s=time.monotonic(),
        )
        if asked.api_key == ApiKey.API_VERSIONS:
            keys = [
                {"api_key": int(key), "min_version": low, "max_version": high} for key, (low, high) in VERSIONS.items()
            ]
            self._send(asked, {"error_code": 0, "api_keys": keys})
            return
        with self._lock:
            self._asked.append(asked)


def exactly(connection: socket.socket, size_bytes: int) -> bytes:
    """So many bytes. Errors: ConnectionError when it is closed before; OSError."""
    data = bytearray()
    while len(data) < size_bytes:
        piece = connection.recv(size_bytes - len(data))
        if not piece:
            raise ConnectionError(f"closed after {len(data)} of {size_bytes} bytes")
        data += piece
    return bytes(data)


def _close(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
