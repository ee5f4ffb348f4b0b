"""Who is in the cluster: DescribeCluster, which Kafka's tools ask a controller before anything else.

A pure function from a request's body to an answer's body; the core has no part in it.

Source: KIP-700, KIP-919 (endpoint types); Kafka's ``AuthHelper.computeDescribeClusterResponse``.
"""

from __future__ import annotations

from typing import Final

from pykraft.errors import ErrorCode
from pykraft.protocol.schema import Body
from pykraft.types import NodeId, VoterSet

_CONTROLLERS: Final = 2
_ENDPOINT_TYPES: Final = {1: "BROKER", _CONTROLLERS: "CONTROLLER"}
_MISMATCHED_ENDPOINT_TYPE: Final = 114
_UNSUPPORTED_ENDPOINT_TYPE: Final = 115


def describe_cluster(
    request: Body, *, cluster_id: str, listener: str, leader_id: NodeId | None, voters: VoterSet
) -> Body:
    """The voters that are reached on this listener, for ``--bootstrap-controller`` of Kafka's tools.

    Who asks for brokers gets MISMATCHED_ENDPOINT_TYPE: there are none.
    """
    wanted: int = request.get("endpoint_type", 1)
    if wanted != _CONTROLLERS:
        known = _ENDPOINT_TYPES.get(wanted)
        text = f"this is a CONTROLLER endpoint, the request asks for {known}" if known else f"unknown type {wanted}"
        error = _MISMATCHED_ENDPOINT_TYPE if known else _UNSUPPORTED_ENDPOINT_TYPE
        return {"error_code": error, "error_message": text, "endpoint_type": wanted, "cluster_id": cluster_id}
    reached = ((voter.key.id, voter.listeners.get(listener)) for voter in voters.voters)
    return {
        "error_code": ErrorCode.NONE,
        "endpoint_type": _CONTROLLERS,
        "cluster_id": cluster_id,
        "controller_id": -1 if leader_id is None else leader_id,
        "brokers": [
            {"broker_id": node_id, "host": endpoint.host, "port": endpoint.port}
            for node_id, endpoint in reached
            if endpoint is not None
        ],
    }
