"""The two views of a quorum that Kafka's ``kafka-metadata-quorum describe`` has, byte for byte, and the same as JSON.

Labels are padded to 24 columns, cells to the width of their column, each followed by a tab, including the last.

Source: Kafka's ``MetadataQuorumCommand`` and ``ToolsUtils.prettyPrintTable``; KIP-595, KIP-836, KIP-853.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pykraft.cli.printable import printable
from pykraft.client.remote.quorum import Quorum, ReplicaState
from pykraft.types import ZERO_UUID, uuid_text

LABEL_WIDTH: Final = 24
COLUMNS: Final = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)


def status_lines(found: Quorum) -> Iterator[str]:
    """``describe --status``."""
    for name, value in status_json(found).items():
        shown = json.dumps(value) if isinstance(value, list) else printable(str(value))
        label = f"{name[0].upper()}{name[1:]}:"
        yield f"{label:<{LABEL_WIDTH}}{shown}"


def status_json(found: Quorum) -> dict[str, Any]:
    """The same, for programs; the names are Kafka's labels."""
    return {
        "clusterId": found.cluster_id,
        "leaderId": found.leader_id,
        "leaderEpoch": found.epoch,
        "highWatermark": -1 if found.high_watermark is None else found.high_watermark,
        "maxFollowerLag": found.max_follower_lag,
        "maxFollowerLagTimeMs": found.max_follower_lag_ms,
        "currentVoters": [_node_json(each) for each in found.voters],
        "currentObservers": [_node_json(each) for each in found.observers],
    }


def _node_json(replica: ReplicaState) -> dict[str, Any]:
    """A node; unknown fields are left out."""
    shown: dict[str, Any] = {"id": replica.key.id}
    if replica.key.directory_id is not None:
        shown["directoryId"] = uuid_text(replica.key.directory_id)
    if len(replica.listeners):
        shown["endpoints"] = [f"{name}://{endpoint}" for name, endpoint in replica.listeners]
    return shown


def row_json(found: Quorum, replica: ReplicaState) -> dict[str, Any]:
    """One row of ``describe --replication``; offsets and times (wall ms) are -1 if unknown."""
    return {
        "nodeId": replica.key.id,
        "directoryId": uuid_text(replica.key.directory_id or ZERO_UUID),
        "logEndOffset": replica.log_end_offset,
        "lag": found.lag(replica),
        "lastFetchTimestamp": replica.last_fetch_ms,
        "lastCaughtUpTimestamp": replica.last_caught_up_ms,
        "status": replica.role.value,
    }


def table(found: Quorum, now_ms: int | None = None) -> list[list[str]]:
    """``describe --replication`` as cells; with ``now_ms`` (wall), times are shown as ages."""
    rows = [list(COLUMNS)]
    for replica in found.replicas:
        shown = row_json(found, replica)
        if now_ms is not None:
            for name in ("lastFetchTimestamp", "lastCaughtUpTimestamp"):
                if shown[name] >= 0:
                    shown[name] = f"{now_ms - shown[name]} ms ago"
        rows.append([str(value) for value in shown.values()])
    return rows


def table_lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Cells as Kafka prints a table."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True))
