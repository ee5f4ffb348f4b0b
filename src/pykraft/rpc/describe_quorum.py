"""DescribeQuorum between core and wire.

If a request is not about our partition alone, every partition in it is answered UNKNOWN_TOPIC_OR_PARTITION. Kafka's
tools ask for ``__cluster_metadata``, whatever the quorum's topic is called: we accept that name for our partition and
repeat it in the answer. The request has no cluster id. Without an error the message is empty, not null, as in Kafka.

Source: KIP-595 §DescribeQuorum, KIP-836, KIP-853; Kafka's DescribeQuorumRequest and DescribeQuorumResponse.
"""

from typing import Final

from pykraft.config import METADATA_TOPIC_NAME
from pykraft.core.messages import DescribedReplica, DescribeQuorumRequest, DescribeQuorumResponse, TopLevelError
from pykraft.errors import ErrorCode
from pykraft.protocol.schema import Body
from pykraft.rpc import parts
from pykraft.rpc.context import Refusal, RpcContext
from pykraft.types import Epoch, NodeId, Offset, ReplicaKey, Voter

NOT_THE_LEADER: Final = "only the leader of the quorum answers this, and this node does not lead it"


def request_to_wire(message: DescribeQuorumRequest, _version: int, context: RpcContext) -> Body:
    return {"topics": _topics_of(context, message.asked_as, {})}


def request_from_wire(body: Body, context: RpcContext) -> DescribeQuorumRequest | Refusal:
    """A request for the core, or UNKNOWN_TOPIC_OR_PARTITION in each partition."""
    topics = body["topics"]
    # Kafka's tools always ask for __cluster_metadata, so accept that name for our topic, too.
    for other_name in (None, METADATA_TOPIC_NAME):
        name = other_name or context.topic_name
        if parts.only_partition(topics, topic_name=name, partition_index=context.partition_index):
            return DescribeQuorumRequest(asked_as=other_name)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answers = [
        {
            "topic_name": topic["topic_name"],
            "partitions": [
                {"partition_index": partition["partition_index"], "error_code": error}
                for partition in topic["partitions"]
            ],
        }
        for topic in topics
    ]
    return Refusal(error, {"topics": answers})


def response_to_wire(message: DescribeQuorumResponse, _version: int, context: RpcContext) -> Body:
    """The body of an answer; the encoder drops what its version lacks. With an error, numbers are 0, as in Kafka."""
    if message.error:
        words = message.error_message or NOT_THE_LEADER
        refused: Body = {"leader_id": 0, "leader_epoch": 0, "high_watermark": 0, "current_voters": [], "observers": []}
        partition = {"error_code": message.error, "error_message": words, **refused}
        return {"topics": _topics_of(context, message.asked_as, partition), "nodes": []}
    partition = {
        "error_code": message.error,
        "error_message": message.error_message or "",
        "leader_id": parts.wire_id(message.leader_id),
        "leader_epoch": message.epoch,
        "high_watermark": -1 if message.high_watermark is None else message.high_watermark,
        "current_voters": [_row_body(row) for row in message.voters],
        "observers": [_row_body(row) for row in message.observers],
    }
    nodes = [{"node_id": voter.key.id, "listeners": parts.endpoint_bodies(voter.listeners)} for voter in message.nodes]
    return {"topics": _topics_of(context, message.asked_as, partition), "nodes": nodes}


def response_from_wire(body: Body, context: RpcContext) -> DescribeQuorumResponse | TopLevelError:
    """An answer in the core's form.

    Errors: ProtocolError when it is not about our partition.
    """
    partition = parts.open_response(body, context)
    if isinstance(partition, TopLevelError):
        return partition
    high_watermark = partition["high_watermark"]
    if partition["error_code"]:
        return DescribeQuorumResponse(error=partition["error_code"], error_message=partition["error_message"] or None)
    nodes = (
        Voter(key=ReplicaKey(NodeId(node["node_id"])), listeners=parts.listeners_of(node["listeners"]))
        for node in body["nodes"]
    )
    return DescribeQuorumResponse(
        error=partition["error_code"],
        error_message=partition["error_message"] or None,
        leader_id=parts.node_id_of(partition["leader_id"]),
        epoch=Epoch(partition["leader_epoch"]),
        high_watermark=Offset(high_watermark) if high_watermark >= 0 else None,
        voters=tuple(map(_row, partition["current_voters"])),
        observers=tuple(map(_row, partition["observers"])),
        nodes=tuple(nodes),
    )


def _topics_of(context: RpcContext, asked_as: str | None, partition: Body) -> list[Body]:
    [topic] = parts.topics_of(context, partition)
    return [topic | {"topic_name": asked_as or context.topic_name}]


def _row_body(row: DescribedReplica) -> Body:
    return {
        "replica_id": row.key.id,
        "replica_directory_id": parts.wire_directory(row.key),
        "log_end_offset": row.log_end_offset,
        "last_fetch_timestamp": row.last_fetch_timestamp,
        "last_caught_up_timestamp": row.last_caught_up_timestamp,
    }


def _row(body: Body) -> DescribedReplica:
    return DescribedReplica(
        key=parts.replica_key(body["replica_id"], body["replica_directory_id"]),
        log_end_offset=body["log_end_offset"],
        last_fetch_timestamp=body["last_fetch_timestamp"],
        last_caught_up_timestamp=body["last_caught_up_timestamp"],
    )
