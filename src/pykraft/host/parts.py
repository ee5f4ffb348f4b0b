"""What a node is made of below its core: the parts that effects act upon, put together once.

Invariant: the parts know each other only as far as their constructors say; what goes from one to another goes
through an effect or through the inbox. Source: design of pykraft, no Kafka class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pykraft.config import NodeConfig
from pykraft.host.delivery import Delivery
from pykraft.host.fetch_read import FetchReads, ReadableLog
from pykraft.host.inbound import Describe, Inbound
from pykraft.host.inbox import Inbox
from pykraft.host.io import HeldMessages
from pykraft.host.peers import Peers
from pykraft.host.ports import Ports
from pykraft.host.producers import Producers
from pykraft.host.recent import RecentBatches
from pykraft.rpc.context import RpcContext
from pykraft.types import NodeId, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """One of each; ``stop`` ends the node, with what made going on unsafe or None."""

    ports: Ports
    inbox: Inbox
    held: HeldMessages
    recent: RecentBatches
    reads: FetchReads
    inbound: Inbound
    peers: Peers
    producers: Producers
    delivery: Delivery
    stop: Callable[[Exception | None], None]


def assemble(
    ports: Ports,
    config: NodeConfig,
    *,
    node_id: NodeId,
    log: ReadableLog,
    start_offset: Offset,
    end_offset: Offset,
    describe_cluster: Describe,
    stop: Callable[[Exception | None], None],
) -> Parts:
    """The parts of a node whose recovered log goes from ``start_offset`` to ``end_offset`` (exclusive)."""
    inbox, held = Inbox(), HeldMessages()
    recent = RecentBatches(end_offset=end_offset)
    context = RpcContext(
        cluster_id=config.cluster_id,
        topic_name=config.topic_name,
        topic_id=config.topic_id,
        default_listener=config.default_listener.upper(),
    )
    return Parts(
        ports=ports,
        inbox=inbox,
        held=held,
        recent=recent,
        reads=FetchReads(ports, log, recent),
        inbound=Inbound(ports, inbox, held, context=context, describe_cluster=describe_cluster),
        peers=Peers(
            ports,
            inbox,
            held,
            context=context,
            client_id=f"raft-client-{node_id}",
            request_timeout_ms=config.raft.request_timeout_ms,
        ),
        producers=Producers(batch_size_bytes_max=config.raft.batch_size_bytes_max),
        delivery=Delivery(ports, log, recent, start_offset),
        stop=stop,
    )
