"""What a node must know to speak of its one partition on the wire, and how a request is turned away.

Source: KIP-595, KIP-853 (listeners).
"""

from __future__ import annotations

from dataclasses import dataclass

from pykraft.protocol.schema import Body
from pykraft.types import Uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcContext:
    """The cluster, the one topic partition, and the listener that voters dial.

    ``default_listener`` is upper case: the leader's endpoints in answers to this node are those of this listener.
    A node knows its cluster; a client may not (None), and its requests then name none.
    """

    cluster_id: str | None
    topic_name: str
    topic_id: Uuid
    partition_index: int = 0
    default_listener: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that never reaches the core: ``error`` (a Kafka code) and the whole answer."""

    error: int
    body: Body
