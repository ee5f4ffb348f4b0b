"""What a node is configured to do, as values; Kafka's defaults. Text is parsed in ``properties``.

Source: Kafka ``QuorumConfig``; KIP-595 §Configurations.
"""

from __future__ import annotations

from dataclasses import dataclass


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
