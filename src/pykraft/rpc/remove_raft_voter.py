"""RemoveRaftVoter between core and wire.

Source: KIP-853 §RemoveRaftVoter; Kafka's RaftUtil.
"""

from pykraft.core.messages import RemoveVoterRequest
from pykraft.protocol.schema import Body
from pykraft.rpc import parts
from pykraft.rpc.add_raft_voter import response_from_wire, response_to_wire
from pykraft.rpc.context import Refusal, RpcContext

__all__ = ["request_from_wire", "request_to_wire", "response_from_wire", "response_to_wire"]


def request_to_wire(message: RemoveVoterRequest, _version: int, context: RpcContext) -> Body:
    return {
        "cluster_id": context.cluster_id,
        "voter_id": message.voter.id,
        "voter_directory_id": parts.wire_directory(message.voter),
    }


def request_from_wire(body: Body, context: RpcContext) -> RemoveVoterRequest | Refusal:
    """A request for the core, or INCONSISTENT_CLUSTER_ID."""
    voter = parts.replica_key(body["voter_id"], body["voter_directory_id"])
    return parts.wrong_cluster(body, context) or RemoveVoterRequest(voter=voter)
