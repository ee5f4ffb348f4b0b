"""Parts of wire bodies that several RPCs share: the one partition, replica keys, endpoints.

Invariant: -1, zero and empty on the wire are None or empty in the core, and back. Every RPC of the quorum has exactly
one topic with exactly one partition. A request without that is answered INVALID_REQUEST above the partition
(`open_request`); a response without it is a `ProtocolError` (`open_response`). The rest of a response with an error
above the partition is ignored. An endpoint that cannot be dialed (no port, a host that is empty, too long or not
printable) counts as absent.

Source: KIP-595, KIP-853; Kafka's RaftUtil and ``KafkaRaftClient.hasValidClusterId`` and ``hasValidTopicPartition``.
"""

from collections.abc import Iterable
from typing import TypeAlias, TypeVar

from pykraft import types
from pykraft.core.messages import BeginQuorumEpochResponse, EndQuorumEpochResponse, TopLevelError, VoteResponse
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.schema import Body
from pykraft.rpc.context import Refusal, RpcContext

LeaderAnswer: TypeAlias = VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse
A = TypeVar("A", VoteResponse, BeginQuorumEpochResponse, EndQuorumEpochResponse)


def topics_of(context: RpcContext, partition: Body) -> list[Body]:
    partition = {"partition_index": context.partition_index, **partition}
    return [{"topic_name": context.topic_name, "partitions": [partition]}]


def refuse(error: ErrorCode) -> Refusal:
    """An answer with only an error above the partition; every response has a field for it."""
    return Refusal(error, {"error_code": error})


def wrong_cluster(body: Body, context: RpcContext) -> Refusal | None:
    """INCONSISTENT_CLUSTER_ID if the request names another cluster; one without a cluster id is accepted."""
    if body["cluster_id"] in (None, context.cluster_id):
        return None
    return refuse(ErrorCode.INCONSISTENT_CLUSTER_ID)


def open_request(body: Body, context: RpcContext) -> Body | Refusal:
    """The one partition of a request that names its topic, or why it is refused: first the cluster, then the topic."""
    partition = only_partition(body["topics"], topic_name=context.topic_name, partition_index=context.partition_index)
    return wrong_cluster(body, context) or partition or refuse(ErrorCode.INVALID_REQUEST)


def open_response(body: Body, context: RpcContext) -> Body | TopLevelError:
    """The one partition of a response that names its topic, or the error above the partition.

    Errors: ProtocolError when there is neither.
    """
    if body["error_code"]:
        return TopLevelError(error=body["error_code"])
    partition = only_partition(body["topics"], topic_name=context.topic_name, partition_index=context.partition_index)
    return partition or shapeless(context)


def answer_body(message: LeaderAnswer, version: int, context: RpcContext, **more: object) -> Body:
    """The body of an answer with error, leader and epoch; with the leader's endpoint from version 1 on."""
    partition = {
        "error_code": message.error,
        "leader_id": wire_id(message.leader_id),
        "leader_epoch": message.epoch,
        **more,
    }
    body: Body = {"topics": topics_of(context, partition)}
    if version >= 1:
        body["node_endpoints"] = node_endpoint_bodies(message.leader_id, message.listeners)
    return body


def answer_of(kind: type[A], body: Body, context: RpcContext, *more: str) -> A | TopLevelError:
    """The answer in the body that `answer_body` writes; ``more`` names further fields of its partition.

    Errors: ProtocolError when it is not about our partition.
    """
    partition = open_response(body, context)
    if isinstance(partition, TopLevelError):
        return partition
    leader_id = node_id_of(partition["leader_id"])
    return kind(
        error=partition["error_code"],
        epoch=types.Epoch(partition["leader_epoch"]),
        leader_id=leader_id,
        listeners=leader_listeners(leader_id, body["node_endpoints"], context),
        **{name: partition[name] for name in more},
    )


def shapeless(context: RpcContext) -> Body:
    """Refuse a response that is not about our partition.

    Errors: ProtocolError, always.
    """
    raise ProtocolError(f"a response that is not about partition {context.topic_name}-{context.partition_index} alone")


def only_partition(topics: list[Body], **expected: object) -> Body | None:
    """The partition if there is exactly one, in exactly one topic, and both have the expected fields."""
    if len(topics) != 1 or len(topics[0]["partitions"]) != 1:
        return None
    (topic,) = topics
    partition: Body = topic["partitions"][0]
    for name, value in expected.items():
        if partition.get(name, topic.get(name)) != value:
            return None
    return partition


def wire_id(node_id: types.NodeId | None) -> int:
    return -1 if node_id is None else node_id


def node_id_of(value: int) -> types.NodeId | None:
    """An id in the core: None if negative."""
    return types.NodeId(value) if value >= 0 else None


def wire_directory(key: types.ReplicaKey | None) -> types.Uuid:
    return types.ZERO_UUID if key is None or key.directory_id is None else key.directory_id


def replica_key(node_id: int, directory_id: bytes) -> types.ReplicaKey:
    """A replica key with its id unchecked, for handlers that refuse a negative one."""
    return types.ReplicaKey(
        types.NodeId(node_id), None if directory_id == types.ZERO_UUID else types.Uuid(directory_id)
    )


def optional_replica_key(node_id: int, directory_id: bytes) -> types.ReplicaKey | None:
    """A replica key; None without an id."""
    return replica_key(node_id, directory_id) if node_id >= 0 else None


def snapshot_id_body(snapshot_id: types.OffsetAndEpoch) -> Body:
    return {"end_offset": snapshot_id.offset, "epoch": snapshot_id.epoch}


def snapshot_id_of(body: Body) -> types.OffsetAndEpoch:
    """A snapshot id, not checked."""
    return types.OffsetAndEpoch(types.Offset(body["end_offset"]), types.Epoch(body["epoch"]))


def endpoint_bodies(listeners: types.Listeners) -> list[Body]:
    return [{"name": name, "host": endpoint.host, "port": endpoint.port} for name, endpoint in listeners]


def listeners_of(bodies: Iterable[Body]) -> types.Listeners:
    """Listeners from named endpoints; if two have the same name the last counts, as in Kafka."""
    found = {
        body["name"].upper(): types.Endpoint(body["host"], body["port"]) for body in bodies if _can_be_dialed(body)
    }
    return types.Listeners(tuple(found.items()))


def node_endpoint_bodies(leader_id: types.NodeId | None, listeners: types.Listeners) -> list[Body]:
    """The leader's endpoint in an answer; empty if the leader or its endpoint is unknown."""
    if leader_id is None:
        return []
    return [{"node_id": leader_id, "host": endpoint.host, "port": endpoint.port} for _, endpoint in listeners][:1]


def leader_listeners(leader_id: types.NodeId | None, bodies: Iterable[Body], context: RpcContext) -> types.Listeners:
    """The leader's endpoint in an answer to this node, under the name of the listener that voters dial."""
    told = [body for body in bodies if body["node_id"] == leader_id and _can_be_dialed(body)]
    return named_endpoint(told[0], context) if told else types.NO_LISTENERS


def named_endpoint(body: Body, context: RpcContext) -> types.Listeners:
    """The endpoint in this body, under the name of the listener that voters dial; empty if it cannot be dialed."""
    if not _can_be_dialed(body):
        return types.NO_LISTENERS
    return types.Listeners(((context.default_listener, types.Endpoint(body["host"], body["port"])),))


def _can_be_dialed(body: Body) -> bool:
    name = body.get("name", "")
    return (
        len(name) <= types.NAME_SIZE_MAX
        and name.isprintable()
        and types.Endpoint(body["host"], body["port"]).can_be_dialed
    )
