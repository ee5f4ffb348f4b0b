"""Fetch of a replica between core and wire.

The replica id is in an old field below version 15 and in a tagged struct from then on. We identify the topic by its id,
which requests below version 13 do not have: they are refused, as in Kafka. Records are not part of the core's message:
`put_records` adds them to an answer, `records_of` takes them out.

Source: KIP-595 §Fetch, KIP-630, KIP-853, KIP-903, KIP-1166; Kafka's RaftUtil and ``KafkaRaftClient.buildFetchRequest``.
"""

from collections.abc import Sequence

from pykraft.core.messages import FetchRequest, FetchResponse, TopLevelError
from pykraft.errors import ErrorCode
from pykraft.protocol.messages.fetch import HIGH_WATERMARK_NOT_TOLD
from pykraft.protocol.schema import Body
from pykraft.rpc import parts
from pykraft.rpc.context import Refusal, RpcContext
from pykraft.types import Buffer, Epoch, Offset, OffsetAndEpoch

REPLICA_STATE_VERSION = 15
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
"""Isolation levels, as consumers send them; the leaders of Kafka's quorums ignore them."""
NODE_ENDPOINTS_VERSION = 17
"""Kafka sends endpoints to replicas from this version on, although the field exists one version earlier."""


def request_to_wire(message: FetchRequest, version: int, context: RpcContext) -> Body:
    partition: Body = {
        "partition": context.partition_index,
        "current_leader_epoch": message.epoch,
        "fetch_offset": message.fetch_offset,
        "last_fetched_epoch": message.last_fetched_epoch,
        "replica_directory_id": parts.wire_directory(message.replica),
    }
    if message.high_watermark is not None:
        partition["high_watermark"] = message.high_watermark
    body: Body = {
        "cluster_id": context.cluster_id,
        "isolation_level": READ_COMMITTED if message.is_committed_only else READ_UNCOMMITTED,
        "max_wait_ms": message.wait_ms_max,
        "max_bytes": message.size_bytes_max,
        "topics": [{"topic": context.topic_name, "topic_id": context.topic_id, "partitions": [partition]}],
    }
    replica_id = parts.wire_id(message.replica.id if message.replica else None)
    # KIP-903 moved the replica id into a tagged struct.
    if version < REPLICA_STATE_VERSION:
        body["replica_id"] = replica_id
    else:
        body["replica_state"] = {"replica_id": replica_id}
    return body


def request_from_wire(body: Body, context: RpcContext) -> FetchRequest | Refusal:
    """A request for the core, or INCONSISTENT_CLUSTER_ID or INVALID_REQUEST above the partition."""
    refusal = parts.wrong_cluster(body, context)
    if refusal is not None:
        return refusal
    partition = parts.only_partition(body["topics"], topic_id=context.topic_id, partition=context.partition_index)
    if partition is None:
        return parts.refuse(ErrorCode.INVALID_REQUEST)
    # Only one of the two fields exists in a version; the other has its default, -1.
    old_id, new_id = body["replica_id"], body["replica_state"]["replica_id"]
    high_watermark = partition["high_watermark"]
    return FetchRequest(
        replica=parts.optional_replica_key(new_id if old_id < 0 else old_id, partition["replica_directory_id"]),
        epoch=Epoch(partition["current_leader_epoch"]),
        fetch_offset=Offset(partition["fetch_offset"]),
        last_fetched_epoch=Epoch(partition["last_fetched_epoch"]),
        wait_ms_max=body["max_wait_ms"],
        size_bytes_max=body["max_bytes"],
        high_watermark=None if high_watermark == HIGH_WATERMARK_NOT_TOLD else high_watermark,
        is_committed_only=body["isolation_level"] == READ_COMMITTED,
    )


def response_to_wire(message: FetchResponse, version: int, context: RpcContext) -> Body:
    """The body of an answer without records."""
    partition: Body = {
        "partition_index": context.partition_index,
        "error_code": message.error,
        "high_watermark": -1 if message.high_watermark is None else message.high_watermark,
        "log_start_offset": message.log_start_offset,
        "current_leader": {"leader_id": parts.wire_id(message.leader_id), "leader_epoch": message.epoch},
        "records": b"",
    }
    if message.diverging is not None:
        partition["diverging_epoch"] = {"epoch": message.diverging.epoch, "end_offset": message.diverging.offset}
    if message.snapshot_id is not None:
        partition["snapshot_id"] = parts.snapshot_id_body(message.snapshot_id)
    topic = {"topic": context.topic_name, "topic_id": context.topic_id, "partitions": [partition]}
    body: Body = {"responses": [topic]}
    if version >= NODE_ENDPOINTS_VERSION:
        body["node_endpoints"] = parts.node_endpoint_bodies(message.leader_id, message.listeners)
    return body


def put_records(body: Body, records: Buffer | Sequence[Buffer]) -> None:
    """Add records to an answer; several buffers are sent one after the other, large ones without a copy."""
    body["responses"][0]["partitions"][0]["records"] = records


def response_from_wire(body: Body, context: RpcContext) -> FetchResponse | TopLevelError:
    """An answer for the core, without its batches: see `fetched`.

    A diverging epoch or snapshot id is present if either of its numbers is not negative; the core checks the other.

    Errors: ProtocolError when it is not about our partition.
    """
    if body["error_code"]:
        return TopLevelError(error=body["error_code"])
    partition = _partition_of(body, context)
    leader_id = parts.node_id_of(partition["current_leader"]["leader_id"])
    high_watermark = partition["high_watermark"]
    diverging, snapshot_id = partition["diverging_epoch"], partition["snapshot_id"]
    return FetchResponse(
        error=partition["error_code"],
        epoch=Epoch(partition["current_leader"]["leader_epoch"]),
        leader_id=leader_id,
        high_watermark=Offset(high_watermark) if high_watermark >= 0 else None,
        log_start_offset=Offset(partition["log_start_offset"]),
        diverging=OffsetAndEpoch(Offset(diverging["end_offset"]), Epoch(diverging["epoch"]))
        if _is_given(diverging)
        else None,
        snapshot_id=parts.snapshot_id_of(snapshot_id) if _is_given(snapshot_id) else None,
        listeners=parts.leader_listeners(leader_id, body["node_endpoints"], context),
    )


def records_of(body: Body, context: RpcContext) -> Buffer:
    """The records of an answer without an error above the partition; null reads as empty.

    Errors: ProtocolError when it is not about our partition.
    """
    records: Buffer | None = _partition_of(body, context)["records"]
    return b"" if records is None else records


def _partition_of(body: Body, context: RpcContext) -> Body:
    expected = {"topic_id": context.topic_id, "partition_index": context.partition_index}
    return parts.only_partition(body["responses"], **expected) or parts.shapeless(context)


def _is_given(place: Body) -> bool:
    return bool(place["epoch"] >= 0 or place["end_offset"] >= 0)
