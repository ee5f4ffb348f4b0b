"""The leaders and in-sync replicas of partitions over time: a row for each change.

Input: records in the order of the log, applied to an image. Output columns:

| column | type | meaning |
|---|---|---|
| topic, topic_id | string | |
| partition_id | int | |
| offset | bigint | of the record; null for the state in a snapshot, from which the history begins |
| wall_ms | bigint | time of its append |
| leader | int | -1: none |
| leader_epoch | int | |
| isr | array<int> | |

Source: KIP-631, KIP-841.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pykraft.spark.metadata.image import MetadataImage
from pykraft.spark.metadata.logged import LoggedRecord
from pykraft.spark.metadata.tables import TableRow
from pykraft.types import Uuid, uuid_text

HISTORY_DDL: Final = (
    "topic string, topic_id string, partition_id int, offset bigint, wall_ms bigint, leader int, leader_epoch int, "
    "isr array<int>"
)
_TYPES: Final = ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD")
_TOLD: Final = ("leader", "leader_epoch", "isr")


class LeaderHistory:
    """Follows an image, and tells the changes."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._told: dict[tuple[bytes, int], tuple[object, ...]] = {}

    def take(self, logged: LoggedRecord) -> Iterator[TableRow]:
        """Apply a record to the image; a row for each partition whose leader, leader epoch or ISR it changed.

        The changes of a transaction are told when it ends, and each partition once.
        """
        effective = self._image.apply(logged)
        return (row for each in effective if each.record.type in _TYPES for row in self._changes(each))

    def _changes(self, logged: LoggedRecord) -> Iterator[TableRow]:
        topic_id, partition_id = key = (logged.record.body["topic_id"], logged.record.body["partition_id"])
        entry = self._image.partitions.get(key)
        now = None if entry is None else tuple(entry.body[name] for name in _TOLD)
        if now is None or self._told.get(key) == now:
            return
        self._told[key] = now
        yield {
            "topic": self._image.topic_name(topic_id),
            "topic_id": uuid_text(Uuid(topic_id)),
            "partition_id": partition_id,
            "offset": logged.offset,
            "wall_ms": logged.timestamp_ms,
            **dict(zip(_TOLD, now, strict=True)),
        }
