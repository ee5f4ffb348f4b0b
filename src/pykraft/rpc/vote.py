"""Vote and PreVote between core and wire.

On the wire -1 and zero mean that the request names no voter. The encoder refuses a pre-vote below version 2 with
UNSUPPORTED_VERSION: the sender must request a standard vote from that peer instead (KIP-996).

Source: KIP-595 §Vote, KIP-853, KIP-996; Kafka's RaftUtil.
"""

from pykraft.core.messages import TopLevelError, VoteRequest, VoteResponse
from pykraft.protocol.schema import Body
from pykraft.rpc import parts
from pykraft.rpc.context import Refusal, RpcContext
from pykraft.types import Epoch, Offset, OffsetAndEpoch


def request_to_wire(message: VoteRequest, _version: int, context: RpcContext) -> Body:
    partition = {
        "replica_epoch": message.epoch,
        "replica_id": message.candidate.id,
        "replica_directory_id": parts.wire_directory(message.candidate),
        "voter_directory_id": parts.wire_directory(message.voter),
        "last_offset_epoch": message.last.epoch,
        "last_offset": message.last.offset,
        "pre_vote": message.pre_vote,
    }
    voter_id = parts.wire_id(message.voter.id if message.voter else None)
    return {"cluster_id": context.cluster_id, "voter_id": voter_id, "topics": parts.topics_of(context, partition)}


def request_from_wire(body: Body, context: RpcContext) -> VoteRequest | Refusal:
    """A request for the core, or INCONSISTENT_CLUSTER_ID or INVALID_REQUEST above the partition."""
    partition = parts.open_request(body, context)
    if isinstance(partition, Refusal):
        return partition
    return VoteRequest(
        epoch=Epoch(partition["replica_epoch"]),
        candidate=parts.replica_key(partition["replica_id"], partition["replica_directory_id"]),
        voter=parts.optional_replica_key(body["voter_id"], partition["voter_directory_id"]),
        last=OffsetAndEpoch(Offset(partition["last_offset"]), Epoch(partition["last_offset_epoch"])),
        pre_vote=partition["pre_vote"],
    )


def response_to_wire(message: VoteResponse, version: int, context: RpcContext) -> Body:
    """The body of an answer; the leader's endpoint from version 1 on."""
    return parts.answer_body(message, version, context, vote_granted=message.vote_granted)


def response_from_wire(body: Body, context: RpcContext) -> VoteResponse | TopLevelError:
    """An answer for the core.

    Errors: ProtocolError when it is not about our partition.
    """
    return parts.answer_of(VoteResponse, body, context, "vote_granted")
