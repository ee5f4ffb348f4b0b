"""The names of the pipeline's tables and of its checkpoint in their folder, and of its query; defaults of upkeep.

Without imports, for the command line.
"""

from typing import Final

BRONZE: Final = "bronze_batches"
RECORDS: Final = "silver_records"
CONTROL: Final = "silver_control"
TABLES: Final = (BRONZE, RECORDS, CONTROL)
THROUGHPUT: Final = "gold_throughput"
EPOCHS: Final = "gold_epochs"
ALL_TABLES: Final = (*TABLES, THROUGHPUT, EPOCHS)
PARQUET_COLUMNS: Final = "_columns.json"
"""The file that a Parquet table of an earlier version has."""
CHECKPOINT: Final = "_checkpoint"
QUERY: Final = "pykraft pipeline"
"""The name of the streaming query in Spark's reports and in metrics."""
TARGET_SIZE_BYTES: Final = 128 * 1024 * 1024
"""Size of the files that small ones become."""
RETENTION_HOURS: Final = 7 * 24
"""How long removed files stay for readers: Delta's own default."""
UPKEEP_INTERVAL: Final = 100
"""Micro-batches of a stream from one compaction to the next."""
