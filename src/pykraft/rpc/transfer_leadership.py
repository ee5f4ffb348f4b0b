"""TransferLeadership between core and wire; pykraft's own.

Source: Raft dissertation §3.10.
"""

from pykraft.core.messages import TransferLeadershipRequest, TransferLeadershipResponse
from pykraft.protocol.schema import Body
from pykraft.rpc import parts
from pykraft.rpc.context import Refusal, RpcContext
from pykraft.types import Epoch, NodeId


def request_to_wire(message: TransferLeadershipRequest, _version: int, context: RpcContext) -> Body:
    return {"cluster_id": context.cluster_id, "target_id": message.target_id, "timeout_ms": message.timeout_ms}


def request_from_wire(body: Body, context: RpcContext) -> TransferLeadershipRequest | Refusal:
    """A request for the core, or INCONSISTENT_CLUSTER_ID."""
    return parts.wrong_cluster(body, context) or TransferLeadershipRequest(
        target_id=NodeId(body["target_id"]), timeout_ms=body["timeout_ms"]
    )


def response_to_wire(message: TransferLeadershipResponse, _version: int, _context: RpcContext) -> Body:
    return {
        "error_code": message.error,
        "error_message": message.error_message,
        "leader_id": parts.wire_id(message.leader_id),
        "leader_epoch": message.epoch,
    }


def response_from_wire(body: Body, _context: RpcContext) -> TransferLeadershipResponse:
    return TransferLeadershipResponse(
        error=body["error_code"],
        error_message=body["error_message"],
        leader_id=parts.node_id_of(body["leader_id"]),
        epoch=Epoch(body["leader_epoch"]),
    )
