"""FetchSnapshot between core and wire.

A request for another partition is answered UNKNOWN_TOPIC_OR_PARTITION within that partition. On the wire an absent
leader reads as 0 in epoch 0, which no real leader has; in the core it is None. Bytes of the snapshot are not part of
the core's message: `put_records` and `records_of`.

Source: KIP-630 §FetchSnapshot, KIP-853; Kafka's RaftUtil and ``KafkaRaftClient.handleFetchSnapshotRequest``.
"""

from collections.abc import Sequence

from pykraft.core.messages import FetchSnapshotRequest, FetchSnapshotResponse, TopLevelError
from pykraft.errors import ErrorCode
from pykraft.protocol.schema import Body
from pykraft.rpc import parts
from pykraft.rpc.context import Refusal, RpcContext
from pykraft.types import Buffer, Epoch


def request_to_wire(message: FetchSnapshotRequest, _version: int, context: RpcContext) -> Body:
    partition = {
        "partition": context.partition_index,
        "current_leader_epoch": message.epoch,
        "snapshot_id": parts.snapshot_id_body(message.snapshot_id),
        "position": message.position,
        "replica_directory_id": parts.wire_directory(message.replica),
    }
    return {
        "cluster_id": context.cluster_id,
        "replica_id": parts.wire_id(message.replica.id if message.replica else None),
        "max_bytes": message.size_bytes_max,
        "topics": [{"name": context.topic_name, "partitions": [partition]}],
    }


def request_from_wire(body: Body, context: RpcContext) -> FetchSnapshotRequest | Refusal:
    """A request for the core.

    Refused: INCONSISTENT_CLUSTER_ID, or INVALID_REQUEST unless it has exactly one partition, above the partition;
    UNKNOWN_TOPIC_OR_PARTITION within it.
    """
    refusal = parts.wrong_cluster(body, context)
    if refusal is not None:
        return refusal
    partition = parts.only_partition(body["topics"])
    if partition is None:
        return parts.refuse(ErrorCode.INVALID_REQUEST)
    name = body["topics"][0]["name"]
    if (name, partition["partition"]) != (context.topic_name, context.partition_index):
        return _unknown_partition(name, partition)
    return FetchSnapshotRequest(
        replica=parts.optional_replica_key(body["replica_id"], partition["replica_directory_id"]),
        epoch=Epoch(partition["current_leader_epoch"]),
        snapshot_id=parts.snapshot_id_of(partition["snapshot_id"]),
        position=partition["position"],
        size_bytes_max=body["max_bytes"],
    )


def _unknown_partition(name: str, partition: Body) -> Refusal:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = {"index": partition["partition"], "error_code": error, "snapshot_id": partition["snapshot_id"]}
    return Refusal(error, {"topics": [{"name": name, "partitions": [answer]}]})


def response_to_wire(message: FetchSnapshotResponse, version: int, context: RpcContext) -> Body:
    """The body of an answer without the snapshot's bytes; the leader's endpoint from version 1 on."""
    partition: Body = {
        "index": context.partition_index,
        "error_code": message.error,
        "snapshot_id": parts.snapshot_id_body(message.snapshot_id),
        "size": message.size_bytes,
        "position": message.position,
    }
    if message.epoch is not None:
        leader = {"leader_id": parts.wire_id(message.leader_id), "leader_epoch": message.epoch}
        partition["current_leader"] = leader
    body: Body = {"topics": [{"name": context.topic_name, "partitions": [partition]}]}
    if version >= 1:
        body["node_endpoints"] = parts.node_endpoint_bodies(message.leader_id, message.listeners)
    return body


def put_records(body: Body, records: Buffer | Sequence[Buffer]) -> None:
    """Add bytes of the snapshot to an answer."""
    body["topics"][0]["partitions"][0]["unaligned_records"] = records


def response_from_wire(body: Body, context: RpcContext) -> FetchSnapshotResponse | TopLevelError:
    """An answer for the core, without the snapshot's bytes.

    Errors: ProtocolError when it is not about our partition.
    """
    if body["error_code"]:
        return TopLevelError(error=body["error_code"])
    partition = _partition_of(body, context)
    leader = partition["current_leader"]
    # The struct is tagged, so an absent one reads as 0 and 0, which no real leader has.
    is_told = any(leader[name] for name in ("leader_id", "leader_epoch"))
    leader_id = parts.node_id_of(leader["leader_id"]) if is_told else None
    return FetchSnapshotResponse(
        error=partition["error_code"],
        epoch=Epoch(leader["leader_epoch"]) if is_told else None,
        leader_id=leader_id,
        snapshot_id=parts.snapshot_id_of(partition["snapshot_id"]),
        size_bytes=partition["size"],
        position=partition["position"],
        listeners=parts.leader_listeners(leader_id, body["node_endpoints"], context),
    )


def records_of(body: Body, context: RpcContext) -> Buffer:
    """The snapshot's bytes in an answer without an error above the partition.

    Errors: ProtocolError when it is not about our partition.
    """
    records: Buffer = _partition_of(body, context)["unaligned_records"]
    return records


def _partition_of(body: Body, context: RpcContext) -> Body:
    found = parts.only_partition(body["topics"], name=context.topic_name, index=context.partition_index)
    return found or parts.shapeless(context)
