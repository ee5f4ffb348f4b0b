"""Membership of the classic protocol: joins, rebalances, sessions, static members, and a leader that changes.

Source: Kafka's ``ClassicGroup`` and ``GroupMetadataManager``; KIP-134, KIP-345, KIP-394.
"""

from typing import Any

import pytest

from pykraft.errors import BufferFullError, ErrorCode
from pykraft.host.groups import classic_groups
from pykraft.protocol.messages import ApiKey
from tests.host.clients.world import LEADS, Leader
from tests.host.fakes import TOPIC_NAME, at

SESSION_MS = 10_000
REBALANCE_MS = 60_000


class Coordinator(Leader):
    """A leader whose time a test moves; answers are kept by who asked."""

    def __init__(self, **changes: Any) -> None:
        super().__init__(LEADS, **({"group_initial_delay_ms": 0} | changes))
        self.told: dict[str, Any] = {}
        self.ms = 0
        self.calls: dict[str, int] = {}
        self.clients.after_step(self.status)

    def call(self, who: str, key: ApiKey, version: int, body: Any) -> None:
        """Ask on behalf of somebody; the log takes what it has to."""
        requester: Any = type("Requester", (), {"listener": "CONTROLLER", "client_id": who, "connection": 1})()
        self.told.pop(who, None)
        self.calls[who] = mine = self.calls.get(who, 0) + 1

        def answered(told: Any) -> None:
            # An answer to an earlier request of the same member is none to this.
            if self.calls[who] == mine:
                self.told[who] = told

        self.clients.handle(key, version, body, requester, lambda: True, answered)
        self.write()

    def write(self) -> None:
        while (arrival := self.inbox.take()) is not None:
            self.inbox.put(arrival.event)
            self.take()
        self.clients.after_step(self.status)

    def pass_time(self, ms: int) -> None:
        self.ms += ms
        self.groups.now = at(self.ms)
        self.clients.poll(self.ms)
        self.write()

    def join(self, who: str, *, id_: str = "", instance: str | None = None, version: int = 9, **changes: Any) -> Any:
        protocols = changes.pop("protocols", {"range": b"subscription"})
        body = {
            "group_id": "g",
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "member_id": id_,
            "group_instance_id": instance,
            "protocol_type": "consumer",
            "protocols": [{"name": name, "metadata": data} for name, data in protocols.items()],
        }
        self.call(who, ApiKey.JOIN_GROUP, version, body | changes)
        return self.told.get(who)

    def enter(self, who: str, **changes: Any) -> str:
        """A new member asks for an id, and joins with it."""
        told = self.join(who, **changes)
        assert told["error_code"] == ErrorCode.MEMBER_ID_REQUIRED
        member_id: str = told["member_id"]
        self.join(who, id_=member_id, **changes)
        return member_id

    def sync(self, who: str, id_: str, generation: int, assigned: Any = (), instance: str | None = None) -> Any:
        body = {
            "group_id": "g",
            "generation_id": generation,
            "member_id": id_,
            "group_instance_id": instance,
            "protocol_type": None,
            "protocol_name": None,
            "assignments": [{"member_id": name, "assignment": data} for name, data in dict(assigned).items()],
        }
        self.call(who, ApiKey.SYNC_GROUP, 5, body)
        return self.told.get(who)

    def beat(self, id_: str, generation: int, instance: str | None = None) -> int:
        body = {"group_id": "g", "generation_id": generation, "member_id": id_, "group_instance_id": instance}
        self.call("beat", ApiKey.HEARTBEAT, 4, body)
        code: int = self.told["beat"]["error_code"]
        return code

    def leave(self, id_: str = "", instance: str | None = None) -> int:
        body = {"group_id": "g", "members": [{"member_id": id_, "group_instance_id": instance}]}
        self.call("leave", ApiKey.LEAVE_GROUP, 5, body)
        code: int = self.told["leave"]["members"][0]["error_code"]
        return code

    def commit_offset(self, id_: str, generation: int, offset: int = 1) -> int:
        part = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": 1, "committed_metadata": ""}
        body = {
            "group_id": "g",
            "generation_id_or_member_epoch": generation,
            "member_id": id_,
            "group_instance_id": None,
            "topics": [{"name": TOPIC_NAME, "partitions": [part]}],
        }
        self.call("commit", ApiKey.OFFSET_COMMIT, 8, body)
        code: int = self.told["commit"]["topics"][0]["partitions"][0]["error_code"]
        return code

    def described(self) -> tuple[str, int]:
        self.call("describe", ApiKey.DESCRIBE_GROUPS, 5, {"groups": ["g"]})
        [row] = self.told["describe"]["groups"]
        return row["group_state"], len(row.get("members", ()))

    def stable(self) -> tuple[str, str]:
        """Two members, of whom the first leads and has the partition."""
        first = self.enter("a")
        self.sync("a", first, 1, {first: b"all"})
        second = self.enter("b")
        assert self.beat(first, 1) == ErrorCode.REBALANCE_IN_PROGRESS
        self.join("a", id_=first)
        assert self.told["b"]["generation_id"] == 2
        self.sync("b", second, 2)
        self.sync("a", first, 2, {first: b"all", second: b""})
        assert self.described() == ("Stable", 2)
        return first, second


