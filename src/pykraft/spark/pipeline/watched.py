"""Tables of measurements from outside of a quorum: the acknowledgements of its nodes, and samples of its state.

The log does not show how long a commit took, nor how far a replica was behind; a journal and a sampler do. Invariant:
one row for each acknowledgement, and one for each replica in each answered sample.

Source: `pykraft.local.journal`; `pykraft.local.sampler`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from pykraft.errors import ProtocolError, UsageError
from pykraft.local.journal import Acknowledged, parse_event
from pykraft.local.sampler import QuorumSample

ACKNOWLEDGED_COLUMNS = (
    "node int, run string, epoch int, first_sequence bigint, count bigint, base_offset bigint, wall_ms bigint, "
    "latency_ms double"
)
LOOK_COLUMNS = "wall_ms bigint, leader_id int, epoch int, node int, log_end_offset bigint, last_caught_up_ms bigint"


def acknowledgements(spark: SparkSession, said: Iterable[Acknowledged]) -> DataFrame:
    """One row for each acknowledgement, with the columns of `ACKNOWLEDGED_COLUMNS`, for `commit_latency`."""
    rows = [
        (
            *(int(one.node), one.run.hex(), int(one.epoch), one.first_sequence, one.count, int(one.base_offset)),
            *(one.wall_ms, float(one.latency_ms)),
        )
        for one in said
    ]
    return spark.createDataFrame(rows, ACKNOWLEDGED_COLUMNS)


def looks(spark: SparkSession, samples: Iterable[QuorumSample]) -> DataFrame:
    """One row for each replica in each sample, with the columns of `LOOK_COLUMNS`, for `replica_lag`."""
    rows = [
        (
            *(sample.wall_ms, sample.leader_id, sample.epoch, node_id),
            *(replica.log_end_offset, replica.last_caught_up_ms),
        )
        for sample in samples
        for node_id, replica in sample.replicas.items()
    ]
    return spark.createDataFrame(rows, LOOK_COLUMNS)


def read_journal(path: Path) -> list[Acknowledged]:
    """The acknowledgements in a journal file; an incomplete last line is ignored. Errors: UsageError."""
    try:
        with path.open("rb") as lines:
            events = [parse_event(line) for line in lines if line.endswith(b"\n")]
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except ProtocolError as error:
        raise UsageError(f"{path}: {error}") from error
    return [event for event in events if isinstance(event, Acknowledged)]
