"""A blocking client for tests: sends bytes as they are, or a request, and reads the answer.

It uses one TCP connection and checks nothing, so tests can send it any wrong bytes.
"""

import socket
import ssl
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from pykraft.local.child import WAIT_TIMEOUT_S
from pykraft.local.voters import HOST
from pykraft.protocol.api import decode_response, encode_request, frame
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.security.sasl import SaslCredentials
from pykraft.server.sasl_client import SaslClient
from pykraft.types import Buffer

TIMEOUT_S = WAIT_TIMEOUT_S
CORRELATION_ID = 7


def request(api_key: ApiKey, version: int, body: Body) -> bytes:
    """The bytes of a request without its size."""
    return b"".join(encode_request(api_key, version, CORRELATION_ID, "test", body))


def framed(message: bytes) -> bytes:
    """A message with its size in front."""
    parts: Sequence[Buffer] = frame([message])
    return b"".join(parts)


class Wire:
    """One connection to a node on the loopback interface."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._socket = socket.create_connection((HOST, port), TIMEOUT_S)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=HOST)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()

    def wait_at_most(self, seconds: float) -> None:
        """How long to wait for whatever comes or goes from now on."""
        self._socket.settimeout(seconds)

    def send(self, data: bytes) -> None:
        """Send bytes. Errors: OSError when the node has closed the connection."""
        self._socket.sendall(data)

    def is_closed_by_peer(self) -> bool:
        """Wait for the end of the connection. Errors: TimeoutError when it stays open, AssertionError for an answer."""
        try:
            data = self._socket.recv(1)
        except ConnectionResetError:
            return True
        assert data == b"", "the node answered"
        return True

    def receive(self) -> bytes:
        """The next frame without its size. Errors: TimeoutError; ConnectionError when the node closes first."""
        (size_bytes,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size_bytes)

    def ask(self, api_key: ApiKey, version: int, body: Body) -> Body:
        """Send a request and read its answer."""
        self.send(framed(request(api_key, version, body)))
        correlation_id, answer = decode_response(api_key, version, self.receive())
        assert correlation_id == CORRELATION_ID
        return answer

    def prove(self, who: SaslCredentials) -> None:
        """Authenticate. Errors: AuthenticationError; OSError when the node closes the connection."""
        client = SaslClient(who)
        parts: list[Buffer] | None = client.begin()
        while parts:
            self.send(b"".join(parts))
            parts = client.receive(self.receive(), 0.0)

    def _exactly(self, size_bytes: int) -> bytes:
        data = bytearray()
        while len(data) < size_bytes:
            piece = self._socket.recv(size_bytes - len(data))
            if not piece:
                raise ConnectionError(f"the node closed the connection after {len(data)} of {size_bytes} bytes")
            data += piece
        return bytes(data)
