"""Which APIs each listener serves, in which versions, and what ApiVersions says of them.

Every listener serves the RPCs of replicas. `OPERATOR_KEYS` are for some listeners only, the APIs of Kafka's clients for
those that the configuration names, and Forward for those that voters dial. A voter among Kafka's
controllers also names what brokers and controllers ask the active one, which they take the leader of the metadata log
for. A node of ours leads it for a moment at most, so it answers NOT_CONTROLLER, and the sender asks the next leader.
The node must name these APIs in its ApiVersions: a broker of Kafka 4.3.1 that misses one there fails the request, and
never looks for another controller again.

Invariant: nothing in such an answer depends on the request, so the request is not read and the answers are constants:
throttle time int32 but in Envelope, error int16, the default of each further field, no tagged fields.

Source: KIP-511, KIP-919, KIP-1242; Kafka 4.4's ``KafkaApis.handleApiVersionsRequest``; KIP-500, KIP-590 (Envelope),
KIP-631 (brokers), KIP-919 (controllers), KIP-858 (directories); Kafka's ``NodeToControllerRequestThread``, which
disconnects and repeats the request; seen with Kafka 4.3.1 (ADR 078).
"""

import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.api import RequestHeader, decode_request_body, encode_response, encode_unsupported_version
from pykraft.protocol.messages import API_VERSIONS, CLIENT_VERSIONS, FORWARD_VERSIONS, ApiKey
from pykraft.protocol.schema import Versions
from pykraft.rpc import api_versions
from pykraft.types import Buffer, VersionRange

_NO_TAGS: Final = b"\0"
_NULL: Final = b"\0"
_EMPTY_ARRAY: Final = b"\1"
_REFUSED: Final = struct.pack(">ih", 0, ErrorCode.NOT_CONTROLLER)
_HEADER: Final = struct.Struct(">i")


class ControllerApi(IntEnum):
    """APIs of Kafka's active controller that brokers and other controllers call by themselves."""

    ALTER_PARTITION = 56
    ENVELOPE = 58
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    ALLOCATE_PRODUCER_IDS = 67
    CONTROLLER_REGISTRATION = 70
    ASSIGN_REPLICAS_TO_DIRS = 73


@dataclass(frozen=True, slots=True)
class Constant:
    """The versions of an API, and the body of the answer in each of them."""

    versions: Versions
    body: bytes


ANSWERS: Final[Mapping[int, Constant]] = {
    ControllerApi.ALTER_PARTITION: Constant(Versions(2, 3), _REFUSED + _EMPTY_ARRAY + _NO_TAGS),
    ControllerApi.ENVELOPE: Constant(Versions(0, 0), _NULL + struct.pack(">h", ErrorCode.NOT_CONTROLLER) + _NO_TAGS),
    # Broker epoch -1.
    ControllerApi.BROKER_REGISTRATION: Constant(Versions(0, 4), _REFUSED + struct.pack(">q", -1) + _NO_TAGS),
    # Not caught up, fenced, not to shut down.
    ControllerApi.BROKER_HEARTBEAT: Constant(Versions(0, 2), _REFUSED + bytes((False, True, False)) + _NO_TAGS),
    # No ids: the first is 0, and there are 0.
    ControllerApi.ALLOCATE_PRODUCER_IDS: Constant(Versions(0, 0), _REFUSED + struct.pack(">qi", 0, 0) + _NO_TAGS),
    ControllerApi.CONTROLLER_REGISTRATION: Constant(Versions(0, 0), _REFUSED + _NULL + _NO_TAGS),
    ControllerApi.ASSIGN_REPLICAS_TO_DIRS: Constant(Versions(0, 0), _REFUSED + _EMPTY_ARRAY + _NO_TAGS),
}
SERVED: Final[Mapping[int, Versions]] = {key: constant.versions for key, constant in ANSWERS.items()}


def answer(api_key: int, correlation_id: int) -> bytes:
    """The whole answer to a request of one of these APIs: response header v1, and the body."""
    return _HEADER.pack(correlation_id) + _NO_TAGS + ANSWERS[api_key].body


