"""A request of which a client may have a part: that part is served, and each other row is refused where it stands.

Who may do nothing at all is in `tests.host.test_authorization`.

Source: Kafka's ``KafkaApis``.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.config import METADATA_TOPIC_ID, METADATA_TOPIC_NAME
from pykraft.host.clients.client_rights import Screen
from pykraft.protocol.messages import ApiKey
from pykraft.security.principal import Principal
from pykraft.types import Uuid
from tests.host.clients.world import Leader, batch_of, fetch, produce
from tests.host.fakes import TOPIC_ID, TOPIC_NAME

TOPIC_CODE, GROUP_CODE, CLUSTER_CODE = 29, 30, 31
ALL = f"--allow-principal User:client --operation All --topic {TOPIC_NAME} --group mine --cluster"
CLIENT = f"--allow-principal User:client --operation All --topic {TOPIC_NAME} --group mine"
OTHER = METADATA_TOPIC_NAME
"""Another name of the topic, for which there is no rule."""


def rows(told: Any, *keys: str) -> dict[Any, int]:
    """The codes of the rows of an answer, by the first of these keys that a row has."""
    [found] = [value for value in told.values() if isinstance(value, list) and value]
    return {next(row[key] for key in keys if row.get(key) not in (None, Uuid(bytes(16)))): _code(row) for row in found}


def _code(row: Any) -> int:
    parts = row.get("partitions") or row.get("partition_responses") or ()
    return int(row.get("error_code", 0) or next((part["error_code"] for part in parts), 0))


@pytest.mark.parametrize(("version", "by"), [(9, "name"), (13, "topic_id")])
def test_records_for_one_topic_are_appended_and_for_the_other_refused(version: int, by: str) -> None:
    leader = Leader(acls=CLIENT)
    body = produce(batch_of()[1])
    body["topic_data"] += produce(batch_of()[1], name=OTHER)["topic_data"]
    for topic in body["topic_data"] if by == "topic_id" else ():
        topic["name"] = ""
    leader.ask(ApiKey.PRODUCE, version, body)
    leader.take()
    names = (TOPIC_NAME, OTHER) if by == "name" else (TOPIC_ID, METADATA_TOPIC_ID)
    assert rows(leader.answer(), by) == {names[0]: 0, names[1]: TOPIC_CODE}
    assert leader.recent.end_offset == 1
    assert "Write on Topic:" in leader.ports.reports[-1]


def test_a_producer_that_wants_no_answer_loses_its_connection() -> None:
    leader = Leader(acls=CLIENT)
    leader.ask(ApiKey.PRODUCE, 9, produce(batch_of()[1], name=OTHER, acks=0))
    assert [str(error) for error in leader.closed] == [
        "a Produce request with acks 0 failed: TOPIC_AUTHORIZATION_FAILED"
    ]
    assert leader.inbox.take() is None


def test_a_fetch_of_both_topics_has_records_of_one() -> None:
    leader = Leader(acls=CLIENT)
    leader.append(batch_of())
    body = fetch(0)
    body["topics"] += fetch(0, topic=OTHER)["topics"]
    leader.ask(ApiKey.FETCH, 11, body)
    told = leader.answer()
    assert rows(told, "topic") == {TOPIC_NAME: 0, OTHER: TOPIC_CODE}
    assert [bool(row["partitions"][0]["records"]) for row in told["responses"]] == [True, False]


@pytest.mark.parametrize("version", [0, 1, 9, 12])
def test_metadata_lists_what_may_be_described(version: int) -> None:
    for acls, listed in ((CLIENT, True), ("", False)):
        leader = Leader(acls=acls, client_topic=TOPIC_NAME)
        leader.ask(ApiKey.METADATA, version, {"topics": [] if version == 0 else None})
        told = leader.answer()
        assert bool(told["topics"]) == listed
        assert told["brokers"]


@pytest.mark.parametrize("version", [0, 1, 9, 12])
def test_metadata_refuses_named_topics_and_still_tells_the_nodes(version: int) -> None:
    leader = Leader(acls=CLIENT)
    asked = [{"name": name, "topic_id": Uuid(bytes(16))} for name in (TOPIC_NAME, OTHER)]
    leader.ask(ApiKey.METADATA, version, {"topics": asked})
    told = leader.answer()
    assert (rows({"topics": told["topics"]}, "name"), bool(told["brokers"])) == (
        {TOPIC_NAME: 0, OTHER: TOPIC_CODE},
        True,
    )
    leader.ask(ApiKey.METADATA, version, {"topics": asked[1:]})
    told = leader.answer()
    assert (rows({"topics": told["topics"]}, "name"), bool(told["brokers"])) == ({OTHER: TOPIC_CODE}, True)


def test_metadata_refuses_an_id_under_the_id() -> None:
    leader = Leader(acls=CLIENT)
    unknown = Uuid(bytes(range(16)))
    asked = [{"name": None, "topic_id": each} for each in (METADATA_TOPIC_ID, unknown)]
    leader.ask(ApiKey.METADATA, 12, {"topics": asked})
    found = leader.answer()["topics"]
    assert {row["topic_id"]: row["error_code"] for row in found} == {METADATA_TOPIC_ID: TOPIC_CODE, unknown: 100}
    leader.ask(ApiKey.METADATA, 10, {"topics": asked[:1]})
    assert leader.answer()["topics"][0]["error_code"] == 42  # no name where this version needs one


def test_topic_partitions_are_described_as_in_metadata() -> None:
    leader = Leader(acls=CLIENT)
    body = {"topics": [{"name": TOPIC_NAME}, {"name": OTHER}], "cursor": None, "response_partition_limit": 10}
    leader.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, body)
    assert rows(leader.answer(), "name") == {TOPIC_NAME: 0, OTHER: TOPIC_CODE}
    for acls, listed in ((CLIENT, 1), ("", 0)):
        leader = Leader(acls=acls)
        leader.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, body | {"topics": []})
        assert len(leader.answer()["topics"]) == listed


@pytest.mark.parametrize("key", [ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH])
def test_offsets_of_a_topic_are_told_to_whoever_may_describe_it(key: ApiKey) -> None:
    leader = Leader(acls=CLIENT)
    name, part = ("name", "partition_index") if key == ApiKey.LIST_OFFSETS else ("topic", "partition")
    wanted = {part: 0, "current_leader_epoch": -1, "timestamp": -1, "leader_epoch": 4}
    topics = [{name: each, "partitions": [wanted]} for each in (TOPIC_NAME, OTHER)]
    leader.ask(key, 3, {"replica_id": -1, "isolation_level": 0, "topics": topics})
    assert rows(leader.answer(), name) == {TOPIC_NAME: 0, OTHER: TOPIC_CODE}


def test_settings_are_refused_by_what_they_are_of() -> None:
    leader = Leader(acls=CLIENT)
    asked = [(2, TOPIC_NAME), (2, OTHER), (4, "1"), (32, "mine"), (32, "yours"), (9, "x")]
    resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": None} for kind, name in asked]
    leader.ask(ApiKey.DESCRIBE_CONFIGS, 4, {"resources": resources})
    found = {(row["resource_type"], row["resource_name"]): row["error_code"] for row in leader.answer()["results"]}
    codes = (0, TOPIC_CODE, CLUSTER_CODE, 42, GROUP_CODE, 42)
    assert found == dict(zip(asked, codes, strict=True))


@pytest.mark.parametrize(
    ("acls", "code"),
    [
        (f"--allow-principal User:client --operation Write --topic {TOPIC_NAME}", 0),
        ("--allow-principal User:client --operation IdempotentWrite --cluster", 0),
        (f"--allow-principal User:client --operation Read --topic {TOPIC_NAME}", CLUSTER_CODE),
    ],
)
def test_an_idempotent_producer_may_write_to_the_topic_or_idempotently(acls: str, code: int) -> None:
    leader = Leader(acls=acls)
    body = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}
    leader.ask(ApiKey.INIT_PRODUCER_ID, 4, body)
    assert leader.answer()["error_code"] == code


def test_a_coordinator_is_found_for_groups_that_may_be_described() -> None:
    leader = Leader(acls=CLIENT)
    leader.ask(ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["mine", "yours"]})
    assert rows(leader.answer(), "key") == {"mine": 0, "yours": GROUP_CODE}
    leader.ask(ApiKey.FIND_COORDINATOR, 1, {"key": "yours", "key_type": 0, "coordinator_keys": []})
    told = leader.answer()
    assert (told["error_code"], told["node_id"]) == (GROUP_CODE, -1)
    leader.ask(ApiKey.FIND_COORDINATOR, 4, {"key_type": 1, "coordinator_keys": ["a transaction"]})
    assert rows(leader.answer(), "key") == {"a transaction": 53}


def commit(leader: Leader, group_id: str) -> None:
    """An offset of the topic for a group without members; the answer is left."""
    part = {"partition_index": 0, "committed_offset": 7, "committed_leader_epoch": -1, "committed_metadata": ""}
    topics = [{"name": name, "partitions": [part]} for name in (TOPIC_NAME, OTHER)]
    leader.ask(
        ApiKey.OFFSET_COMMIT,
        8,
        {
            "group_id": group_id,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": topics,
        },
    )


def test_offsets_are_committed_for_one_topic_and_one_group() -> None:
    leader = Leader(acls=CLIENT)
    commit(leader, "mine")
    leader.take()
    assert rows(leader.answer(), "name") == {TOPIC_NAME: 0, OTHER: TOPIC_CODE}
    commit(leader, "yours")
    assert rows(leader.answer(), "name") == {TOPIC_NAME: GROUP_CODE, OTHER: GROUP_CODE}
    assert set(leader.groups.table.groups) == {"mine"}


@pytest.mark.parametrize("version", [1, 2, 7, 8, 9])
def test_offsets_of_one_topic_and_one_group_are_told(version: int) -> None:
    leader = Leader(acls=CLIENT)
    commit(leader, "mine")
    leader.take()
    leader.answer()
    topics = [{"name": name, "partition_indexes": [0]} for name in (TOPIC_NAME, OTHER)]
    for group_id, codes in (("mine", [0, TOPIC_CODE]), ("yours", [GROUP_CODE, GROUP_CODE])):
        leader.ask(ApiKey.OFFSET_FETCH, version, _offsets(version, group_id, topics))
        told = leader.answer()
        group = told["groups"][0] if version >= 8 else told
        found = [part["error_code"] for row in group["topics"] for part in row["partitions"]]
        if group_id == "mine" or version < 2:
            assert found == codes
        else:
            assert (group["error_code"], found) == (GROUP_CODE, [])


def _offsets(version: int, group_id: str, topics: Any) -> dict[str, Any]:
    asked = {"group_id": group_id, "topics": topics, "member_id": None, "member_epoch": -1}
    return {"groups": [asked]} if version >= 8 else asked


@pytest.mark.parametrize("version", [2, 8])
def test_all_offsets_of_a_group_are_those_of_topics_that_may_be_described(version: int) -> None:
    leader = Leader(acls=f"{CLIENT}\n--allow-principal User:client --operation Read --topic {OTHER}")
    commit(leader, "mine")
    leader.take()
    leader.answer()
    assert leader.authorizer is not None
    leader.authorizer.acls = [acl for acl in leader.authorizer.acls if acl.name != OTHER]
    leader.ask(ApiKey.OFFSET_FETCH, version, _offsets(version, "mine", None))
    told = leader.answer()
    group = told["groups"][0] if version >= 8 else told
    assert [row["name"] for row in group["topics"]] == [TOPIC_NAME]


def test_offsets_are_deleted_for_a_topic_that_may_be_read() -> None:
    leader = Leader(acls=CLIENT)
    commit(leader, "mine")
    leader.take()
    leader.answer()
    topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in (TOPIC_NAME, OTHER)]
    leader.ask(ApiKey.OFFSET_DELETE, 0, {"group_id": "mine", "topics": topics})
    leader.take()
    assert rows(leader.answer(), "name") == {TOPIC_NAME: 0, OTHER: TOPIC_CODE}
    leader.ask(ApiKey.OFFSET_DELETE, 0, {"group_id": "yours", "topics": topics})
    assert leader.answer()["error_code"] == GROUP_CODE


@pytest.mark.parametrize(
    ("key", "asked"),
    [
        (ApiKey.DELETE_GROUPS, "groups_names"),
        (ApiKey.DESCRIBE_GROUPS, "groups"),
        (ApiKey.CONSUMER_GROUP_DESCRIBE, "group_ids"),
    ],
)
def test_groups_are_refused_one_by_one(key: ApiKey, asked: str) -> None:
    leader = Leader(acls=CLIENT)
    leader.ask(key, 0, {asked: ["mine", "yours"], "include_authorized_operations": False})
    found = rows(leader.answer(), "group_id")
    assert found["yours"] == GROUP_CODE != found["mine"]


def test_members_that_read_the_topic_are_described_to_whoever_may_describe_it() -> None:
    heartbeat = {"group_id": "mine", "member_id": "m", "member_epoch": 0, "instance_id": None, "rack_id": None}
    heartbeat |= {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": [TOPIC_NAME], "subscribed_topic_regex": None}
    heartbeat |= {"server_assignor": None, "topic_partitions": []}
    leader = Leader(acls=CLIENT)
    leader.commit()
    leader.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, heartbeat)
    leader.take()
    assert leader.answer()["error_code"] == 0
    describe = {"group_ids": ["mine"], "include_authorized_operations": False}
    leader.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, describe)
    [row] = leader.answer()["groups"]
    assert len(row["members"]) == 1, row
    assert leader.authorizer is not None
    leader.authorizer.acls = [acl for acl in leader.authorizer.acls if acl.name != TOPIC_NAME]
    leader.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, describe)
    [row] = leader.answer()["groups"]
    assert (row["error_code"], row["members"]) == (TOPIC_CODE, [])
    for subscribed in ({}, {"subscribed_topic_names": None, "subscribed_topic_regex": ".*"}):
        leader.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, heartbeat | subscribed)
        assert leader.answer()["error_code"] == TOPIC_CODE


@pytest.mark.parametrize(
    ("acls", "listed"),
    [
        (CLIENT, ["mine"]),
        (f"{CLIENT}\n--allow-principal User:client --operation Describe --cluster", ["mine", "yours"]),
    ],
)
def test_groups_are_listed_that_may_be_described(acls: str, listed: list[str]) -> None:
    leader = Leader(acls=f"{acls}\n--allow-principal User:client --operation Read --group yours")
    for group_id in ("mine", "yours"):
        commit(leader, group_id)
        leader.take()
        leader.answer()
    assert leader.authorizer is not None
    leader.authorizer.acls = [acl for acl in leader.authorizer.acls if acl.name != "yours"]
    leader.ask(ApiKey.LIST_GROUPS, 4, {"states_filter": []})
    assert [row["group_id"] for row in leader.answer()["groups"]] == listed


class Name(str):
    """Counts how often one is compared with another, and how often one is printed."""

    __slots__ = ()
    compared = 0
    printed = 0

    def __format__(self, spec: str) -> str:
        Name.printed += 1
        return str.__format__(self, spec)

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def screen_of(leader: Leader, key: ApiKey, version: int) -> Screen:
    guard: Any = leader.clients._guard
    end = SimpleNamespace(principal=Principal("client"), address="")
    return Screen(guard, SimpleNamespace(listener="CONTROLLER", end=end), key, version, leader.clients._topics)


@pytest.mark.parametrize(
    ("key", "version", "asked"),
    [
        (ApiKey.DELETE_GROUPS, 1, lambda names: {"groups_names": names}),
        (ApiKey.FIND_COORDINATOR, 4, lambda names: {"key_type": 0, "coordinator_keys": names}),
        (ApiKey.OFFSET_FETCH, 8, lambda names: {"groups": [{"group_id": each, "topics": None} for each in names]}),
    ],
)
def test_each_of_many_names_is_looked_at_once(key: ApiKey, version: int, asked: Any) -> None:
    leader, count = Leader(acls=ALL), 1_000
    screen = screen_of(leader, key, version)
    body = asked([Name("mine" if number % 2 else f"g{number}") for number in range(count)])
    Name.compared = 0
    found = screen.pass_on(body, lambda _: None)
    assert found is not None
    assert max(len(value) for value in found[0].values() if isinstance(value, list)) == count // 2
    assert Name.compared < 10 * count


def topic_rows(names: list[Name]) -> list[dict[str, Any]]:
    return [{"name": each, "topic_id": Uuid(bytes(16)), "partitions": [], "partition_indexes": []} for each in names]


def settings_of(kind: int, names: list[Name]) -> dict[str, Any]:
    return {"resources": [{"resource_type": kind, "resource_name": each} for each in names]}


@pytest.mark.parametrize(
    ("key", "version", "asked"),
    [
        (ApiKey.DELETE_GROUPS, 1, lambda names: {"groups_names": names}),
        (ApiKey.FIND_COORDINATOR, 4, lambda names: {"key_type": 0, "coordinator_keys": names}),
        (ApiKey.OFFSET_FETCH, 8, lambda names: {"groups": [{"group_id": each, "topics": None} for each in names]}),
        (ApiKey.OFFSET_FETCH, 8, lambda names: {"groups": [{"group_id": "mine", "topics": topic_rows(names)}]}),
        (
            ApiKey.OFFSET_FETCH,
            8,
            lambda names: {"groups": [{"group_id": "mine", "topics": topic_rows([each])} for each in names]},
        ),
        (ApiKey.METADATA, 12, lambda names: {"topics": topic_rows(names)}),
        (ApiKey.OFFSET_COMMIT, 8, lambda names: {"group_id": "mine", "topics": topic_rows(names)}),
        (ApiKey.DESCRIBE_CONFIGS, 4, lambda names: settings_of(2, names)),
        (ApiKey.DESCRIBE_CONFIGS, 4, lambda names: settings_of(4, names)),
    ],
)
def test_refused_names_of_a_request_are_counted_in_one_line(key: ApiKey, version: int, asked: Any) -> None:
    """By the bounds of arrays 1,600 may be refused of one request; each was a report once."""
    leader, count = Leader(acls=CLIENT), 1_000
    guard, before = leader.clients._guard, len(leader.ports.reports)
    Name.compared = Name.printed = 0
    screen_of(leader, key, version).pass_on(asked([Name(f"g{number}") for number in range(count)]), lambda _: None)
    [line] = leader.ports.reports[before:]
    assert f", and 999 more names ({key.name})" in line
    assert guard is not None
    assert guard.refusals == count
    assert Name.printed <= 1
    assert Name.compared < 10 * count
