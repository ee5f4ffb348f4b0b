"""Differences name each row that was added, removed or changed, and nothing else."""

from __future__ import annotations

from pykraft.spark.metadata.difference import differences
from tests.spark.metadata.made import ORDERS, RETURNS, change, image, made, partition, topic


def test_rows_are_added_removed_and_changed() -> None:
    before = image(topic(), partition(), made("FEATURE_LEVEL_RECORD", name="a", feature_level=1))
    after = image(topic(), partition(), change(leader=2, isr=[2]), topic(RETURNS, "returns"))
    found = [each.as_json() for each in differences(before, after)]
    assert [(each["table"], each["change"]) for each in found] == [
        ("topics", "added"),
        ("partitions", "changed"),
        ("features", "removed"),
    ]
    assert found[1]["before"] == {"leader": 1, "leader_epoch": 0, "partition_epoch": 0, "isr": [1, 2, 3]}
    assert found[1]["after"] == {"leader": 2, "leader_epoch": 1, "partition_epoch": 1, "isr": [2]}
    assert found[1]["key"] == {"topic": "orders", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partition_id": 0}
    assert (found[0]["before"], found[2]["after"]) == (None, None)


def test_the_time_of_a_change_is_no_difference() -> None:
    once, again = image(topic()), image(made("NO_OP_RECORD"), topic())
    assert list(differences(once, again)) == []


def test_a_topic_that_was_made_again_is_another_one() -> None:
    again = image(topic(), made("REMOVE_TOPIC_RECORD", topic_id=ORDERS), topic(RETURNS))
    assert [each.change for each in differences(image(topic()), again)] == ["removed", "added"]
