"""What the pipeline's tables and its checkpoint are called in their folder."""

from __future__ import annotations

from typing import Final

BRONZE: Final = "bronze_batches"
RECORDS: Final = "silver_records"
CONTROL: Final = "silver_control"
PAYLOADS: Final = "silver_payloads"
TABLES: Final = (BRONZE, RECORDS, CONTROL, PAYLOADS)
CHECKPOINT: Final = "_checkpoint"
