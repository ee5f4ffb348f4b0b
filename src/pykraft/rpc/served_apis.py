"""Which APIs each listener serves, in which versions, and what ApiVersions says of them.

Every listener serves the RPCs of replicas. `OPERATOR_KEYS` are for some listeners only, the APIs of Kafka's clients for
those that the configuration names, and Forward for those that voters dial. A voter among Kafka's
controllers also names what brokers ask the active controller, and refuses it (`pykraft.rpc.not_controller`).

Source: KIP-511, KIP-919, KIP-1242; Kafka 4.4's ``KafkaApis.handleApiVersionsRequest``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.api import RequestHeader, decode_request_body, encode_response, encode_unsupported_version
from pykraft.protocol.messages import API_VERSIONS, CLIENT_VERSIONS, FORWARD_VERSIONS, ApiKey
from pykraft.protocol.schema import Versions
from pykraft.rpc import api_versions, not_controller
from pykraft.types import Buffer, VersionRange

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
        refused = not_controller.SERVED if refuses_controller_requests else {}
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
        return [not_controller.answer(header.api_key, header.correlation_id)]

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
