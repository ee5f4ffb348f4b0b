"""Membership of KIP-848: who has the partition, epochs, sessions, static members, and a leader that changes.

Source: KIP-848; Kafka's ``ConsumerGroup`` and ``CurrentAssignmentBuilder``.
"""

from typing import Any

import pytest

from pykraft.errors import BufferFullError, ErrorCode
from pykraft.host.groups import consumer_groups
from pykraft.protocol.messages import ApiKey
from pykraft.types import Uuid
from tests.host.clients.world import LEADS
from tests.host.fakes import TOPIC_ID, TOPIC_NAME
from tests.host.groups.test_classic_groups import Coordinator

SESSION_MS = 10_000
REBALANCE_MS = 30_000
WHOLE: dict[str, Any] = {
    "rebalance_timeout_ms": REBALANCE_MS,
    "subscribed_topic_names": [TOPIC_NAME],
    "topic_partitions": [],
}
HAS = [{"topic_id": TOPIC_ID, "partitions": [0]}]


class Consumers(Coordinator):
    """Members with the protocol of KIP-848."""

    def __init__(self, **changes: Any) -> None:
        super().__init__(group_consumer_session_timeout_ms=SESSION_MS, **changes)

    @staticmethod
    def body(id_: str, epoch: int) -> dict[str, Any]:
        return {
            "group_id": "g",
            "member_id": id_,
            "member_epoch": epoch,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout_ms": -1,
            "subscribed_topic_names": None,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": None,
        }

    def heartbeat(self, id_: str, epoch: int, *, version: int = 1, **changes: Any) -> Any:
        self.call(id_, ApiKey.CONSUMER_GROUP_HEARTBEAT, version, self.body(id_, epoch) | changes)
        return {"error_code": ErrorCode.NONE} | self.told[id_]

    def enters(self, id_: str, **changes: Any) -> Any:
        return self.heartbeat(id_, 0, **(WHOLE | changes))

    def described(self) -> Any:
        self.call(
            "describe", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": ["g"], "include_authorized_operations": False}
        )
        [row] = self.told["describe"]["groups"]
        return row

    def commit_at(self, id_: str, epoch: int, version: int = 9) -> int:
        part = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": 1, "committed_metadata": ""}
        body = {
            "group_id": "g",
            "generation_id_or_member_epoch": epoch,
            "member_id": id_,
            "group_instance_id": None,
            "topics": [{"name": TOPIC_NAME, "partitions": [part]}],
        }
        self.call("commit", ApiKey.OFFSET_COMMIT, version, body)
        code: int = self.told["commit"]["topics"][0]["partitions"][0]["error_code"]
        return code


def has(told: Any) -> bool | None:
    """Whether an answer gives the partition; None: it says nothing about that."""
    assert told["error_code"] == ErrorCode.NONE, told
    assignment = told.get("assignment")
    if assignment is None:
        return None
    assert assignment["topic_partitions"] in ([], HAS)
    return bool(assignment["topic_partitions"])


@pytest.fixture
def group() -> Consumers:
    return Consumers()


def test_the_first_member_has_the_partition_and_the_next_stands_by(group: Consumers) -> None:
    told = group.enters("a")
    assert (told["member_id"], told["member_epoch"], told["heartbeat_interval_ms"], has(told)) == ("a", 1, 5_000, True)
    kept = group.groups.table.groups["g"]
    assert (kept.type, kept.generation) == ("consumer", 1)
    told = group.enters("b")
    assert (told["member_epoch"], has(told)) == (2, False)
    told = group.heartbeat("a", 1)
    assert (told["member_epoch"], has(told)) == (2, True)
    assert has(group.heartbeat("a", 2)) is None, "nothing is new to it"
    assert has(group.heartbeat("a", 2, subscribed_topic_names=[TOPIC_NAME], topic_partitions=HAS)) is True
    row = group.described()
    assert (row["group_state"], row["group_epoch"], row["assignor_name"]) == ("Stable", 2, "uniform")
    assert [len(each["assignment"]["topic_partitions"]) for each in row["members"]] == [1, 0]
    assert row["members"][0]["assignment"]["topic_partitions"][0]["topic_name"] == TOPIC_NAME


def test_a_member_gets_what_another_has_given_up(group: Consumers) -> None:
    group.enters("a")
    group.enters("b")
    group.heartbeat("a", 1)
    told = group.heartbeat("a", 2, subscribed_topic_names=[])
    assert (told["member_epoch"], has(told)) == (2, False), "it must give it up, and stays in its epoch"
    assert group.described()["group_state"] == "Reconciling"
    told = group.heartbeat("b", 2)
    assert (told["member_epoch"], has(told)) == (3, False), "the other one still has it"
    assert has(group.heartbeat("a", 2)) is False, "it hears it until it says that it has nothing"
    told = group.heartbeat("a", 2, topic_partitions=[])
    assert (told["member_epoch"], has(told)) == (3, False)
    assert has(group.heartbeat("b", 3)) is True


