"""Sends requests to a Kafka broker over one connection, written and read by kio, so that no tool's JVM has to start.

Every answer is searched for error codes, at any depth: what a test calls succeeds, or the test ends with the answer.

Source: Kafka protocol guide §Common Request and Response Structure, §SASL.
"""

import dataclasses
import io
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.serial import entity_reader, entity_writer

from pykraft.local.voters import HOST

TIMEOUT_S = 30.0


class BrokerCalls:
    """One connection to a broker."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._stream = connection.makefile("rb")
        self._sent = 0

    def call(self, request: Any) -> Any:
        """The answer to a request that must succeed. Errors: AssertionError with the answer."""
        answer = self.ask(request)
        assert succeeded(answer), answer
        return answer

    def ask(self, request: Any) -> Any:
        """The answer to a request, whatever it is."""
        self._sent += 1
        header = request.__header_schema__(
            request_api_key=request.__api_key__,
            request_api_version=request.__version__,
            correlation_id=self._sent,
            client_id="test",
        )
        frame = _written(header) + _written(request)
        self._connection.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self._stream.read(4))
        schema = load_response_schema(request.__api_key__, request.__version__)
        header_schema: Any = getattr(schema, "__header_schema__")  # noqa: B009 - the protocol of kio has no such name
        at = 4 + header_schema.__flexible__  # the correlation id, and no tagged fields
        answer, _ = entity_reader(schema)(self._stream.read(size), at)
        return answer

    def log_in(self, user: str, password: str) -> None:
        """Authenticate by SASL PLAIN."""
        self.call(SaslHandshakeRequest(mechanism="PLAIN"))
        self.call(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode()))


def requests_of(name: str) -> Any:
    """kio's module for the requests of an API and version, such as ``create_topics.v7``.

    Untyped: its types for numbers of few bits would need a call at every number.
    """
    return import_module(f"kio.schema.{name}.request")


@contextmanager
def broker_calls(port: int) -> Iterator[BrokerCalls]:
    """A connection to the broker at this port."""
    with socket.create_connection((HOST, port), TIMEOUT_S) as connection:
        yield BrokerCalls(connection)


def succeeded(answer: Any) -> bool:
    """Whether an answer has no error code but that of success, at any depth."""
    return all(code is ErrorCode.none for code in _error_codes(answer))


def listens(port: int) -> bool:
    """Whether something accepts connections at this port."""
    with suppress(OSError), socket.create_connection((HOST, port), TIMEOUT_S):
        return True
    return False


def _written(entity: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def _error_codes(value: Any) -> Iterator[ErrorCode]:
    if isinstance(value, ErrorCode):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from _error_codes(one)
    elif dataclasses.is_dataclass(value):
        for one in dataclasses.fields(value):
            yield from _error_codes(getattr(value, one.name))
