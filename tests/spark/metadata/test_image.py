"""Records change the image as they change Kafka's: what replaces, what is kept, what goes with a topic."""

from typing import Any

import pytest

from pykraft.errors import ProtocolError
from pykraft.protocol.metadata.record import MetadataRecord
from pykraft.protocol.records import Record
from pykraft.spark.metadata.image import LeaderHistory, MetadataImage, logged_record
from pykraft.spark.metadata.tables import COLUMNS
from pykraft.types import Offset
from tests.spark.metadata.made import ORDERS, RETURNS, change, image, image_of, logged, made, partition, topic, value

TOKEN = {"token_id": "t"}
BEGIN, END, ABORT = (made(f"{name}_TRANSACTION_RECORD") for name in ("BEGIN", "END", "ABORT"))


def body(found: MetadataImage, table: str) -> dict[str, Any]:
    """The fields of the only row of a table."""
    (entry,) = getattr(found, table).values()
    known: dict[str, Any] = entry.body
    return known


def test_a_change_of_a_partition_keeps_what_it_does_not_name() -> None:
    found = image(topic(), partition(directories=[RETURNS]), change(isr=[1, 2]), change(leader=2, isr=[2]))
    row = body(found, "partitions")
    assert (row["leader"], row["leader_epoch"], row["isr"], row["partition_epoch"]) == (2, 1, [2], 2)
    assert (row["replicas"], row["directories"]) == ([1, 2, 3], [RETURNS])


def test_a_change_that_names_the_same_leader_begins_a_leader_epoch() -> None:
    found = image(topic(), partition(), change(leader=1), change(leader=-1, leader_recovery_state=1))
    row = body(found, "partitions")
    assert (row["leader"], row["leader_epoch"], row["leader_recovery_state"]) == (-1, 2, 1)


def test_replicas_that_may_lead_are_cleared_of_one_topic_or_of_all() -> None:
    elr: dict[str, Any] = {"isr": [], "eligible_leader_replicas": [1], "last_known_elr": [2]}
    both = (topic(), partition(**elr), topic(RETURNS, "returns"), partition(RETURNS, **elr))
    for name, cleared in (("orders", [True, False]), ("", [True, True]), ("other", [False, False])):
        found = image(*both, made("CLEAR_ELR_RECORD", topic_name=name))
        rows = [found.partitions[topic_id, 0].body for topic_id in (ORDERS, RETURNS)]
        assert [row["eligible_leader_replicas"] == [] for row in rows] == cleared
        assert [row["last_known_elr"] == [] for row in rows] == cleared


def test_a_removed_topic_takes_its_partitions_and_configurations_with_it() -> None:
    config = {"resource_type": 2, "name": "retention.ms", "value": "1"}
    found = image(
        topic(),
        partition(),
        partition(number=1),
        topic(RETURNS, "returns"),
        partition(RETURNS),
        made("CONFIG_RECORD", resource_name="orders", **config),
        made("CONFIG_RECORD", resource_name="returns", **config),
        made("CONFIG_RECORD", resource_name="orders", **config | {"resource_type": 4}),
        made("REMOVE_TOPIC_RECORD", topic_id=ORDERS),
        made("REMOVE_TOPIC_RECORD", topic_id=bytes(16)),
        change(),
    )
    assert list(found.topics) == [(RETURNS,)]
    assert list(found.partitions) == [(RETURNS, 0)]
    assert {key[:2] for key in found.configs} == {(2, "returns"), (4, "orders")}


def broker(**fields: Any) -> MetadataRecord:
    return made("REGISTER_BROKER_RECORD", broker_id=4, **fields)


@pytest.mark.parametrize(
    ("records", "fields"),
    [
        ([broker()], {"fenced": True, "in_controlled_shutdown": False}),
        ([made("UNFENCE_BROKER_RECORD", id=4)], {"fenced": False}),
        ([made("BROKER_REGISTRATION_CHANGE_RECORD", broker_id=4, fenced=-1)], {"fenced": False}),
        ([made("UNFENCE_BROKER_RECORD", id=4), made("FENCE_BROKER_RECORD", id=4)], {"fenced": True}),
        (
            [made("BROKER_REGISTRATION_CHANGE_RECORD", broker_id=4, in_controlled_shutdown=1, log_dirs=[ORDERS])],
            {"in_controlled_shutdown": True, "log_dirs": [ORDERS], "fenced": True},
        ),
        (
            [made("BROKER_REGISTRATION_CHANGE_RECORD", broker_id=4, cordoned_log_dirs=[ORDERS])],
            {"cordoned_log_dirs": [ORDERS], "log_dirs": [RETURNS]},
        ),
        ([made("FENCE_BROKER_RECORD", id=5)], {"broker_id": 4}),
    ],
)
def test_a_broker_is_as_its_last_changes_left_it(records: list[MetadataRecord], fields: dict[str, Any]) -> None:
    row = body(image(broker(log_dirs=[RETURNS]), *records), "brokers")
    assert row | fields == row


