"""DescribeCluster, which Kafka's tools ask a controller before anything else.

A pure function from request body to answer body; the core is not involved. Invariant: an answer without an error names
a leader and its endpoint. The error for want of a leader lists the voters all the same.

Source: KIP-700, KIP-919 (endpoint types); Kafka's ``AuthHelper.computeDescribeClusterResponse``.
"""

from collections.abc import Mapping
from typing import Final

from pykraft.core.status import Status
from pykraft.errors import ErrorCode
from pykraft.protocol.schema import Body
from pykraft.types import Endpoint, Listeners, NodeId

CONTROLLERS: Final = 2
"""The endpoint type by which a client asks for controllers."""
_ENDPOINT_TYPES: Final = {1: "BROKER", CONTROLLERS: "CONTROLLER"}


def describe_cluster(
    request: Body, *, cluster_id: str, listener: str, status: Status, own_problem: str | None = None
) -> Body:
    """The nodes reachable on this listener, for ``--bootstrap-controller`` of Kafka's tools: the voters and the leader.

    ``own_problem``, what keeps this node from voting, is in the error message, also beside a leader without an error:
    Kafka's clients do not look at it there (ADR 024).

    Errors: MISMATCHED_ENDPOINT_TYPE for a request for brokers, since there are none; LEADER_NOT_AVAILABLE without a
    leader.
    """
    wanted: int = request.get("endpoint_type", 1)
    if wanted != CONTROLLERS:
        known = _ENDPOINT_TYPES.get(wanted)
        text = f"this is a CONTROLLER endpoint, the request asks for {known}" if known else f"unknown type {wanted}"
        error = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        return _refusal(error, text, wanted, cluster_id)
    told = {voter.key.id: voter.listeners for voter in status.voters.voters}
    if status.serving_leader is None:
        # Kafka's admin client caches an answer for five minutes, and without a leader it asks nobody, so that the tool
        # hangs. After an error it asks another node.
        # Kafka's client looks at nothing but the error then; ours says which of the voters are missing.
        text = "it knows no leader" if own_problem is None else f"it knows no leader, and {own_problem}"
        refusal = _refusal(ErrorCode.LEADER_NOT_AVAILABLE, text, wanted, cluster_id)
        return {**refusal, "brokers": _rows(_reached(told, listener))}
    leader_id, listeners = status.serving_leader
    # A leader that is removing itself is not in the voter set. The leader's own endpoint wins, because its entry may be
    # older than its last move.
    if listeners.get(listener) is not None or leader_id not in told:
        told[leader_id] = listeners
    reached = _reached(told, listener)
    if leader_id not in reached:
        text = f"it does not know the address of its leader, node {leader_id}, on listener {listener}"
        return _refusal(ErrorCode.LEADER_NOT_AVAILABLE, text, wanted, cluster_id)
    return {
        "error_code": ErrorCode.NONE,
        "error_message": own_problem,
        "endpoint_type": CONTROLLERS,
        "cluster_id": cluster_id,
        "controller_id": leader_id,
        "brokers": _rows(reached),
    }


def _reached(nodes: Mapping[NodeId, Listeners], listener: str) -> dict[NodeId, Endpoint]:
    return {node_id: endpoint for node_id, each in nodes.items() if (endpoint := each.get(listener)) is not None}


def _rows(nodes: Mapping[NodeId, Endpoint]) -> list[Body]:
    return [{"broker_id": node_id, "host": endpoint.host, "port": endpoint.port} for node_id, endpoint in nodes.items()]


def _refusal(error: ErrorCode, text: str, endpoint_type: int, cluster_id: str) -> Body:
    return {"error_code": error, "error_message": text, "endpoint_type": endpoint_type, "cluster_id": cluster_id}