@pytest.fixture
def group() -> Coordinator:
    return Coordinator()


def test_one_member_leads_its_group_and_the_generation_is_in_the_log(group: Coordinator) -> None:
    member_id = group.enter("a")
    told = group.told["a"]
    assert (told["error_code"], told["generation_id"], told["leader"], told["protocol_name"]) == (
        0,
        1,
        member_id,
        "range",
    )
    assert [(each["member_id"], each["metadata"]) for each in told["members"]] == [(member_id, b"subscription")]
    assert member_id.startswith("a-")
    assert group.described() == ("CompletingRebalance", 1)
    assert group.commit_offset(member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.sync("a", member_id, 1, {member_id: b"all"})["assignment"] == b"all"
    kept = group.groups.table.groups["g"]
    assert (kept.generation, kept.protocol_type, kept.protocol) == (1, "consumer", "range")
    assert (group.beat(member_id, 1), group.commit_offset(member_id, 1), group.described()) == (0, 0, ("Stable", 1))
    assert group.sync("a", member_id, 1)["assignment"] == b"all", "it may ask again"


def test_an_assignment_is_given_when_the_generation_is_committed(group: Coordinator) -> None:
    member_id = group.enter("a")
    body = {"group_id": "g", "generation_id": 1, "member_id": member_id, "group_instance_id": None}
    body |= {"protocol_type": "consumer", "protocol_name": "range", "assignments": []}
    group.ask(ApiKey.SYNC_GROUP, 5, body)
    group.decide()
    assert group.answers == []
    group.commit()
    assert group.answer()["error_code"] == 0
    group.join("a", id_=member_id, protocols={"range": b"other"})
    group.ask(ApiKey.SYNC_GROUP, 5, {**body, "generation_id": 2})
    group.reject(BufferFullError("full"))
    assert group.answer()["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group.described() == ("PreparingRebalance", 1)


def test_a_second_member_waits_for_the_first_and_each_gets_its_part(group: Coordinator) -> None:
    first, second = group.stable()
    assert (group.told["a"]["assignment"], group.told["b"]["assignment"]) == (b"all", b"")
    assert (group.beat(first, 2), group.beat(second, 2)) == (0, 0)
    assert group.beat(first, 1) == group.commit_offset(first, 1) == ErrorCode.ILLEGAL_GENERATION
    assert group.beat("stranger", 2) == group.commit_offset("", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.join("c", id_="stranger")["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    # One that missed the answer gets it again; another subscription is a reason for a rebalance.
    assert group.join("b", id_=second)["generation_id"] == 2
    assert group.join("b", id_=second, protocols={"range": b"new"}) is None
    assert group.sync("a", first, 2)["error_code"] == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.commit_offset(first, 2) == 0, "what was done before counts"


def test_a_member_that_leaves_is_replaced_at_once(group: Coordinator) -> None:
    first, second = group.stable()
    assert group.leave(first) == 0
    told = group.join("b", id_=second)
    assert (told["generation_id"], told["leader"]) == (3, second)
    assert group.sync("b", second, 3, {second: b"all"})["assignment"] == b"all"
    assert group.leave(first) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.leave(second) == 0
    kept = group.groups.table.groups["g"]
    assert (kept.generation, kept.protocol, kept.empty_since_ms, group.described()) == (
        4,
        None,
        at(0).wall_ms,
        ("Empty", 0),
    )
    assert group.enter("c") != ""
    assert group.told["c"]["generation_id"] == 5


def test_a_silent_member_is_removed_after_its_session(group: Coordinator) -> None:
    first, second = group.stable()
    codes = list[int]()
    for _ in range(3):
        group.pass_time(SESSION_MS // 2)
        codes.append(group.beat(second, 2))
    assert codes == [0, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS]
    assert group.join("b", id_=second)["generation_id"] == 3
    assert group.commit_offset(first, 2) == group.beat(first, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_join_again_is_left_behind(group: Coordinator) -> None:
    first, second = group.stable()
    group.enter("c")
    group.join("b", id_=second)
    for _ in range(REBALANCE_MS // 5_000):
        assert "generation_id" not in (group.told.get("b") or {})
        group.beat(first, 2)
        group.pass_time(5_000)
    assert (group.told["b"]["generation_id"], group.told["c"]["generation_id"]) == (3, 3)
    assert group.beat(first, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_of_a_group_that_brings_no_assignment_is_removed(group: Coordinator) -> None:
    first, second = group.stable()
    third = group.enter("c")
    group.join("a", id_=first)
    group.join("b", id_=second)
    group.sync("b", second, 3)
    group.sync("c", third, 3)
    for _ in range(REBALANCE_MS // 5_000):
        group.beat(first, 3)
        group.pass_time(5_000)
    assert {group.told[who]["error_code"] for who in "bc"} == {ErrorCode.REBALANCE_IN_PROGRESS}
    assert group.beat(first, 3) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_waits_for_more_members() -> None:
    group = Coordinator(group_initial_delay_ms=3_000)
    group.enter("a")
    group.pass_time(2_000)
    group.enter("b")
    group.pass_time(2_000)
    assert not group.told.get("a")
    group.pass_time(1_000)
    assert group.told["a"]["generation_id"] == group.told["b"]["generation_id"] == 1


def test_an_id_that_nobody_uses_delays_a_rebalance_for_its_session(group: Coordinator) -> None:
    member_id = group.enter("a")
    group.sync("a", member_id, 1)
    assert group.join("b")["error_code"] == ErrorCode.MEMBER_ID_REQUIRED
    assert group.join("a", id_=member_id) is None
    assert group.described()[0] == "PreparingRebalance"
    group.pass_time(SESSION_MS)
    assert group.told["a"]["generation_id"] == 2
    told = group.join("b")
    assert group.leave(told["member_id"]) == 0
    old = group.join("c", version=3)
    assert old is None, "older clients join without an id"


def test_a_static_member_comes_back_without_a_rebalance(group: Coordinator) -> None:
    group.join("a", instance="one")
    first = group.told["a"]["member_id"]
    group.sync("a", first, 1, {first: b"all"}, instance="one")
    told = group.join("a", instance="one")
    assert (told["generation_id"], told["skip_assignment"], told["leader"]) == (1, True, told["member_id"])
    again = told["member_id"]
    assert group.sync("a", again, 1, instance="one")["assignment"] == b"all"
    assert group.beat(first, 1, instance="one") == ErrorCode.FENCED_INSTANCE_ID
    assert group.join("a", id_=first, instance="one")["error_code"] == ErrorCode.FENCED_INSTANCE_ID
    assert group.beat(again, 1, instance="two") == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.leave(first, instance="one") == ErrorCode.FENCED_INSTANCE_ID
    assert (group.leave(instance="one"), group.described()) == (0, ("Empty", 0))


def test_a_static_member_is_kept_while_it_does_not_join_again(group: Coordinator) -> None:
    group.join("a", instance="one")
    first = group.told["a"]["member_id"]
    group.sync("a", first, 1, instance="one")
    group.enter("b")
    for _ in range(REBALANCE_MS // 5_000):
        group.beat(first, 1, instance="one")
        group.pass_time(5_000)
    assert (group.told["b"]["generation_id"], group.described()) == (2, ("CompletingRebalance", 2))


def test_members_are_unknown_to_the_next_leader_and_generations_go_on(group: Coordinator) -> None:
    first, second = group.stable()
    group.join("b", id_=second, protocols={"range": b"new"})
    group.lose()
    assert group.told["b"]["error_code"] == ErrorCode.NOT_COORDINATOR
    assert group.beat(first, 2) == ErrorCode.NOT_COORDINATOR
    assert group.join("a", id_=first)["error_code"] == ErrorCode.NOT_COORDINATOR
    assert group.sync("a", first, 2)["error_code"] == ErrorCode.NOT_COORDINATOR
    # It leads again: members of its former life are unknown.
    group.status = LEADS._replace(log_end_offset=group.recent.end_offset, high_watermark=group.recent.end_offset)
    group.clients.after_step(group.status)
    assert group.beat(first, 2) == group.commit_offset(first, 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.described() == ("Empty", 0)
    group.enter("a")
    assert group.told["a"]["generation_id"] == 3


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Coordinator(group_members_max=1)
    assert group.join("a", group_id="")["error_code"] == ErrorCode.INVALID_GROUP_ID
    assert group.join("a", session_timeout_ms=1)["error_code"] == ErrorCode.INVALID_SESSION_TIMEOUT
    assert group.join("a", protocols={})["error_code"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    member_id = group.enter("a")
    assert group.join("b", protocols={"other": b""})["error_code"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.join("b", protocol_type="connect")["error_code"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.join("b")["error_code"] == ErrorCode.GROUP_MAX_SIZE_REACHED
    body = {"group_id": "g", "generation_id": 1, "member_id": member_id, "group_instance_id": None}
    body |= {"protocol_type": "consumer", "protocol_name": "other", "assignments": []}
    group.call("a", ApiKey.SYNC_GROUP, 5, body)
    assert group.told["a"]["error_code"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    monkeypatch.setattr(classic_groups, "MEMBERS_MAX", 1)
    assert group.join("b", group_id="h")["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_group_with_members_is_not_deleted(group: Coordinator) -> None:
    member_id = group.enter("a")
    group.sync("a", member_id, 1)
    assert group.commit_offset(member_id, 1) == 0
    group.call("x", ApiKey.DELETE_GROUPS, 2, {"groups_names": ["g"]})
    assert group.told["x"]["results"][0]["error_code"] == ErrorCode.NON_EMPTY_GROUP
    topics = [{"name": TOPIC_NAME, "partitions": [{"partition_index": 0}]}]
    group.call("x", ApiKey.OFFSET_DELETE, 0, {"group_id": "g", "topics": topics})
    assert group.told["x"]["topics"][0]["partitions"][0]["error_code"] == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    group.call("x", ApiKey.LEAVE_GROUP, 1, {"group_id": "g", "member_id": member_id})
    assert group.told["x"]["error_code"] == 0
    group.call("x", ApiKey.DELETE_GROUPS, 2, {"groups_names": ["g"]})
    assert group.told["x"]["results"][0]["error_code"] == 0
    assert group.described() == ("Dead", 0)


def test_waiting_members_cost_one_look_a_group(group: Coordinator) -> None:
    first, _ = group.stable()
    for _ in range(3 * classic_groups.STALE_MAX):
        told = group.join("c", group_id="h", session_timeout_ms=6_000)
        group.call("x", ApiKey.LEAVE_GROUP, 1, {"group_id": "h", "member_id": told["member_id"]})
        group.beat(first, 2)
    members = group.clients._groups._members
    assert len(members._deadlines._heap) <= classic_groups.STALE_MAX + 4
    assert set(members.groups) == {"g"}


def test_a_static_leader_that_is_started_again_in_an_old_version_assigns_anew(group: Coordinator) -> None:
    group.join("a", instance="one")
    first = group.told["a"]["member_id"]
    group.sync("a", first, 1, {first: b"all"}, instance="one")
    told = group.join("a", instance="one", version=8)
    assert (told["error_code"], told["generation_id"], told["leader"]) == (0, 2, told["member_id"])
    other = group.enter("b")
    assert group.join("b", id_=other, instance="one")["error_code"] == ErrorCode.FENCED_INSTANCE_ID


def test_static_members_alone_are_waited_for_until_their_sessions_end(group: Coordinator) -> None:
    group.join("a", instance="one", session_timeout_ms=100_000, rebalance_timeout_ms=5_000)
    first = group.told["a"]["member_id"]
    group.sync("a", first, 1, {first: b"all"}, instance="one")
    other = group.enter("b", rebalance_timeout_ms=5_000)
    assert group.leave(other) == ErrorCode.NONE
    group.pass_time(5_000)
    assert group.described() == ("PreparingRebalance", 1)
    group.pass_time(95_000)
    group.pass_time(0)
    assert group.described() == ("Empty", 0)


def test_nobody_leaves_a_group_that_is_not_there(group: Coordinator) -> None:
    assert group.leave("x") == ErrorCode.UNKNOWN_MEMBER_ID
    group.lose()
    group.call("leave", ApiKey.LEAVE_GROUP, 5, {"group_id": "g", "members": []})
    assert group.told["leave"]["error_code"] == ErrorCode.NOT_COORDINATOR
    group.call("next", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": ["g"], "include_authorized_operations": False})
    assert group.told["next"]["groups"][0]["error_code"] == ErrorCode.NOT_COORDINATOR


def test_offsets_of_members_of_another_protocol_are_not_deleted(group: Coordinator) -> None:
    group.enter("a", protocol_type="connect")
    group.sync("a", group.told["a"]["member_id"], 1, {})
    topics = [{"name": TOPIC_NAME, "partitions": [{"partition_index": 0}]}]
    group.call("offsets", ApiKey.OFFSET_DELETE, 0, {"group_id": "g", "topics": topics})
    assert group.told["offsets"]["error_code"] == ErrorCode.NON_EMPTY_GROUP
    asked = {"group_id": "g", "topics": [{"topic_id": bytes(range(16)), "partition_indexes": [0]}]}
    group.call("fetch", ApiKey.OFFSET_FETCH, 10, {"groups": [asked | {"member_id": None}], "require_stable": False})
    [topic] = group.told["fetch"]["groups"][0]["topics"]
    assert topic["partitions"][0]["error_code"] == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_group_whose_members_were_an_earlier_leaders_is_empty_from_the_first_search_on() -> None:
    group = Coordinator(offsets_check_interval_ms=1_000)
    group.stable()
    group.pass_time(1_000)
    group.pass_time(1_000)
    assert group.groups.table.groups["g"].empty_since_ms < 0
    group.lose()
    group.status = LEADS._replace(log_end_offset=group.recent.end_offset, high_watermark=group.recent.end_offset)
    group.clients.after_step(group.status)
    group.pass_time(1_000)
    assert group.groups.table.groups["g"].empty_since_ms >= 0
    group.pass_time(1_000)
    assert "g" not in group.groups.table.groups, "it has no offsets"
