"""The partition as Kafka's clients see it: the names of its topic, the nodes they can reach, and who leads.

One log has several names: its own, ``__cluster_metadata`` as for Kafka's tools, and the one that the property
``pykraft.client.topic`` sets. Each name has its own topic id, since clients fetch by id. Invariant: nothing here
depends on anything but the configuration and the status of the core's last step.

Source: Kafka's ``MetadataCache``; KIP-516 (topic ids), KIP-951 (the leader in answers).
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pykraft.config import METADATA_TOPIC_ID, METADATA_TOPIC_NAME, NodeConfig
from pykraft.core.status import Status
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.schema import Body
from pykraft.types import Endpoint, Epoch, Listeners, NodeId, Offset, Uuid

NOBODY = -1
TOPIC_ID_VERSION: Final = 13
"""The first version of Produce, and of Fetch, whose topics have ids in place of names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTopics:
    """The topics of one log, for the clients of one node."""

    config: NodeConfig
    status: Callable[[], Status]
    endpoints: Mapping[NodeId, Listeners] = field(default_factory=dict)
    """What is known of the endpoints of static voters, besides the one that the configuration names."""

    @property
    def name(self) -> str:
        """The name that is listed: the one that the properties set, else the log's own."""
        return self.config.client_topic or self.config.topic_name

    @property
    def ids(self) -> Mapping[str, Uuid]:
        """Every name by which clients may call the topic, with its id."""
        config = self.config
        found = {METADATA_TOPIC_NAME: METADATA_TOPIC_ID, config.topic_name: config.topic_id}
        if config.client_topic and config.client_topic not in found:
            digest = hashlib.sha256(config.client_topic.encode()).digest()
            found[config.client_topic] = Uuid(digest[:16])
        return found

    def name_of(self, topic_id: bytes) -> str | None:
        """The name with this id; None for an unknown one."""
        return next((name for name, known in self.ids.items() if known == topic_id), None)

    def asked(self, topic: Body, version: int, name_key: str) -> tuple[str | None, Body]:
        """The topic that a row of Produce or Fetch means, None for an unknown id, and how the answer calls it."""
        if version < TOPIC_ID_VERSION:
            return topic[name_key], {name_key: topic[name_key]}
        return self.name_of(topic["topic_id"]), {"topic_id": Uuid(topic["topic_id"])}

    def nodes(self, listener: str) -> dict[NodeId, Endpoint]:
        """The nodes that clients of this listener can reach: this one, the voters and the leader, as far as known."""
        status, config = self.status(), self.config
        told = {voter.key.id: voter.listeners for voter in status.voters.voters}
        for voter_id, listeners in self.endpoints.items():
            if voter_id in told and told[voter_id].get(listener) is None:
                told[voter_id] = listeners
        if status.serving_leader is not None:
            leader_id, listeners = status.serving_leader
            # The leader's own endpoints win: its entry may be older than its last move.
            if listeners.get(listener) is not None or leader_id not in told:
                told[leader_id] = listeners
        if config.node_id is not None:
            told[config.node_id] = config.advertised_listeners
        found = {node_id: each.get(listener) for node_id, each in sorted(told.items())}
        return {node_id: endpoint for node_id, endpoint in found.items() if endpoint is not None}

    def leader(self, listener: str) -> tuple[int, Epoch]:
        """The leader, or -1 while nobody leads or clients of this listener cannot reach it; and the epoch."""
        status = self.status()
        leader = status.serving_leader
        is_reached = leader is not None and leader[0] in self.nodes(listener)
        return (leader[0] if leader is not None and is_reached else NOBODY), status.epoch

    def leader_bodies(self, listener: str) -> tuple[Body, list[Body]]:
        """``current_leader`` and ``node_endpoints`` of an answer that sends its client to the leader (KIP-951)."""
        leader_id, epoch = self.leader(listener)
        endpoint = self.nodes(listener).get(NodeId(leader_id))
        endpoints = [] if endpoint is None else [{"node_id": leader_id, "host": endpoint.host, "port": endpoint.port}]
        return {"leader_id": leader_id, "leader_epoch": epoch}, endpoints

    def check(self, name: str | None, index: int, *, epoch: int = -1, by_id: bool = False) -> Status:
        """The status of a node that leads this partition, in this epoch unless that is -1.

        Errors: ProtocolError with UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID, NOT_LEADER_OR_FOLLOWER,
        FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
        """
        if name not in self.ids or index != 0:
            code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise ProtocolError(f"this quorum keeps partition 0 of {self.name}", code)
        status = self.status()
        if not status.leads:
            raise ProtocolError(f"this node does not lead epoch {status.epoch}", ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if 0 <= epoch < status.epoch:
            raise ProtocolError(f"epoch {epoch} is over", ErrorCode.FENCED_LEADER_EPOCH)
        if epoch > status.epoch:
            raise ProtocolError(f"epoch {epoch} is not known yet", ErrorCode.UNKNOWN_LEADER_EPOCH)
        return status


def committed_end(status: Status) -> Offset:
    """Exclusive end of what consumers may read; a new leader knows only what was committed before its epoch."""
    return status.committed_end_offset if status.high_watermark is None else status.high_watermark
