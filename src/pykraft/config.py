"""What a node is configured to do, as values; Kafka's defaults. Text is parsed in ``properties``.

Source: Kafka ``QuorumConfig``; KIP-595 §Configurations.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pykraft.types import Endpoint, Listeners, NodeId, Uuid, VoterSet

TEST_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""Cluster id of every Kafka TestRaftServer."""
TEST_TOPIC_NAME = "__raft_performance_test"
TEST_TOPIC_ID = Uuid(bytes(15) + b"\2")


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """Timers in ms, sizes in bytes; names after ``controller.quorum.*``."""

    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    election_backoff_max_ms: int = 1_000
    append_linger_ms: int = 25
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    fetch_size_bytes_max: int = 1_048_576
    fetch_snapshot_size_bytes_max: int = 1_048_576
    fetch_wait_ms_max: int = 500
    batch_size_bytes_max: int = 8_388_608
    accumulated_batches_max: int = 10
    leader_send_flushed_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """How the log is cut into files; names after ``metadata.log.*`` and ``segment.index.bytes``."""

    segment_size_bytes: int = 1_073_741_824
    segment_ms: int = 604_800_000
    index_interval_bytes: int = 4_096
    index_size_bytes_max: int = 10_485_760


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """One node: who it is, where it listens and keeps its log, whom it votes with.

    ``listeners`` are bound, ``advertised_listeners`` told to others; the first of
    ``controller_listener_names`` is the one that voters dial. ``directory_id`` is None when it is to be read
    from the log directory, or made up at the first start. A node without ``node_id`` only observes.
    """

    node_id: NodeId | None
    cluster_id: str = TEST_CLUSTER_ID
    directory_id: Uuid | None = None
    listeners: Listeners
    advertised_listeners: Listeners
    controller_listener_names: tuple[str, ...]
    voters: VoterSet
    bootstrap_servers: tuple[Endpoint, ...] = ()
    log_dir: Path
    topic_name: str = TEST_TOPIC_NAME
    topic_id: Uuid = TEST_TOPIC_ID
    request_size_bytes_max: int = 104_857_600
    connections_idle_ms_max: int = 600_000
    log: LogSettings = LogSettings()
    raft: RaftConfig = RaftConfig()

    @property
    def default_listener(self) -> str:
        """Name of the listener that voters dial."""
        return self.controller_listener_names[0]

    @property
    def partition_directory(self) -> Path:
        """Where the one partition of the topic keeps its files."""
        return self.log_dir / f"{self.topic_name}-0"
