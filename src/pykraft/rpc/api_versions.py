"""ApiVersions: what this node offers, and which version to use with a peer.

The host negotiates versions; the core asks only which levels of kraft.version a joining voter supports. Features whose
lowest level is 0, such as kraft.version, appear only from version 4 on, since older clients cannot read them
(KAFKA-17011).

Source: KIP-35, KIP-511, KIP-584; Kafka's ApiVersionsResponse and NodeApiVersions.
"""

from collections.abc import Mapping
from typing import TypeAlias

from pykraft import __version__
from pykraft.core.messages import ApiVersionsRequest, ApiVersionsResponse
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.messages import APIS, ApiKey
from pykraft.protocol.schema import Body, Versions
from pykraft.rpc.context import RpcContext
from pykraft.types import VersionRange

SOFTWARE_NAME = "pykraft"
FEATURES_VERSION = 3
FEATURES_FROM_ZERO_VERSION = 4
KRAFT_VERSION_FEATURE = "kraft.version"

Served: TypeAlias = Mapping[int, Versions] | Mapping[ApiKey, Versions]
"""The versions of each API that a listener serves."""


def request_to_wire(software_version: str) -> Body:
    """The body of a request; the software version has letters, digits, dots and hyphens only."""
    return {"client_software_name": SOFTWARE_NAME, "client_software_version": software_version}


def question_to_wire(message: ApiVersionsRequest, _version: int, context: RpcContext) -> Body:
    """The body of the core's request; versions before 5 cannot name the node."""
    return {**request_to_wire(__version__), "cluster_id": context.cluster_id, "node_id": message.node_id}


def answer_from_wire(body: Body, _context: RpcContext) -> ApiVersionsResponse:
    """The levels of kraft.version that a peer supports, for the core."""
    levels = (
        VersionRange(one["min_version"], one["max_version"])
        for one in body["supported_features"]
        if one["name"] == KRAFT_VERSION_FEATURE
    )
    return ApiVersionsResponse(error=body["error_code"], kraft_version=next(levels, None))


def response_to_wire(version: int, served: Served, kraft_version: VersionRange | None, level: int = 0) -> Body:
    """The body of an answer: the APIs that a listener serves, the levels of kraft.version, and the finalized one.

    ``kraft_version`` is None for a node that must never become a voter: a leader adds no node that does not name its
    levels.
    """
    body: Body = {"api_keys": api_key_bodies(served)}
    if kraft_version is None:
        return body
    # Older clients cannot read a feature whose lowest level is 0 (KAFKA-17011).
    if version >= FEATURES_FROM_ZERO_VERSION or kraft_version.min_version > 0:
        low, high = kraft_version.min_version, kraft_version.max_version
        body["supported_features"] = [{"name": KRAFT_VERSION_FEATURE, "min_version": low, "max_version": high}]
    if level > 0 and version >= FEATURES_VERSION:
        found = {"name": KRAFT_VERSION_FEATURE, "min_version_level": level, "max_version_level": level}
        body["finalized_features"] = [found]
    return body


def api_key_bodies(served: Served) -> list[Body]:
    return [
        {"api_key": int(key), "min_version": versions.min, "max_version": versions.max}
        for key, versions in sorted(served.items())
    ]


def response_from_wire(body: Body) -> dict[int, Versions]:
    """The versions of each API that a peer offers.

    Errors: ProtocolError when the peer answers with an error: we have no version of ApiVersions in common.
    """
    if body["error_code"]:
        raise ProtocolError(f"ApiVersions was answered with error {body['error_code']}", ErrorCode.UNSUPPORTED_VERSION)
    return {one["api_key"]: Versions(one["min_version"], one["max_version"]) for one in body["api_keys"]}


def common_version(api_key: ApiKey, offered: Mapping[int, Versions]) -> int:
    """The highest version of an API that both sides support.

    Errors: ProtocolError with UNSUPPORTED_VERSION when there is none.
    """
    ours = APIS[api_key].request.versions
    theirs = offered.get(api_key)
    if theirs is None or theirs.max < ours.min or ours.max < theirs.min:
        text = f"no common version of {api_key.name}: ours are {ours}, the peer's {theirs or 'none'}"
        raise ProtocolError(text, ErrorCode.UNSUPPORTED_VERSION)
    return min(ours.max, theirs.max)
