"""A log of two replicas whose tables are known, so that runs in different processes have something to agree on.

The pipeline must make these tables wherever it runs: in a local session, and on a cluster by spark-submit and by the
command line. `DIGESTS` are those of the local session's; a change of the tables' columns changes them.
"""

import hashlib
import json
from pathlib import Path

from deltalake import DeltaTable

from pykraft.protocol.records import encode_control_batch
from pykraft.spark.tables.names import BRONZE, CONTROL, RECORDS, TABLES
from pykraft.types import Epoch, LeaderChange, NodeId, Offset
from tests.spark.logs import START_MS, batch, payload, write_segment

RECORDS_PER_TRIGGER = 150
"""Several micro-batches."""
COUNTS = {BRONZE: 46, RECORDS: 222, CONTROL: 2}
DIGESTS = {BRONZE: "242f01504c37878b", RECORDS: "7d573656ec96000e", CONTROL: "8f0ec46a5107e661"}


def write_log(folder: Path) -> str:
    """Two replicas, one longer than the other, in two segments each; a glob of them."""
    for replica, batches in (("n1", 24), ("n2", 20)):
        change = LeaderChange(leader_id=NodeId(1), voters=(NodeId(1), NodeId(2)), granting_voters=(NodeId(1),))
        parts = [encode_control_batch([change], base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=START_MS).data]
        for index in range(batches):
            values = [payload(5 * index + place, epoch=1) for place in range(5)]
            parts.append(batch(values, base_offset=5 * index + 1, epoch=1, timestamp_ms=START_MS + index))
        write_segment(folder / replica / "p-0", b"".join(parts[:11]))
        write_segment(folder / replica / "p-0", b"".join(parts[11:]), base_offset=51)
    return str(folder / "n*" / "p-0")


def counts_of(tables: Path) -> dict[str, int]:
    """The rows of each table."""
    return {name: DeltaTable(tables / name).to_pyarrow_table().num_rows for name in TABLES}


def digests_of(tables: Path) -> dict[str, str]:
    """A digest of all values of each table, in the order of the log."""
    found = {}
    for name in TABLES:
        rows = DeltaTable(tables / name).to_pyarrow_table().to_pylist()
        rows.sort(key=lambda row: (row["replica"], row.get("offset", row.get("base_offset"))))
        text = "\n".join(json.dumps(row, default=_text, sort_keys=True) for row in rows)
        found[name] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return found


def _text(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
