"""What a node must know to name its one partition on the wire, and how it refuses a request.

Source: KIP-595, KIP-853 (listeners).
"""

from __future__ import annotations

from dataclasses import dataclass

from pykraft.config import NodeConfig
from pykraft.protocol.schema import Body
from pykraft.types import Uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcContext:
    """The cluster, the one topic partition, and the listener that voters dial.

    ``default_listener`` is upper case: in answers to this node, the leader's endpoints belong to this listener. A node
    knows its cluster id; a client may not (None), and then its requests name none.
    """

    cluster_id: str | None
    topic_name: str
    topic_id: Uuid
    partition_index: int = 0
    default_listener: str

    @classmethod
    def of(cls, config: NodeConfig) -> RpcContext:
        return cls(
            cluster_id=config.cluster_id,
            topic_name=config.topic_name,
            topic_id=config.topic_id,
            default_listener=config.default_listener.upper(),
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a request that does not reach the core: ``error`` (a Kafka code) and the whole body."""

    error: int
    body: Body
