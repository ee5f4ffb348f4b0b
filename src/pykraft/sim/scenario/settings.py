"""Configurations of the nodes of a world, drawn from its scenario; what they share and what is each one's own.

A port tells whose it is: the id of the node, and a thousand more each time that the node moves to another address.

By default files are small and timeouts short, so that much happens in little time.

Source: Kafka ``RaftEventSimulationTest`` (timeouts), scaled down by five.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Final

from pykraft.config import LogSettings, NodeConfig, RaftConfig
from pykraft.rpc.context import RpcContext
from pykraft.sim.scenario.scenario import Quorum, Snapshots
from pykraft.types import Endpoint, Listeners, NodeId, ReplicaKey, Uuid, Voter, VoterSet

LISTENER = "CONTROLLER"
RECORD_SIZE_BYTES = 100
"""About what a record of the workload takes in the log."""
SNAPSHOT_INTERVAL_MS = 1_000
"""After this time a snapshot is due that its size did not make due."""

PORTS_APART = 1_000
SMALL_SEGMENT_BYTES = 2_048


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """Largest frames that a node reads: requests, and answers to its own requests."""

    request_bytes: int
    answer_bytes: int


UNLIMITED: Final = SizeLimits(2**31 - 1, 2**31 - 1)


def size_limits(config: NodeConfig) -> SizeLimits:
    """What a node with this configuration reads."""
    return SizeLimits(config.request_size_bytes_max, config.answer_size_bytes_max)


def node_configs(voter_count: int, observer_count: int, quorum: Quorum, rng: Random) -> list[NodeConfig]:
    """Voters from id 1 on, then observers; all share one draw of timeouts. A node's port is its id."""
    raft = RaftConfig(
        election_timeout_ms=quorum.election_timeout_ms,
        fetch_timeout_ms=quorum.fetch_timeout_ms,
        election_backoff_max_ms=quorum.election_backoff_max_ms,
        request_timeout_ms=quorum.request_timeout_ms,
        append_linger_ms=rng.choice(quorum.append_linger_ms),
        fetch_wait_ms_max=rng.choice(quorum.fetch_wait_ms_max),
        fetch_size_bytes_max=rng.choice(quorum.fetch_size_bytes_max),
        batch_size_bytes_max=quorum.batch_size_bytes_max,
        leader_send_flushed_only=rng.random() < quorum.leader_send_flushed_only_probability,
    )
    voters = VoterSet.of(
        Voter(key=ReplicaKey(NodeId(node_id)), listeners=listeners_of(node_id)) for node_id in range(1, voter_count + 1)
    )
    return [
        NodeConfig(
            node_id=NodeId(node_id),
            cluster_id="simulated",
            directory_id=Uuid(rng.randbytes(16)),
            listeners=listeners_of(node_id),
            advertised_listeners=listeners_of(node_id),
            controller_listener_names=(LISTENER,),
            voters=voters,
            log_dir=Path("/disk"),
            request_size_bytes_max=quorum.request_size_bytes_max,
            log=LogSettings(
                segment_size_bytes=quorum.segment_size_bytes,
                index_size_bytes_max=quorum.index_size_bytes_max,
                scrub_interval_ms=quorum.scrub_interval_ms,
            ),
            raft=raft,
        )
        for node_id in range(1, voter_count + observer_count + 1)
    ]


def with_memory(configs: Sequence[NodeConfig], recent_size_bytes_max: int) -> list[NodeConfig]:
    """The same with so much of the log in memory."""
    return [replace(config, log=replace(config.log, recent_size_bytes_max=recent_size_bytes_max)) for config in configs]


def with_small_segments(configs: Sequence[NodeConfig]) -> list[NodeConfig]:
    """The same with segments of a few batches."""
    return [replace(config, log=replace(config.log, segment_size_bytes=SMALL_SEGMENT_BYTES)) for config in configs]


def with_snapshots(
    configs: Sequence[NodeConfig], snapshots: Snapshots, records_between: int, rng: Random
) -> list[NodeConfig]:
    """The same with one draw of what concerns snapshots."""
    slice_size_bytes_max = rng.choice(snapshots.slice_size_bytes_max)
    retention_size_bytes_max = rng.choice(snapshots.retention_size_bytes_max)
    clean_interval_ms = rng.choice(snapshots.clean_interval_ms)
    delete_delay_ms = rng.choice(snapshots.delete_delay_ms)
    return [
        replace(
            config,
            raft=replace(config.raft, fetch_snapshot_size_bytes_max=slice_size_bytes_max),
            log=replace(
                config.log,
                retention_size_bytes_max=retention_size_bytes_max,
                clean_interval_ms=clean_interval_ms,
                delete_delay_ms=delete_delay_ms,
                snapshot_record_bytes_max=records_between * RECORD_SIZE_BYTES,
                snapshot_interval_ms=SNAPSHOT_INTERVAL_MS,
            ),
        )
        for config in configs
    ]


def listeners_of(node_id: int, moves: int = 0) -> Listeners:
    """Where a node listens in the virtual network when it has moved so often."""
    return Listeners(((LISTENER, Endpoint(f"node-{node_id}", node_id + moves * PORTS_APART)),))


def rpc_context(config: NodeConfig) -> RpcContext:
    """What a client of this node has to know to speak to it."""
    return RpcContext(
        cluster_id=config.cluster_id,
        topic_name=config.topic_name,
        topic_id=config.topic_id,
        default_listener=LISTENER,
    )


def node_at(port: int) -> int:
    """The node whose port this is, or was."""
    return port % PORTS_APART


def moved(config: NodeConfig) -> NodeConfig:
    """The same node at another address."""
    assert config.node_id is not None
    port = port_of(config)
    listeners = listeners_of(config.node_id, port // PORTS_APART + 1)
    return replace(config, listeners=listeners, advertised_listeners=listeners)


def port_of(config: NodeConfig) -> int:
    """Where this node listens."""
    endpoint = config.advertised_listeners.get(LISTENER)
    assert endpoint is not None
    return endpoint.port


def newcomer(like: NodeConfig, node_id: int) -> NodeConfig:
    """A node that comes to a world that runs: it knows nobody but the bootstrap servers, and has a directory id yet."""
    listeners = listeners_of(node_id)
    return replace(
        like,
        node_id=NodeId(node_id),
        directory_id=None,
        listeners=listeners,
        advertised_listeners=listeners,
        voters=VoterSet(),
    )
