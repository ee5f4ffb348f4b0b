"""The registry of pykraft's messages: API keys, their tables and their versions.

One module per RPC has its two tables, REQUEST and RESPONSE; `pykraft.protocol.api` reads and writes them.

Source: Kafka's ApiKeys; the versions are those of Kafka 4.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from pykraft.protocol.messages import (
    add_raft_voter,
    api_versions,
    begin_quorum_epoch,
    describe_cluster,
    describe_configs,
    describe_quorum,
    describe_topic_partitions,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    find_coordinator,
    forward,
    init_producer_id,
    list_groups,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
    remove_raft_voter,
    transfer_leadership,
    unregister_controller,
    update_features,
    update_raft_voter,
    vote,
)
from pykraft.protocol.schema import Message, Versions

PRIVATE_KEY_MIN: Final = 30_000
"""APIs from this key on are pykraft's own, far above Kafka's."""


class ApiKey(IntEnum):
    """Keys of the APIs whose messages we can read and write."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    FIND_COORDINATOR = 10
    LIST_GROUPS = 16
    API_VERSIONS = 18
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_CONFIGS = 32
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
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
    ApiKey.PRODUCE: Api(produce.REQUEST, produce.RESPONSE),
    ApiKey.FETCH: Api(fetch.REQUEST, fetch.RESPONSE),
    ApiKey.LIST_OFFSETS: Api(list_offsets.REQUEST, list_offsets.RESPONSE),
    ApiKey.METADATA: Api(metadata.REQUEST, metadata.RESPONSE),
    ApiKey.FIND_COORDINATOR: Api(find_coordinator.REQUEST, find_coordinator.RESPONSE),
    ApiKey.LIST_GROUPS: Api(list_groups.REQUEST, list_groups.RESPONSE),
    ApiKey.API_VERSIONS: Api(api_versions.REQUEST, api_versions.RESPONSE),
    ApiKey.INIT_PRODUCER_ID: Api(init_producer_id.REQUEST, init_producer_id.RESPONSE),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Api(offset_for_leader_epoch.REQUEST, offset_for_leader_epoch.RESPONSE),
    ApiKey.DESCRIBE_CONFIGS: Api(describe_configs.REQUEST, describe_configs.RESPONSE),
    ApiKey.VOTE: Api(vote.REQUEST, vote.RESPONSE),
    ApiKey.BEGIN_QUORUM_EPOCH: Api(begin_quorum_epoch.REQUEST, begin_quorum_epoch.RESPONSE),
    ApiKey.END_QUORUM_EPOCH: Api(end_quorum_epoch.REQUEST, end_quorum_epoch.RESPONSE),
    ApiKey.DESCRIBE_QUORUM: Api(describe_quorum.REQUEST, describe_quorum.RESPONSE),
    ApiKey.UPDATE_FEATURES: Api(update_features.REQUEST, update_features.RESPONSE),
    ApiKey.FETCH_SNAPSHOT: Api(fetch_snapshot.REQUEST, fetch_snapshot.RESPONSE),
    ApiKey.DESCRIBE_CLUSTER: Api(describe_cluster.REQUEST, describe_cluster.RESPONSE),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Api(describe_topic_partitions.REQUEST, describe_topic_partitions.RESPONSE),
    ApiKey.ADD_RAFT_VOTER: Api(add_raft_voter.REQUEST, add_raft_voter.RESPONSE),
    ApiKey.REMOVE_RAFT_VOTER: Api(remove_raft_voter.REQUEST, remove_raft_voter.RESPONSE),
    ApiKey.UPDATE_RAFT_VOTER: Api(update_raft_voter.REQUEST, update_raft_voter.RESPONSE),
    ApiKey.UNREGISTER_CONTROLLER: Api(unregister_controller.REQUEST, unregister_controller.RESPONSE),
    ApiKey.TRANSFER_LEADERSHIP: Api(transfer_leadership.REQUEST, transfer_leadership.RESPONSE),
    ApiKey.FORWARD: Api(forward.REQUEST, forward.RESPONSE),
}

CLIENT_KEYS: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.LIST_GROUPS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    }
)
"""APIs of Kafka's producers and consumers, which no node of a quorum needs."""
_NOT_SERVED: Final = CLIENT_KEYS | {ApiKey.UNREGISTER_CONTROLLER, ApiKey.FORWARD}
API_VERSIONS: dict[ApiKey, Versions] = {
    ApiKey(key): api.request.versions for key, api in APIS.items() if key not in _NOT_SERVED
}
"""The versions of each API that a node serves by default, both ends inclusive; those of clients only as configured.

Forward is served while a program has a state machine on the node.
"""
CLIENT_VERSIONS: dict[ApiKey, Versions] = {key: APIS[key].request.versions for key in sorted(CLIENT_KEYS)}
"""The same for all APIs of clients."""
FORWARD_VERSIONS: Final = APIS[ApiKey.FORWARD].request.versions
"""The same for Forward."""
