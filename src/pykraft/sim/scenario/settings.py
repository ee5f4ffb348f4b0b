"""Draws the node configurations of a world from its scenario: shared settings and those of each node.

A port identifies its node: it is the node id, plus a thousand for each move to another address. By default files are
small and timeouts short, so that much happens in little time.

Source: Kafka ``RaftEventSimulationTest`` (timeouts), scaled down by five.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Final

from pykraft.config import LogSettings, NodeConfig, RaftConfig
from pykraft.rpc.context import RpcContext
from pykraft.security.principal import Principal
from pykraft.security.settings import Security, SecurityProtocol
from pykraft.sim.scenario.scenario import GroupSettings, ProducerSettings, QuorumSettings, SnapshotSettings
from pykraft.types import Endpoint, Listeners, NodeId, ReplicaKey, Uuid, Voter, VoterSet

LISTENER = "CONTROLLER"
RECORD_SIZE_BYTES = 100
"""Roughly what a record of the workload takes in the log."""
SNAPSHOT_INTERVAL_MS = 1_000
"""After this time a snapshot is due even if the log has hardly grown."""

PORTS_APART = 1_000
SMALL_SEGMENT_BYTES = 2_048


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """The largest frames that a node reads: requests, and answers to its own requests."""

    request_bytes: int
    answer_bytes: int


UNLIMITED: Final = SizeLimits(2**31 - 1, 2**31 - 1)


def size_limits(config: NodeConfig) -> SizeLimits:
    return SizeLimits(config.request_size_bytes_max, config.answer_size_bytes_max)


def node_configs(voter_count: int, observer_count: int, quorum: QuorumSettings, rng: Random) -> list[NodeConfig]:
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
    return [replace(config, log=replace(config.log, recent_size_bytes_max=recent_size_bytes_max)) for config in configs]


def without_operators(configs: Sequence[NodeConfig]) -> list[NodeConfig]:
    return [replace(config, operator_listeners=()) for config in configs]


def with_small_segments(configs: Sequence[NodeConfig]) -> list[NodeConfig]:
    return [replace(config, log=replace(config.log, segment_size_bytes=SMALL_SEGMENT_BYTES)) for config in configs]


def with_snapshots(
    configs: Sequence[NodeConfig], snapshots: SnapshotSettings, records_between: int, rng: Random
) -> list[NodeConfig]:
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


def with_producers(configs: Sequence[NodeConfig], producers: ProducerSettings, rng: Random) -> list[NodeConfig]:
    """These configurations with the quorum's listener open for Kafka's clients, and one draw of small bounds."""
    remembered_max = rng.choice(producers.remembered_max)
    batches_max = rng.choice(producers.accumulated_batches_max)
    return [
        replace(
            config,
            client_listeners=(LISTENER,),
            client_producers_max=remembered_max,
            raft=replace(config.raft, accumulated_batches_max=batches_max),
        )
        for config in configs
    ]


def with_groups(configs: Sequence[NodeConfig], groups: GroupSettings, rng: Random) -> list[NodeConfig]:
    """These configurations with the quorum's listener open for Kafka's clients, and with short sessions."""
    initial_delay_ms = rng.choice(groups.initial_delay_ms)
    return [
        replace(
            config,
            client_listeners=(LISTENER,),
            group_session_timeout_ms_min=1,
            group_initial_delay_ms=initial_delay_ms,
            group_consumer_session_timeout_ms=groups.session_ms,
        )
        for config in configs
    ]


def with_certificates(configs: Sequence[NodeConfig]) -> list[NodeConfig]:
    """These configurations with a listener where whoever connects proves who it is."""
    return [replace(config, security=((LISTENER, Security(SecurityProtocol.SSL)),)) for config in configs]


ACLS: Final = """
--allow-principal User:* --operation All --cluster --topic * --group *
--deny-principal User:ANONYMOUS --operation ClusterAction --cluster
"""
"""Clients and operators prove nothing, and may do everything but what is for nodes."""


def certificate_of(node_id: int) -> Principal:
    """Who shows the certificate of this node."""
    return Principal(f"CN=node-{node_id}", (f"node-{node_id}",))


def listeners_of(node_id: int, moves: int = 0) -> Listeners:
    """Where a node listens in the virtual network after so many moves."""
    return Listeners(((LISTENER, Endpoint(f"node-{node_id}", node_id + moves * PORTS_APART)),))


def rpc_context(config: NodeConfig) -> RpcContext:
    """What a client has to know to speak to this node."""
    return RpcContext(
        cluster_id=config.cluster_id, topic_name=config.topic_name, topic_id=config.topic_id, default_listener=LISTENER
    )


def node_at(port: int) -> int:
    """The node that this port belongs to, now or formerly."""
    return port % PORTS_APART


def moved(config: NodeConfig) -> NodeConfig:
    assert config.node_id is not None
    port = port_of(config)
    listeners = listeners_of(config.node_id, port // PORTS_APART + 1)
    return replace(config, listeners=listeners, advertised_listeners=listeners)


def port_of(config: NodeConfig) -> int:
    endpoint = config.advertised_listeners.get(LISTENER)
    assert endpoint is not None
    return endpoint.port


def newcomer(like: NodeConfig, node_id: int) -> NodeConfig:
    """A node that joins a running world: it knows only the bootstrap servers, and has no directory id yet."""
    listeners = listeners_of(node_id)
    return replace(
        like,
        node_id=NodeId(node_id),
        directory_id=None,
        listeners=listeners,
        advertised_listeners=listeners,
        voters=VoterSet(),
    )
