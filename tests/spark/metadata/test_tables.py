"""Rows have Kafka's words for its numbers, are in the order of their keys, and never hold a secret."""

import json
from dataclasses import asdict

from pykraft.spark.metadata.tables import COLUMNS, KEYS, ddl_of, differences, rows_of
from tests.spark.logs import START_MS
from tests.spark.metadata.made import ORDERS, RETURNS, change, image, made, partition, topic

HIDDEN = "builder"
TOKEN = {"token_id": "t"}


def test_rows_are_in_the_order_of_their_keys_and_say_what_changed_them() -> None:
    found = image(topic(RETURNS, "returns"), topic(), partition(number=1), partition(number=0))
    assert [(row["name"], row["partitions"]) for row in rows_of(found, "topics")] == [("orders", 2), ("returns", 0)]
    rows = rows_of(found, "partitions")
    assert [(row["topic"], row["partition_id"], row["changed_offset"]) for row in rows] == [
        ("orders", 0, 3),
        ("orders", 1, 2),
    ]
    assert rows[0]["topic_id"] == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert rows[0]["changed_ms"] == START_MS + 3_000


def test_no_row_holds_a_secret() -> None:
    found = image(
        made("CONFIG_RECORD", resource_type=4, resource_name="1", name="ssl.key.password", value=HIDDEN),
        made("CONFIG_RECORD", resource_type=2, resource_name="t", name="retention.ms", value="1"),
        made(
            "USER_SCRAM_CREDENTIAL_RECORD",
            name="bob",
            mechanism=2,
            salt=HIDDEN.encode(),
            stored_key=HIDDEN.encode(),
            server_key=HIDDEN.encode(),
            iterations=4096,
        ),
        made("DELEGATION_TOKEN_RECORD", **TOKEN, owner="User:alice", renewers=["User:bob"]),
    )
    tables = {name: rows_of(found, name) for name in COLUMNS}
    assert HIDDEN not in repr(tables)
    assert [row["value"] for row in tables["configs"]] == ["***", "1"]
    (credential,) = tables["credentials"]
    assert list(credential) == ["name", "mechanism", "iterations", "changed_offset", "changed_ms"]
    assert credential["mechanism"] == "SCRAM-SHA-512"


def test_numbers_are_kafkas_words_and_unknown_ones_stay_numbers() -> None:
    rule = {"resource_type": 2, "pattern_type": 3, "permission_type": 3, "principal": "User:bob"}
    found = image(
        made("ACCESS_CONTROL_ENTRY_RECORD", id=ORDERS, operation=3, **rule),
        made("ACCESS_CONTROL_ENTRY_RECORD", id=RETURNS, operation=99, **rule),
    )
    rows = rows_of(found, "acls")
    words = [
        tuple(row[name] for name in ("resource_type", "pattern_type", "operation", "permission_type")) for row in rows
    ]
    assert words == [("topic", "literal", "read", "allow"), ("topic", "literal", "99", "allow")]


def test_endpoints_are_in_the_order_of_their_names() -> None:
    points = [{"name": name, "host": "h", "port": 1, "security_protocol": 0} for name in ("b", "a")]
    (row,) = rows_of(image(made("REGISTER_BROKER_RECORD", broker_id=1, end_points=points)), "brokers")
    assert [point["name"] for point in row["end_points"]] == ["a", "b"]


def test_every_table_has_columns_keys_and_json() -> None:
    assert set(COLUMNS) == set(KEYS)
    assert all(set(KEYS[name]) <= set(COLUMNS[name]) for name in COLUMNS)
    assert ddl_of("features") == "name string, feature_level int, changed_offset bigint, changed_ms bigint"
    quota = made("CLIENT_QUOTA_RECORD", entity=[{"entity_type": "user", "entity_name": None}], key="a", value=1.5)
    other = made("CLIENT_QUOTA_RECORD", entity=[{"entity_type": "user", "entity_name": "x"}], key="a", value=1.5)
    rows = rows_of(image(other, quota), "quotas")
    assert json.loads(json.dumps(rows)) == rows
    assert [row["entity"][0]["entity_name"] for row in rows] == [None, "x"]


def test_rows_are_added_removed_and_changed() -> None:
    before = image(topic(), partition(), made("FEATURE_LEVEL_RECORD", name="a", feature_level=1))
    after = image(topic(), partition(), change(leader=2, isr=[2]), topic(RETURNS, "returns"))
    found = [asdict(each) for each in differences(before, after)]
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
