"""AddRaftVoter between core and wire.

Source: KIP-853 §AddRaftVoter, KIP-1186; Kafka's RaftUtil.
"""

from pykraft.core.messages import AddVoterRequest, ChangeVoterResponse
from pykraft.protocol.schema import Body
from pykraft.rpc import parts
from pykraft.rpc.context import Refusal, RpcContext


def request_to_wire(message: AddVoterRequest, _version: int, context: RpcContext) -> Body:
    """The body of a request. The codec rejects one for version 0 that asks for an answer before the commit."""
    return {
        "cluster_id": context.cluster_id,
        "timeout_ms": message.timeout_ms,
        "voter_id": message.voter.id,
        "voter_directory_id": parts.wire_directory(message.voter),
        "listeners": parts.endpoint_bodies(message.listeners),
        "ack_when_committed": message.ack_when_committed,
    }


def request_from_wire(body: Body, context: RpcContext) -> AddVoterRequest | Refusal:
    """A request for the core, or INCONSISTENT_CLUSTER_ID."""
    return parts.wrong_cluster(body, context) or AddVoterRequest(
        voter=parts.replica_key(body["voter_id"], body["voter_directory_id"]),
        listeners=parts.listeners_of(body["listeners"]),
        timeout_ms=body["timeout_ms"],
        ack_when_committed=body["ack_when_committed"],
    )


def response_to_wire(message: ChangeVoterResponse, _version: int, _context: RpcContext) -> Body:
    return {"error_code": message.error, "error_message": message.error_message}


def response_from_wire(body: Body, _context: RpcContext) -> ChangeVoterResponse:
    return ChangeVoterResponse(error=body["error_code"], error_message=body["error_message"])
