"""Configurations of the nodes of a world: small files and short timeouts, so that much happens in little time.

Source: Kafka ``RaftEventSimulationTest`` (timeouts), scaled down by five.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from pykraft.config import LogSettings, NodeConfig, RaftConfig
from pykraft.types import Endpoint, Listeners, NodeId, ReplicaKey, Uuid, Voter, VoterSet

LISTENER = "CONTROLLER"
SEGMENT_SIZE_BYTES = 16_384
INDEX_SIZE_BYTES_MAX = 4_096


def node_configs(voter_count: int, observer_count: int, rng: Random) -> list[NodeConfig]:
    """Voters from id 1 on, then observers; all share one draw of timeouts. A node's port is its id."""
    raft = RaftConfig(
        election_timeout_ms=200,
        fetch_timeout_ms=500,
        election_backoff_max_ms=100,
        request_timeout_ms=500,
        append_linger_ms=rng.choice((0, 0, 5, 25)),
        fetch_wait_ms_max=rng.choice((50, 200)),
        fetch_size_bytes_max=rng.choice((2_000, 64_000)),
        leader_send_flushed_only=rng.random() < 0.1,
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
            log=LogSettings(segment_size_bytes=SEGMENT_SIZE_BYTES, index_size_bytes_max=INDEX_SIZE_BYTES_MAX),
            raft=raft,
        )
        for node_id in range(1, voter_count + observer_count + 1)
    ]


def listeners_of(node_id: int) -> Listeners:
    """Where a node listens in the virtual network."""
    return Listeners(((LISTENER, Endpoint(f"node-{node_id}", node_id)),))
