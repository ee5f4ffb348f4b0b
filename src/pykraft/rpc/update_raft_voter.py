"""UpdateRaftVoter between core and wire.

The answer has one error and no partition; one struct names the leader and its endpoint.

Source: KIP-853 §UpdateRaftVoter; Kafka's RaftUtil.
"""

from pykraft.core.messages import UpdateVoterRequest, UpdateVoterResponse
from pykraft.errors import ErrorCode
from pykraft.protocol.schema import Body
from pykraft.rpc import parts
from pykraft.rpc.context import RpcContext
from pykraft.types import NO_LISTENERS, Epoch, VersionRange


def request_to_wire(message: UpdateVoterRequest, _version: int, context: RpcContext) -> Body:
    return {
        "cluster_id": context.cluster_id,
        "current_leader_epoch": message.epoch,
        "voter_id": message.voter.id,
        "voter_directory_id": parts.wire_directory(message.voter),
        "listeners": parts.endpoint_bodies(message.listeners),
        "kraft_version_feature": {
            "min_supported_version": message.kraft_version.min_version,
            "max_supported_version": message.kraft_version.max_version,
        },
    }


def request_from_wire(body: Body, context: RpcContext) -> UpdateVoterRequest:
    """A request for the core, which refuses that of another cluster: the answer names the leader."""
    feature = body["kraft_version_feature"]
    refusal = parts.wrong_cluster(body, context)
    return UpdateVoterRequest(
        epoch=Epoch(body["current_leader_epoch"]),
        voter=parts.replica_key(body["voter_id"], body["voter_directory_id"]),
        listeners=parts.listeners_of(body["listeners"]),
        kraft_version=VersionRange(feature["min_supported_version"], feature["max_supported_version"]),
        error=refusal.error if refusal else ErrorCode.NONE,
    )


def response_to_wire(message: UpdateVoterResponse, _version: int, _context: RpcContext) -> Body:
    """The body of an answer; host and port stay empty if the leader's endpoint is unknown."""
    leader: Body = {"leader_id": parts.wire_id(message.leader_id), "leader_epoch": message.epoch}
    for endpoint in parts.node_endpoint_bodies(message.leader_id, message.listeners):
        leader["host"] = endpoint["host"]
        leader["port"] = endpoint["port"]
    return {"error_code": message.error, "current_leader": leader}


def response_from_wire(body: Body, context: RpcContext) -> UpdateVoterResponse:
    leader = body["current_leader"]
    leader_id = parts.node_id_of(leader["leader_id"])
    return UpdateVoterResponse(
        error=body["error_code"],
        epoch=Epoch(leader["leader_epoch"]),
        leader_id=leader_id,
        listeners=parts.named_endpoint(leader, context) if leader_id is not None else NO_LISTENERS,
    )
