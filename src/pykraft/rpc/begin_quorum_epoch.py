"""BeginQuorumEpoch between core and wire.

Version 0 carries neither the voter nor the endpoints: the encoder drops them.

Source: KIP-595 §BeginQuorumEpoch, KIP-853; Kafka's RaftUtil.
"""

from functools import partial

from pykraft.core.messages import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from pykraft.protocol.schema import Body
from pykraft.rpc import parts
from pykraft.rpc.context import Refusal, RpcContext
from pykraft.types import Epoch, NodeId


def request_to_wire(message: BeginQuorumEpochRequest, _version: int, context: RpcContext) -> Body:
    partition = {
        "voter_directory_id": parts.wire_directory(message.voter),
        "leader_id": message.leader_id,
        "leader_epoch": message.epoch,
    }
    return {
        "cluster_id": context.cluster_id,
        "voter_id": parts.wire_id(message.voter.id if message.voter else None),
        "topics": parts.topics_of(context, partition),
        "leader_endpoints": parts.endpoint_bodies(message.listeners),
    }


def request_from_wire(body: Body, context: RpcContext) -> BeginQuorumEpochRequest | Refusal:
    """A request for the core, or INCONSISTENT_CLUSTER_ID or INVALID_REQUEST above the partition."""
    partition = parts.open_request(body, context)
    if isinstance(partition, Refusal):
        return partition
    return BeginQuorumEpochRequest(
        epoch=Epoch(partition["leader_epoch"]),
        leader_id=NodeId(partition["leader_id"]),
        voter=parts.optional_replica_key(body["voter_id"], partition["voter_directory_id"]),
        listeners=parts.listeners_of(body["leader_endpoints"]),
    )


response_to_wire = parts.answer_body
response_from_wire = partial(parts.answer_of, BeginQuorumEpochResponse)