def test_who_does_not_give_it_up_in_time_is_no_member_any_more(group: Consumers) -> None:
    group.enters("a", rebalance_timeout_ms=2_000)
    group.enters("b")
    group.heartbeat("a", 1, topic_partitions=HAS)
    group.heartbeat("a", 2, subscribed_topic_names=[])
    group.pass_time(1_999)
    assert has(group.heartbeat("a", 2, topic_partitions=HAS)) is False
    group.pass_time(1)
    assert group.heartbeat("a", 2)["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    assert has(group.heartbeat("b", 2)) is True


def test_a_session_ends_and_a_member_leaves(group: Consumers) -> None:
    for name in ("a", "b", "c"):
        group.enters(name)
    group.pass_time(SESSION_MS - 1)
    assert has(group.heartbeat("b", 2)) is False
    assert has(group.heartbeat("c", 3)) is None
    group.pass_time(1)
    assert has(group.heartbeat("b", 3)) is True, "a is silent"
    assert group.heartbeat("b", -1)["member_epoch"] == -1
    assert has(group.heartbeat("c", 3)) is True
    group.heartbeat("c", -1)
    row = group.described()
    assert (row["group_state"], row["members"]) == ("Empty", [])
    assert group.groups.table.groups["g"].empty_since_ms >= 0
    assert group.clients._groups._consumers.groups == {}
    assert group.enters("a")["member_epoch"] > 3, "epochs go on"


def test_epochs_are_checked(group: Consumers) -> None:
    group.enters("a")
    group.enters("b")
    group.heartbeat("a", 1)
    assert group.heartbeat("a", 3)["error_code"] == ErrorCode.FENCED_MEMBER_EPOCH
    assert group.heartbeat("a", 1)["error_code"] == ErrorCode.FENCED_MEMBER_EPOCH
    told = group.heartbeat("a", 1, topic_partitions=HAS)
    assert (told["error_code"], told["member_epoch"]) == (0, 2), "the answer with its new epoch was lost"
    assert group.heartbeat("x", 2)["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.commit_at("a", 2) == ErrorCode.NONE
    assert group.commit_at("a", 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert group.commit_at("x", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.commit_at("", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.commit_at("a", 2, version=8) == ErrorCode.UNSUPPORTED_VERSION
    topics = [{"name": TOPIC_NAME, "partition_indexes": [0]}]
    for member_id, epoch, code in (("a", 2, 0), ("a", 1, ErrorCode.STALE_MEMBER_EPOCH), (None, -1, 0)):
        asked = {"group_id": "g", "topics": topics, "member_id": member_id, "member_epoch": epoch}
        group.call("fetch", ApiKey.OFFSET_FETCH, 9, {"groups": [asked], "require_stable": False})
        assert group.told["fetch"]["groups"][0]["error_code"] == code


def test_a_static_member_comes_back_for_what_it_had(group: Consumers) -> None:
    group.enters("a", instance_id="one")
    group.enters("b")
    assert group.enters("c", instance_id="one")["error_code"] == ErrorCode.UNRELEASED_INSTANCE_ID
    assert group.heartbeat("b", -2)["error_code"] == ErrorCode.INVALID_REQUEST
    assert group.heartbeat("b", 2, instance_id="one")["error_code"] == ErrorCode.FENCED_INSTANCE_ID
    group.heartbeat("a", -2, instance_id="one")
    assert has(group.heartbeat("b", 2)) is None, "it is kept for the other one"
    assert has(group.enters("c", instance_id="one")) is True
    assert group.heartbeat("a", 1, instance_id="one")["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    group.heartbeat("c", -2, instance_id="one")
    group.pass_time(SESSION_MS - 1)
    assert has(group.heartbeat("b", 2)) is False
    group.pass_time(1)
    assert has(group.heartbeat("b", 3)) is True, "it has not come back"


def test_a_member_that_begins_anew_keeps_what_it_had(group: Consumers) -> None:
    group.enters("a")
    group.enters("b")
    told = group.enters("a")
    assert (told["member_epoch"], has(told)) == (3, True)


def test_a_new_leader_knows_no_members_and_later_epochs(group: Consumers) -> None:
    group.enters("a")
    group.lose()
    assert group.heartbeat("a", 1)["error_code"] == ErrorCode.NOT_COORDINATOR
    group.status = LEADS._replace(log_end_offset=group.recent.end_offset, high_watermark=group.recent.end_offset)
    group.clients.after_step(group.status)
    assert group.heartbeat("a", 1)["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.enters("a")["member_epoch"] == 2


def test_an_epoch_that_the_log_did_not_take_is_tried_again(group: Consumers) -> None:
    group.enters("a")
    group.enters("b")
    group.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group.body("c", 0) | WHOLE)
    group.reject(BufferFullError("full"))
    assert group.answer()["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group.heartbeat("b", 2)["member_epoch"] == 2
    assert group.heartbeat("b", 2)["member_epoch"] == 3


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": HAS}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_regex": "a.*"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"server_assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
    ],
)
def test_what_a_member_may_not_ask(group: Consumers, changes: Any, code: ErrorCode) -> None:
    assert group.enters("a", **changes)["error_code"] == code
    assert group.clients._groups._consumers.groups == {}


def both_join(group: Consumers) -> None:
    """Two members join while nothing is written yet."""
    for name in ("a", "b"):
        group.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group.body(name, 0) | WHOLE)


def test_members_that_join_while_an_epoch_is_written_get_the_next(group: Consumers) -> None:
    both_join(group)
    members = group.clients._groups._consumers
    assert members.groups["g"].state == "Assigning"
    group.take()
    group.take()
    assert [(each or {})["member_epoch"] for each in group.answers] == [1, 2]


def test_who_waits_for_an_epoch_asks_the_next_leader(group: Consumers) -> None:
    both_join(group)
    group.decide()
    group.lose()
    assert [(each or {})["error_code"] for each in group.answers] == [ErrorCode.NOT_COORDINATOR] * 2


def test_a_member_may_ask_for_another_time_to_give_up_its_part(group: Consumers) -> None:
    group.enters("a")
    group.enters("b")
    group.heartbeat("a", 1, rebalance_timeout_ms=1_000)
    group.heartbeat("a", 2, subscribed_topic_names=[])
    group.pass_time(999)
    assert has(group.heartbeat("a", 2, topic_partitions=HAS)) is False
    group.pass_time(1)
    assert group.heartbeat("a", 2)["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    for _ in range(3):
        group.pass_time(SESSION_MS // 2)
        group.heartbeat("b", group.described()["members"][0]["member_epoch"])
    assert len(group.described()["members"]) == 1


def test_offsets_of_a_group_with_members_are_kept() -> None:
    group = Consumers(offsets_check_interval_ms=1_000, offsets_retention_minutes=1)
    group.enters("a")
    group.commit_at("a", 1)
    for _ in range(15):
        group.pass_time(SESSION_MS // 2)
        group.heartbeat("a", 1)
    assert group.groups.table.groups["g"].offsets


def test_the_longest_text_of_a_client_is_answered(group: Consumers) -> None:
    longest = "x" * (2**15 - 1)
    for changes in ({"server_assignor": longest}, {"instance_id": longest}, {"subscribed_topic_regex": longest}):
        group.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group.body(longest, 0) | WHOLE | {"group_id": longest} | changes)
        if "instance_id" in changes:
            group.take()
        group.answer()
    group.ask(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group.body("b", 0) | WHOLE | {"group_id": longest, "instance_id": longest}
    )
    assert group.answer()["error_code"] == ErrorCode.UNRELEASED_INSTANCE_ID
    group.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": [longest[:-1]], "include_authorized_operations": False})
    assert group.answer()["groups"][0]["error_code"] == ErrorCode.GROUP_ID_NOT_FOUND


def test_bounds(group: Consumers, monkeypatch: pytest.MonkeyPatch) -> None:
    group.enters("a")
    monkeypatch.setattr(consumer_groups, "MEMBERS_MAX", 1)
    assert group.enters("b")["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    small = Consumers(group_members_max=1)
    small.enters("a")
    assert small.enters("b")["error_code"] == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_the_server_makes_an_id_in_version_0(group: Consumers) -> None:
    told = group.enters("", version=0)
    assert (told["error_code"], len(told["member_id"]) > 10) == (0, True)


def test_protocols_do_not_mix(group: Consumers) -> None:
    group.enters("a")
    assert group.join("c")["error_code"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    group.call("list", ApiKey.LIST_GROUPS, 5, {"states_filter": [], "types_filter": ["consumer"]})
    [row] = group.told["list"]["groups"]
    assert (row["group_id"], row["group_type"], row["group_state"]) == ("g", "consumer", "Stable")
    group.call("delete", ApiKey.DELETE_GROUPS, 2, {"groups_names": ["g"]})
    assert group.told["delete"]["results"][0]["error_code"] == ErrorCode.NON_EMPTY_GROUP
    partitions = [{"partition_index": 0}]
    group.call(
        "offsets",
        ApiKey.OFFSET_DELETE,
        0,
        {"group_id": "g", "topics": [{"name": TOPIC_NAME, "partitions": partitions}]},
    )
    [topic] = group.told["offsets"]["topics"]
    assert topic["partitions"][0]["error_code"] == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    other = Consumers()
    other.enter("a")
    assert other.enters("b")["error_code"] == ErrorCode.GROUP_ID_NOT_FOUND
    row = other.described()
    assert (row["error_code"], row["group_state"]) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert Uuid(TOPIC_ID) == TOPIC_ID
