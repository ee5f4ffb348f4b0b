"""The answering end of one connection: requests for the core as messages, and its answers as bytes.

`pykraft.rpc.connection` is the asking end. Invariant: it reads and writes what `pykraft.rpc.codec` does. Fetches that
repeat, and their answers, take the shorter way of `pykraft.rpc.fetch_template`.

Source: ADR 071.
"""

from collections.abc import Collection, Sequence
from typing import Final

from pykraft.core.messages import FetchRequest, Request, Response
from pykraft.protocol.api import RequestHeader
from pykraft.rpc import codec
from pykraft.rpc.context import Refusal, RpcContext
from pykraft.rpc.fetch_template import AnswerWriter, RequestReader
from pykraft.types import Buffer

ANSWERED_KEYS: Final[Collection[int]] = codec.RPCS.keys()
"""The APIs that the core answers."""


class AcceptedConnection:
    """Create it when the connection is accepted."""

    def __init__(self, context: RpcContext) -> None:
        self._context = context
        self._fetches = RequestReader()
        self._answers = AnswerWriter()

    def repeated(self, data: Buffer) -> tuple[RequestHeader, Request] | None:
        """Read a Fetch that is like earlier ones for the core on this connection; None for any other frame."""
        return self._fetches.read(data)

    def decode(self, header: RequestHeader, data: Buffer) -> Request | Refusal:
        """Read a request of `ANSWERED_KEYS`; see `pykraft.rpc.codec.decode_request`. Errors: ProtocolError."""
        message = codec.decode_request(header, data, self._context)
        if isinstance(message, FetchRequest):
            self._fetches.missed(data, header, message, self._context)
        return message

    def encode(self, header: RequestHeader, answer: Response | Refusal, records: Sequence[Buffer] = ()) -> list[Buffer]:
        """Write the answer to the request with this header; ``records`` only for Fetch and FetchSnapshot."""
        found = None if isinstance(answer, Refusal) else self._answers.write(header, answer, records, self._context)
        return found or codec.encode_answer(header, answer, self._context, records)