OPERATOR_KEYS: Final = frozenset(
    {ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER, ApiKey.UPDATE_FEATURES, ApiKey.TRANSFER_LEADERSHIP}
)
"""APIs for operators and for a replica with auto-join; voters do not need them."""
_WITH_OPERATORS: Final[Mapping[int, Versions]] = {int(key): versions for key, versions in API_VERSIONS.items()}
_WITHOUT_OPERATORS: Final[Mapping[int, Versions]] = {
    key: versions for key, versions in _WITH_OPERATORS.items() if key not in OPERATOR_KEYS
}
_CLIENTS: Final[Mapping[int, Versions]] = {int(key): versions for key, versions in CLIENT_VERSIONS.items()}


class ServedApis:
    """The APIs of one node."""

    def __init__(  # noqa: PLR0913 - as of Inbound
        self,
        *,
        kraft_versions: VersionRange | None,
        kraft_version: Callable[[], int],
        operator_listeners: Collection[str] | None,
        client_listeners: Collection[str],
        cluster_id: str | None = None,
        node_id: int = -1,
        refuses_controller_requests: bool,
        forward_listeners: Collection[str] | None = None,
        serves_produce: bool = True,
    ) -> None:
        """See `pykraft.host.inbound.Inbound`; names of listeners are in upper case.

        Who means another cluster or node (KIP-1242) is told so.
        """
        self._identity = (cluster_id, node_id)
        self._kraft_versions = kraft_versions
        self._kraft_version = kraft_version
        self._operator_listeners = operator_listeners
        self._client_listeners = client_listeners
        self._forward_listeners = forward_listeners
        self._clients = {key: _CLIENTS[key] for key in _CLIENTS if key != ApiKey.PRODUCE or serves_produce}
        refused = SERVED if refuses_controller_requests else {}
        self._refused = refused.keys()
        self._with_operators = {**_WITH_OPERATORS, **refused}
        self._without_operators = {**_WITHOUT_OPERATORS, **refused}

    def on(self, listener: str, *, forwards: bool) -> Mapping[int, Versions]:
        """The APIs that a listener serves; ``forwards`` while a program has a state machine on this node."""
        name, operators = listener.upper(), self._operator_listeners
        served = self._with_operators if operators is None or name in operators else self._without_operators
        if forwards and (self._forward_listeners is None or name in self._forward_listeners):
            served = {**served, ApiKey.FORWARD: FORWARD_VERSIONS}
        return {**served, **self._clients} if name in self._client_listeners else served

    def refusal(self, header: RequestHeader) -> list[Buffer] | None:
        """The answer to a request for Kafka's active controller; None for any other request."""
        if header.api_key not in self._refused:
            return None
        return [answer(header.api_key, header.correlation_id)]

    def answer_api_versions(
        self, header: RequestHeader, data: Buffer, listener: str, *, forwards: bool
    ) -> tuple[list[Buffer], str | None]:
        """The APIs that a listener serves, as `on` has them, and what the client calls itself, if it says so.

        In version 0 if the client's version is unknown. As on Kafka's brokers, a client that names a cluster and means
        another cluster or node gets REBOOTSTRAP_REQUIRED alone. Kafka's controllers do not compare; ours do where a
        node is named, since a leader must not take a voter's address at which another node listens.
        """
        served = self.on(listener, forwards=forwards)
        software: str | None = None
        if header.api_version not in API_VERSIONS[ApiKey.API_VERSIONS]:
            return encode_unsupported_version(header.correlation_id, served.items()), software
        levels, level = self._kraft_versions, self._kraft_version()
        body = api_versions.response_to_wire(header.api_version, served, levels, level)
        try:
            asked = decode_request_body(header, data)
        except ProtocolError:
            body["error_code"] = ErrorCode.INVALID_REQUEST
        else:
            software = asked["client_software_name"] or None
            is_meant = asked["cluster_id"] is None or (asked["cluster_id"], asked["node_id"]) == self._identity
            if not is_meant and (listener.upper() in self._client_listeners or asked["node_id"] >= 0):
                body = {"error_code": ErrorCode.REBOOTSTRAP_REQUIRED}
        return encode_response(ApiKey.API_VERSIONS, header.api_version, header.correlation_id, body), software
