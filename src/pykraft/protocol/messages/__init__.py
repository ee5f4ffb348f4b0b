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
    describe_quorum,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    forward,
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
    API_VERSIONS = 18
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
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
    ApiKey.API_VERSIONS: Api(api_versions.REQUEST, api_versions.RESPONSE),
    ApiKey.VOTE: Api(vote.REQUEST, vote.RESPONSE),
    ApiKey.BEGIN_QUORUM_EPOCH: Api(begin_quorum_epoch.REQUEST, begin_quorum_epoch.RESPONSE),
    ApiKey.END_QUORUM_EPOCH: Api(end_quorum_epoch.REQUEST, end_quorum_epoch.RESPONSE),
    ApiKey.DESCRIBE_QUORUM: Api(describe_quorum.REQUEST, describe_quorum.RESPONSE),
    ApiKey.UPDATE_FEATURES: Api(update_features.REQUEST, update_features.RESPONSE),
    ApiKey.FETCH_SNAPSHOT: Api(fetch_snapshot.REQUEST, fetch_snapshot.RESPONSE),
    ApiKey.DESCRIBE_CLUSTER: Api(describe_cluster.REQUEST, describe_cluster.RESPONSE),
    ApiKey.ADD_RAFT_VOTER: Api(add_raft_voter.REQUEST, add_raft_voter.RESPONSE),
    ApiKey.REMOVE_RAFT_VOTER: Api(remove_raft_voter.REQUEST, remove_raft_voter.RESPONSE),
    ApiKey.UPDATE_RAFT_VOTER: Api(update_raft_voter.REQUEST, update_raft_voter.RESPONSE),
    ApiKey.UNREGISTER_CONTROLLER: Api(unregister_controller.REQUEST, unregister_controller.RESPONSE),
    ApiKey.TRANSFER_LEADERSHIP: Api(transfer_leadership.REQUEST, transfer_leadership.RESPONSE),
    ApiKey.FORWARD: Api(forward.REQUEST, forward.RESPONSE),
}

_NOT_SERVED: Final = frozenset({ApiKey.PRODUCE, ApiKey.UNREGISTER_CONTROLLER, ApiKey.FORWARD})
API_VERSIONS: dict[ApiKey, Versions] = {
    ApiKey(key): api.request.versions for key, api in APIS.items() if key not in _NOT_SERVED
}
"""The versions of each API that a node serves by default, both ends inclusive; Produce only where it is configured.

Forward is served while a program has a state machine on the node.
"""
PRODUCE_VERSIONS: Final = APIS[ApiKey.PRODUCE].request.versions
"""The same for Produce."""
FORWARD_VERSIONS: Final = APIS[ApiKey.FORWARD].request.versions
"""The same for Forward."""
