"""What the pipeline's tables and its checkpoint are called in their folder."""

from __future__ import annotations

from typing import Final

BRONZE: Final = "bronze_batches"
RECORDS: Final = "silver_records"
CONTROL: Final = "silver_control"
PAYLOADS: Final = "silver_payloads"
TABLES: Final = (BRONZE, RECORDS, CONTROL, PAYLOADS)
ACKNOWLEDGED: Final = "silver_acknowledged"
LOOKS: Final = "silver_looks"
"""What was watched from outside, where somebody wrote it: acknowledgements, and looks at a live quorum."""
THROUGHPUT: Final = "gold_throughput"
EPOCHS: Final = "gold_epochs"
COMMIT_LATENCY: Final = "gold_commit_latency"
REPLICA_LAG: Final = "gold_replica_lag"
CHECKPOINT: Final = "_checkpoint"
