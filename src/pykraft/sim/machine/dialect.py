"""A node that runs an older release: it offers, and uses, only the API versions of that release.

A `Negotiation` lowers the versions in the ApiVersions answers of one process, in both directions: in its own answers,
so that others send it old versions, and in the answers it receives, so that it sends old versions itself. All other
frames pass unchanged. An old node sends no pre-votes, because its Vote has none; a candidate that wants a pre-vote from
it has to campaign at once.

Source: KIP-35, KIP-996; versions as Kafka 3.8 and 3.9 have them in their message definitions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pykraft.errors import ProtocolError
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import decode_response, encode_response
from pykraft.protocol.api import frame as framed
from pykraft.protocol.messages import APIS, ApiKey
from pykraft.types import Buffer

_API_VERSIONS_BYTES: Final = ApiKey.API_VERSIONS.to_bytes(2, "big")
_LENGTH_SIZE_BYTES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The highest version of each API that a release has; for an API not named here, ours."""

    name: str
    highest: Mapping[ApiKey, int]


KAFKA_3_9: Final = Dialect(
    name="Kafka 3.9",
    highest={
        ApiKey.VOTE: 1,
        ApiKey.BEGIN_QUORUM_EPOCH: 1,
        ApiKey.END_QUORUM_EPOCH: 1,
        ApiKey.FETCH: 17,
        ApiKey.FETCH_SNAPSHOT: 1,
    },
)
KAFKA_3_8: Final = Dialect(
    name="Kafka 3.8",
    highest={
        ApiKey.VOTE: 0,
        ApiKey.BEGIN_QUORUM_EPOCH: 0,
        ApiKey.END_QUORUM_EPOCH: 0,
        ApiKey.FETCH: 16,
        ApiKey.FETCH_SNAPSHOT: 0,
    },
)


class Negotiation:
    """Rewrites ApiVersions answers on all connections of one process that speaks a dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._asked: dict[ConnectionId, int] = {}
        """Connections whose next answer is one to ApiVersions, with its version; the process asked, or was asked."""

    def sent(self, connection: ConnectionId, parts: Sequence[Buffer]) -> Sequence[Buffer]:
        """The frame to send instead of this one, including its length."""
        frame = b"".join(parts)[_LENGTH_SIZE_BYTES:]
        if connection in self._asked:
            return framed(self._cut_down(frame, self._asked.pop(connection)))
        self._note(connection, frame)
        return parts

    def received(self, connection: ConnectionId, frame: bytes) -> bytes:
        """The frame to deliver instead of this one."""
        if connection in self._asked:
            return b"".join(self._cut_down(frame, self._asked.pop(connection)))
        self._note(connection, frame)
        return frame

    def _note(self, connection: ConnectionId, frame: bytes) -> None:
        if frame.startswith(_API_VERSIONS_BYTES):
            version = int.from_bytes(frame[2:4], "big")
            # A version that nobody knows, as after a flipped bit, is answered in version 0.
            self._asked[connection] = version if version in APIS[ApiKey.API_VERSIONS].response.versions else 0

    def _cut_down(self, frame: bytes, version: int) -> list[Buffer]:
        try:
            correlation_id, body = decode_response(ApiKey.API_VERSIONS, version, frame)
        except ProtocolError:
            # A bit of the question flipped on its way, so the answer is one to another version.
            return [frame]
        for one in body["api_keys"]:
            one["max_version"] = min(one["max_version"], self._dialect.highest.get(one["api_key"], one["max_version"]))
        return encode_response(ApiKey.API_VERSIONS, version, correlation_id, body)
