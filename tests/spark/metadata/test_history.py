"""The history has a row for each new leader or ISR, and none for other changes."""

from __future__ import annotations

from pykraft.spark.metadata.history import LeaderHistory
from pykraft.spark.metadata.image import MetadataImage
from tests.spark.metadata.made import ORDERS, change, logged, made, partition, topic


def test_each_change_of_leader_or_isr_is_a_row() -> None:
    history = LeaderHistory(MetadataImage())
    records = [
        topic(),
        partition(),
        change(isr=[1, 2]),
        change(adding_replicas=[4]),
        change(leader=2, isr=[2]),
        change(number=7, leader=3),
        made("BEGIN_TRANSACTION_RECORD"),
        change(isr=[2, 1]),
        made("END_TRANSACTION_RECORD"),
        made("REMOVE_TOPIC_RECORD", topic_id=ORDERS),
    ]
    rows = [row for each in logged(records) for row in history.take(each)]
    told = [(row["topic"], row["offset"], row["leader"], row["leader_epoch"], row["isr"]) for row in rows]
    assert told == [
        ("orders", 1, 1, 0, [1, 2, 3]),
        ("orders", 2, 1, 0, [1, 2]),
        ("orders", 4, 2, 1, [2]),
        ("orders", 7, 2, 1, [2, 1]),
    ]
