"""EndQuorumEpoch between core and wire.

Successors are ids in version 0 and replica keys from version 1 on. A body has both, and the encoder drops the one that
its version lacks.

Source: KIP-595 §EndQuorumEpoch, KIP-853; Kafka's RaftUtil.
"""

from functools import partial

from pykraft.core.messages import EndQuorumEpochRequest, EndQuorumEpochResponse
from pykraft.protocol.schema import Body
from pykraft.rpc import parts
from pykraft.rpc.context import Refusal, RpcContext
from pykraft.types import Epoch, NodeId, ReplicaKey


def request_to_wire(message: EndQuorumEpochRequest, _version: int, context: RpcContext) -> Body:
    partition = {
        "leader_id": message.leader_id,
        "leader_epoch": message.epoch,
        "preferred_successors": [key.id for key in message.successors],
        "preferred_candidates": [
            {"candidate_id": key.id, "candidate_directory_id": parts.wire_directory(key)} for key in message.successors
        ],
    }
    return {
        "cluster_id": context.cluster_id,
        "topics": parts.topics_of(context, partition),
        "leader_endpoints": parts.endpoint_bodies(message.listeners),
    }


def request_from_wire(body: Body, context: RpcContext) -> EndQuorumEpochRequest | Refusal:
    """A request for the core, or INCONSISTENT_CLUSTER_ID or INVALID_REQUEST above the partition."""
    partition = parts.open_request(body, context)
    if isinstance(partition, Refusal):
        return partition
    candidates = tuple(
        parts.replica_key(candidate["candidate_id"], candidate["candidate_directory_id"])
        for candidate in partition["preferred_candidates"]
    )
    return EndQuorumEpochRequest(
        epoch=Epoch(partition["leader_epoch"]),
        leader_id=NodeId(partition["leader_id"]),
        successors=candidates or tuple(ReplicaKey(NodeId(one)) for one in partition["preferred_successors"]),
        listeners=parts.listeners_of(body["leader_endpoints"]),
    )


response_to_wire = parts.answer_body
response_from_wire = partial(parts.answer_of, EndQuorumEpochResponse)
