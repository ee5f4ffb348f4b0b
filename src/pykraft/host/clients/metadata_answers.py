"""Answers about the cluster that need neither the core nor the log: Metadata, DescribeCluster, settings, groups.

Pure functions from a request's body to the answer's. Invariant: a topic that does not exist is never created, and says
so. Nobody keeps consumer groups or transactions here, and the answer to a question for their coordinator says that.

Source: Kafka's ``KafkaApis.handleTopicMetadataRequest`` and its neighbors; KIP-700, KIP-919.
"""

from __future__ import annotations

from typing import Any, Final

from pykraft.errors import ErrorCode
from pykraft.host.clients.topics import NOBODY, ClientTopics
from pykraft.protocol.schema import Body
from pykraft.types import Uuid

BROKERS: Final = 1
TOPIC_RESOURCE: Final = 2
NODE_RESOURCE: Final = 4
ID_ALONE_VERSION: Final = 12
"""Metadata's first version that may ask for a topic by its id alone."""
NO_TOPIC_ID: Final = Uuid(bytes(16))
_DEFAULT_CONFIG: Final = 5
_NO_GROUPS: Final = "this quorum keeps no consumer groups and no transactions: assign partitions yourself"


def metadata(body: Body, version: int, listener: str, topics: ClientTopics) -> Body:
    """The nodes, and the topics that the request names; all without a list, and in version 0 with an empty one."""
    wanted: list[Any] | None = body["topics"]
    leader_id, _ = topics.leader(listener)
    if wanted is None or (version == 0 and not wanted):
        rows = [_topic_row(topics.name, listener, topics)]
    else:
        rows = [_asked_row(each, version, listener, topics) for each in wanted]
    return {
        "brokers": _node_rows("node_id", listener, topics),
        "cluster_id": topics.config.cluster_id,
        "controller_id": leader_id,
        "topics": rows,
    }


def describe_topic_partitions(body: Body, listener: str, topics: ClientTopics) -> Body:
    """The topics that the request names, all without names, in order; from the cursor's on, and so many at a time."""
    names = sorted({each["name"] for each in body["topics"]}) or [topics.name]
    cursor, limit = body["cursor"], body["response_partition_limit"]
    if cursor is not None:
        if cursor["partition_index"] < 0:
            row = {"error_code": ErrorCode.INVALID_REQUEST, "name": cursor["topic_name"], "topic_id": NO_TOPIC_ID}
            return {"topics": [row]}
        names = [name for name in names if name >= cursor["topic_name"]]
    rows: list[Body] = []
    for name in names:
        if sum(len(row["partitions"]) for row in rows) >= max(1, limit) and name in topics.ids:
            return {"topics": rows, "next_cursor": {"topic_name": name, "partition_index": 0}}
        row = _asked_row({"name": name, "topic_id": NO_TOPIC_ID}, ID_ALONE_VERSION, listener, topics)
        # Kafka's admin client fails on null, which the definition allows.
        parts = [{**part, "eligible_leader_replicas": [], "last_known_elr": []} for part in row["partitions"]]
        rows.append({**row, "partitions": parts})
    return {"topics": rows}


def describe_brokers(listener: str, topics: ClientTopics) -> Body:
    """DescribeCluster for a client of this listener, to whom every node is a broker."""
    leader_id, _ = topics.leader(listener)
    return {
        "endpoint_type": BROKERS,
        "cluster_id": topics.config.cluster_id,
        "controller_id": leader_id,
        "brokers": _node_rows("broker_id", listener, topics),
    }


def describe_configs(body: Body, topics: ClientTopics) -> Body:
    """The settings of a topic that Kafka's tools look at; a node names none."""
    return {"results": [_config_row(each, topics) for each in body["resources"]]}


def find_coordinator(body: Body, version: int) -> Body:
    """There is no coordinator. UNSUPPORTED_VERSION, because clients ask again for ever after any softer error."""
    told = {"error_code": ErrorCode.UNSUPPORTED_VERSION, "error_message": _NO_GROUPS}
    nowhere = {"node_id": NOBODY, "host": "", "port": NOBODY}
    if version < 4:
        return {**told, **nowhere}
    return {"coordinators": [{"key": key, **nowhere, **told} for key in body["coordinator_keys"]]}


def _node_rows(id_name: str, listener: str, topics: ClientTopics) -> list[Body]:
    nodes = topics.nodes(listener).items()
    return [{id_name: node_id, "host": endpoint.host, "port": endpoint.port} for node_id, endpoint in nodes]


def _asked_row(asked: Body, version: int, listener: str, topics: ClientTopics) -> Body:
    asked_name: str | None = asked["name"]
    if asked_name is None and version < ID_ALONE_VERSION:
        # A request may say so in versions whose answer cannot: it has to name each topic.
        return {"error_code": ErrorCode.INVALID_REQUEST, "name": "", "topic_id": Uuid(asked["topic_id"])}
    name = topics.name_of(asked["topic_id"]) if asked_name is None else asked_name
    if name is not None and name in topics.ids:
        return _topic_row(name, listener, topics)
    code = ErrorCode.UNKNOWN_TOPIC_ID if asked_name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return {"error_code": code, "name": asked_name, "topic_id": Uuid(asked["topic_id"]), "partitions": []}


def _topic_row(name: str, listener: str, topics: ClientTopics) -> Body:
    leader_id, epoch = topics.leader(listener)
    voters = sorted(topics.status().voters.ids)
    partition = {
        "error_code": ErrorCode.NONE if leader_id != NOBODY else ErrorCode.LEADER_NOT_AVAILABLE,
        "partition_index": 0,
        "leader_id": leader_id,
        "leader_epoch": epoch,
        "replica_nodes": voters,
        "isr_nodes": voters,
    }
    return {"error_code": ErrorCode.NONE, "name": name, "topic_id": topics.ids[name], "partitions": [partition]}


def _config_row(resource: Body, topics: ClientTopics) -> Body:
    kind, name = resource["resource_type"], resource["resource_name"]
    row = {"error_code": ErrorCode.NONE, "error_message": None, "resource_type": kind, "resource_name": name}
    configs: list[Body] = []
    if kind == TOPIC_RESOURCE and name not in topics.ids:
        row["error_code"] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif kind == TOPIC_RESOURCE:
        size_bytes = topics.config.raft.batch_size_bytes_max
        settings = {
            "cleanup.policy": "delete",
            "max.message.bytes": str(size_bytes),
            "message.timestamp.type": "CreateTime",
        }
        configs = [_setting(key, value) for key, value in settings.items()]
    elif kind != NODE_RESOURCE:
        row |= {"error_code": ErrorCode.INVALID_REQUEST, "error_message": f"resources of type {kind} have no settings"}
    wanted: list[str] | None = resource["configuration_keys"]
    return {**row, "configs": [each for each in configs if wanted is None or each["name"] in wanted]}


def _setting(name: str, value: str) -> Body:
    return {
        "name": name,
        "value": value,
        "read_only": True,
        "config_source": _DEFAULT_CONFIG,
        "is_sensitive": False,
        "documentation": None,
    }