@pytest.mark.parametrize(
    ("table", "there", "gone"),
    [
        ("brokers", broker(), made("UNREGISTER_BROKER_RECORD", broker_id=4)),
        (
            "controllers",
            made("REGISTER_CONTROLLER_RECORD", controller_id=1),
            made("UNREGISTER_CONTROLLER_RECORD", controller_id=1),
        ),
        (
            "features",
            made("FEATURE_LEVEL_RECORD", name="group.version", feature_level=1),
            made("FEATURE_LEVEL_RECORD", name="group.version", feature_level=0),
        ),
        (
            "configs",
            made("CONFIG_RECORD", resource_type=4, name="a", value="b"),
            made("CONFIG_RECORD", resource_type=4, name="a", value=None),
        ),
        ("acls", made("ACCESS_CONTROL_ENTRY_RECORD", id=ORDERS), made("REMOVE_ACCESS_CONTROL_ENTRY_RECORD", id=ORDERS)),
        (
            "quotas",
            made("CLIENT_QUOTA_RECORD", entity=[{"entity_type": "user", "entity_name": None}], key="a", value=1.0),
            made("CLIENT_QUOTA_RECORD", entity=[{"entity_type": "user", "entity_name": None}], key="a", remove=True),
        ),
        (
            "credentials",
            made("USER_SCRAM_CREDENTIAL_RECORD", name="bob", mechanism=1),
            made("REMOVE_USER_SCRAM_CREDENTIAL_RECORD", name="bob", mechanism=1),
        ),
        ("tokens", made("DELEGATION_TOKEN_RECORD", **TOKEN), made("REMOVE_DELEGATION_TOKEN_RECORD", **TOKEN)),
    ],
)
def test_what_was_added_is_there_until_it_is_removed(table: str, there: MetadataRecord, gone: MetadataRecord) -> None:
    assert [name for name in COLUMNS if getattr(image(there), name)] == [table]
    assert len(getattr(image(there, there), table)) == 1
    assert getattr(image(there, gone, gone), table) == {}


def test_producer_ids_are_those_of_the_last_record() -> None:
    found = image(*(made("PRODUCER_IDS_RECORD", next_producer_id=number) for number in (1_000, 2_000)))
    assert body(found, "producer_ids")["next_producer_id"] == 2_000


def test_a_transaction_counts_when_it_ends_and_never_if_it_is_aborted() -> None:
    assert image(BEGIN, topic()).topics == {}
    assert list(image(BEGIN, topic(), partition(), END).partitions) == [(ORDERS, 0)]
    assert list(image(BEGIN, topic(), ABORT, topic(RETURNS, "returns")).topics) == [(RETURNS,)]
    assert image(END, ABORT, made("NO_OP_RECORD")).topics == {}


def test_it_knows_how_far_it_is() -> None:
    records = logged([topic(), made("NO_OP_RECORD")])
    found = image_of(records)
    assert (found.end_offset, found.last_timestamp_ms) == (2, records[1].timestamp_ms)
    assert (image_of([]).end_offset, image_of([]).last_timestamp_ms) == (0, None)


def record(data: bytes) -> Record:
    return Record(Offset(7), 5, sequence=-1, key=None, value=data)


def test_a_record_has_its_place() -> None:
    found = logged_record("n1", record(value(topic())))
    assert (found.offset, found.end_offset, found.timestamp_ms, found.record) == (7, 8, 5, topic())


def test_a_value_that_is_no_metadata_record_names_its_place() -> None:
    with pytest.raises(ProtocolError, match="n1: offset 7: not a metadata record"):
        logged_record("n1", record(b"hello"))


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
