"""The registry of pykraft's messages: API keys, their tables and their versions.

Each RPC has two tables, its request and its response; `pykraft.protocol.api` reads and writes them.

Source: Kafka's ApiKeys; the versions are those of Kafka 4.4.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from pykraft.protocol.messages import clients, cluster, elections, fetch, groups, own, sasl, voters
from pykraft.protocol.schema import Message, Versions

PRIVATE_KEY_MIN: Final = 30_000
"""APIs from this key on are pykraft's own, far above Kafka's."""


class ApiKey(IntEnum):
    """Keys of the APIs whose messages we can read and write."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_CONFIGS = 32
    SASL_AUTHENTICATE = 36
    DELETE_GROUPS = 42
    OFFSET_DELETE = 47
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    DESCRIBE_TOPIC_PARTITIONS = 75
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    UNREGISTER_CONTROLLER = 94
    TRANSFER_LEADERSHIP = 30_001
    FORWARD = 30_002


@dataclass(frozen=True, slots=True)
class Api:
    """The two tables of one API; both have the same versions."""

    request: Message
    response: Message


APIS: dict[int, Api] = {
    ApiKey.PRODUCE: Api(clients.PRODUCE_REQUEST, clients.PRODUCE_RESPONSE),
    ApiKey.FETCH: Api(fetch.FETCH_REQUEST, fetch.FETCH_RESPONSE),
    ApiKey.LIST_OFFSETS: Api(clients.LIST_OFFSETS_REQUEST, clients.LIST_OFFSETS_RESPONSE),
    ApiKey.METADATA: Api(clients.METADATA_REQUEST, clients.METADATA_RESPONSE),
    ApiKey.OFFSET_COMMIT: Api(groups.OFFSET_COMMIT_REQUEST, groups.OFFSET_COMMIT_RESPONSE),
    ApiKey.OFFSET_FETCH: Api(groups.OFFSET_FETCH_REQUEST, groups.OFFSET_FETCH_RESPONSE),
    ApiKey.FIND_COORDINATOR: Api(clients.FIND_COORDINATOR_REQUEST, clients.FIND_COORDINATOR_RESPONSE),
    ApiKey.JOIN_GROUP: Api(groups.JOIN_GROUP_REQUEST, groups.JOIN_GROUP_RESPONSE),
    ApiKey.HEARTBEAT: Api(groups.HEARTBEAT_REQUEST, groups.HEARTBEAT_RESPONSE),
    ApiKey.LEAVE_GROUP: Api(groups.LEAVE_GROUP_REQUEST, groups.LEAVE_GROUP_RESPONSE),
    ApiKey.SYNC_GROUP: Api(groups.SYNC_GROUP_REQUEST, groups.SYNC_GROUP_RESPONSE),
    ApiKey.DESCRIBE_GROUPS: Api(groups.DESCRIBE_GROUPS_REQUEST, groups.DESCRIBE_GROUPS_RESPONSE),
    ApiKey.LIST_GROUPS: Api(groups.LIST_GROUPS_REQUEST, groups.LIST_GROUPS_RESPONSE),
    ApiKey.SASL_HANDSHAKE: Api(sasl.SASL_HANDSHAKE_REQUEST, sasl.SASL_HANDSHAKE_RESPONSE),
    ApiKey.API_VERSIONS: Api(cluster.API_VERSIONS_REQUEST, cluster.API_VERSIONS_RESPONSE),
    ApiKey.INIT_PRODUCER_ID: Api(clients.INIT_PRODUCER_ID_REQUEST, clients.INIT_PRODUCER_ID_RESPONSE),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Api(
        clients.OFFSET_FOR_LEADER_EPOCH_REQUEST, clients.OFFSET_FOR_LEADER_EPOCH_RESPONSE
    ),
    ApiKey.DESCRIBE_CONFIGS: Api(clients.DESCRIBE_CONFIGS_REQUEST, clients.DESCRIBE_CONFIGS_RESPONSE),
    ApiKey.SASL_AUTHENTICATE: Api(sasl.SASL_AUTHENTICATE_REQUEST, sasl.SASL_AUTHENTICATE_RESPONSE),
    ApiKey.DELETE_GROUPS: Api(groups.DELETE_GROUPS_REQUEST, groups.DELETE_GROUPS_RESPONSE),
    ApiKey.OFFSET_DELETE: Api(groups.OFFSET_DELETE_REQUEST, groups.OFFSET_DELETE_RESPONSE),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Api(
        groups.CONSUMER_GROUP_HEARTBEAT_REQUEST, groups.CONSUMER_GROUP_HEARTBEAT_RESPONSE
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Api(
        groups.CONSUMER_GROUP_DESCRIBE_REQUEST, groups.CONSUMER_GROUP_DESCRIBE_RESPONSE
    ),
    ApiKey.VOTE: Api(elections.VOTE_REQUEST, elections.VOTE_RESPONSE),
    ApiKey.BEGIN_QUORUM_EPOCH: Api(elections.BEGIN_QUORUM_EPOCH_REQUEST, elections.BEGIN_QUORUM_EPOCH_RESPONSE),
    ApiKey.END_QUORUM_EPOCH: Api(elections.END_QUORUM_EPOCH_REQUEST, elections.END_QUORUM_EPOCH_RESPONSE),
    ApiKey.DESCRIBE_QUORUM: Api(cluster.DESCRIBE_QUORUM_REQUEST, cluster.DESCRIBE_QUORUM_RESPONSE),
    ApiKey.UPDATE_FEATURES: Api(voters.UPDATE_FEATURES_REQUEST, voters.UPDATE_FEATURES_RESPONSE),
    ApiKey.FETCH_SNAPSHOT: Api(fetch.FETCH_SNAPSHOT_REQUEST, fetch.FETCH_SNAPSHOT_RESPONSE),
    ApiKey.DESCRIBE_CLUSTER: Api(cluster.DESCRIBE_CLUSTER_REQUEST, cluster.DESCRIBE_CLUSTER_RESPONSE),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Api(
        clients.DESCRIBE_TOPIC_PARTITIONS_REQUEST, clients.DESCRIBE_TOPIC_PARTITIONS_RESPONSE
    ),
    ApiKey.ADD_RAFT_VOTER: Api(voters.ADD_RAFT_VOTER_REQUEST, voters.ADD_RAFT_VOTER_RESPONSE),
    ApiKey.REMOVE_RAFT_VOTER: Api(voters.REMOVE_RAFT_VOTER_REQUEST, voters.REMOVE_RAFT_VOTER_RESPONSE),
    ApiKey.UPDATE_RAFT_VOTER: Api(voters.UPDATE_RAFT_VOTER_REQUEST, voters.UPDATE_RAFT_VOTER_RESPONSE),
    ApiKey.UNREGISTER_CONTROLLER: Api(voters.UNREGISTER_CONTROLLER_REQUEST, voters.UNREGISTER_CONTROLLER_RESPONSE),
    ApiKey.TRANSFER_LEADERSHIP: Api(own.TRANSFER_LEADERSHIP_REQUEST, own.TRANSFER_LEADERSHIP_RESPONSE),
    ApiKey.FORWARD: Api(own.FORWARD_REQUEST, own.FORWARD_RESPONSE),
}

GROUP_KEYS: Final = frozenset(
    {
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.OFFSET_DELETE,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
    }
)
"""APIs that the coordinator of consumer groups answers."""
CLIENT_KEYS: Final = GROUP_KEYS | frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    }
)
"""APIs of Kafka's producers and consumers, which no node of a quorum needs."""
SASL_KEYS: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""APIs of listeners with SASL, by which a connection is authenticated."""
_NOT_SERVED: Final = CLIENT_KEYS | SASL_KEYS | {ApiKey.UNREGISTER_CONTROLLER, ApiKey.FORWARD}
API_VERSIONS: dict[ApiKey, Versions] = {
    ApiKey(key): api.request.versions for key, api in APIS.items() if key not in _NOT_SERVED
}
"""The versions of each API that a node serves by default, both ends inclusive; those of clients only as configured.

Forward is served while a program has a state machine on the node.
"""
CLIENT_VERSIONS: dict[ApiKey, Versions] = {
    key: APIS[key].request.versions for key in sorted(CLIENT_KEYS | {ApiKey.FETCH})
}
"""The same for all APIs of clients, which share Fetch with replicas."""
# Librdkafka up to 2.8 compresses nothing unless version 0 is listed. Like Kafka, nodes list it, but do not serve it
# (KAFKA-18659).
CLIENT_VERSIONS[ApiKey.PRODUCE] = Versions(0, CLIENT_VERSIONS[ApiKey.PRODUCE].max)
SASL_APIS: Final[dict[int, Versions]] = {int(key): APIS[key].request.versions for key in sorted(SASL_KEYS)}
"""The same for listeners with SASL."""
FORWARD_VERSIONS: Final = APIS[ApiKey.FORWARD].request.versions
"""The same for Forward."""
