"""The names of the pipeline's tables and of its checkpoint in their folder, and of its query."""

from __future__ import annotations

from typing import Final

BRONZE: Final = "bronze_batches"
RECORDS: Final = "silver_records"
CONTROL: Final = "silver_control"
TABLES: Final = (BRONZE, RECORDS, CONTROL)
ACKNOWLEDGED: Final = "silver_acknowledged"
LOOKS: Final = "silver_looks"
"""Measurements from outside, if there are any: acknowledgements, and samples of a live quorum."""
THROUGHPUT: Final = "gold_throughput"
EPOCHS: Final = "gold_epochs"
COMMIT_LATENCY: Final = "gold_commit_latency"
REPLICA_LAG: Final = "gold_replica_lag"
ALL_TABLES: Final = (*TABLES, ACKNOWLEDGED, LOOKS, THROUGHPUT, EPOCHS, COMMIT_LATENCY, REPLICA_LAG)
COLUMNS: Final = "_columns.json"
"""The file in a Parquet table that has its columns."""
CHECKPOINT: Final = "_checkpoint"
QUERY: Final = "pykraft pipeline"
"""The name of the streaming query in Spark's reports and in metrics."""
