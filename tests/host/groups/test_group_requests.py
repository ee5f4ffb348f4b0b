"""Committed offsets: what clients commit, fetch and delete, what expires, and what a node without the lead answers.

Source: Kafka's ``OffsetMetadataManager``; KIP-211, KIP-496, KIP-709.
"""

from typing import Any

import pytest

from pykraft.errors import BufferFullError, ErrorCode
from pykraft.host.groups import group_requests, group_table
from pykraft.protocol.messages import ApiKey
from pykraft.types import Uuid
from tests.host.clients.world import FOLLOWS, Leader
from tests.host.fakes import TOPIC_ID, TOPIC_NAME, at

MINUTE_MS = 60_000


def commit(
    leader: Leader,
    offset: int,
    *,
    group: str = "g",
    version: int = 8,
    name: str = TOPIC_NAME,
    metadata: str | None = "m",
    **changes: Any,
) -> None:
    part = {"partition_index": 0, "committed_offset": offset, "committed_metadata": metadata}
    topic = {"name": name, "topic_id": TOPIC_ID, "partitions": [{"committed_leader_epoch": 4, **part}]}
    body = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [topic],
    }
    leader.ask(ApiKey.OFFSET_COMMIT, version, body | changes)


def code(leader: Leader) -> int:
    """The only code of the only answer to a commit."""
    found: int = leader.answer()["topics"][0]["partitions"][0]["error_code"]
    return found


def committed(leader: Leader, offset: int, **changes: Any) -> int:
    commit(leader, offset, **changes)
    if not leader.answers:
        leader.take()
    return code(leader)


def fetched(leader: Leader, *, group: str = "g", version: int = 8, topics: Any = None) -> Any:
    leader.ask(ApiKey.OFFSET_FETCH, version, {"groups": [{"group_id": group, "topics": topics}]})
    [told] = leader.answer()["groups"]
    return told


def offsets(leader: Leader, **changes: Any) -> list[tuple[int, int, str]]:
    told = fetched(leader, **changes)
    assert told["error_code"] == 0
    parts = [part for topic in told["topics"] for part in topic["partitions"]]
    return [(part["committed_offset"], part["committed_leader_epoch"], part["metadata"]) for part in parts]


def asked(name: str = TOPIC_NAME) -> Any:
    return [{"name": name, "topic_id": TOPIC_ID, "partition_indexes": [0]}]


def test_a_commit_is_answered_when_it_is_committed() -> None:
    leader = Leader()
    commit(leader, 7)
    assert offsets(leader) == []
    leader.decide()
    assert offsets(leader) == []
    leader.commit()
    assert (code(leader), offsets(leader)) == (0, [(7, 4, "m")])
    assert committed(leader, 5) == 0, "an older offset is a reset"
    assert offsets(leader, topics=asked()) == [(5, 4, "m")]


@pytest.mark.parametrize("version", [2, 8, 10])
def test_all_versions_commit_and_fetch(version: int) -> None:
    leader = Leader()
    assert committed(leader, 7, version=version, metadata=None) == 0
    [group] = [fetched(leader, version=version, topics=asked())] if version >= 8 else [None]
    if group is None:
        leader.ask(ApiKey.OFFSET_FETCH, 1, {"group_id": "g", "topics": asked()})
        group = leader.answer()
    [topic] = group["topics"]
    assert topic["topic_id" if version >= 10 else "name"] == (TOPIC_ID if version >= 10 else TOPIC_NAME)
    assert [part["committed_offset"] for part in topic["partitions"]] == [7]


def test_commits_that_come_together_are_one_batch() -> None:
    leader = Leader()
    for number in range(3):
        commit(leader, number, group=f"g{number}")
    leader.take()
    assert leader.recent.end_offset == 1
    leader.take()
    assert (leader.recent.end_offset, len(leader.answers)) == (3, 3)


def test_bad_partitions_get_their_code_and_good_ones_are_kept() -> None:
    leader = Leader(offset_metadata_size_bytes_max=3)
    assert committed(leader, 1, name="other") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert committed(leader, 1, metadata="four") == ErrorCode.OFFSET_METADATA_TOO_LARGE
    topic = {"name": "", "topic_id": Uuid(b"x" * 16), "partitions": [{"partition_index": 0, "committed_offset": 1}]}
    topic["partitions"][0] |= {"committed_leader_epoch": 1, "committed_metadata": None}  # type: ignore[index, operator]
    assert committed(leader, 1, version=10, topics=[topic]) == ErrorCode.UNKNOWN_TOPIC_ID
    assert leader.inbox.take() is None
    assert offsets(leader, topics=asked("other")) == [(-1, -1, "")]
    assert committed(leader, 1, metadata="new") == 0


def test_a_generation_of_a_group_without_members_is_refused() -> None:
    leader = Leader()
    generation = {"generation_id_or_member_epoch": 3, "member_id": "m"}
    assert committed(leader, 1, **generation) == ErrorCode.ILLEGAL_GENERATION
    assert committed(leader, 1, version=9, **generation) == ErrorCode.GROUP_ID_NOT_FOUND
    assert committed(leader, 1) == 0
    assert committed(leader, 1, **generation) == ErrorCode.UNKNOWN_MEMBER_ID


def test_only_a_leader_that_has_everything_answers() -> None:
    leader = Leader()
    commit(leader, 1)
    leader.decide()
    leader.lose()
    assert code(leader) == ErrorCode.NOT_COORDINATOR
    assert committed(leader, 1) == ErrorCode.NOT_COORDINATOR
    assert fetched(leader)["error_code"] == ErrorCode.NOT_COORDINATOR
    leader.ask(ApiKey.OFFSET_FETCH, 1, {"group_id": "g", "topics": asked()})
    assert leader.answer()["topics"][0]["partitions"][0]["error_code"] == ErrorCode.NOT_COORDINATOR
    leader.ask(ApiKey.LIST_GROUPS, 5, {})
    assert leader.answer()["groups"] == []
    loading = Leader(Leader().status._replace(high_watermark=None))
    assert committed(loading, 1) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    # aiokafka ends its consumer for any other answer to a heartbeat, and Kafka gives none.
    loading.ask(ApiKey.HEARTBEAT, 4, {"group_id": "g", "generation_id": 1, "member_id": "m"})
    assert loading.answer()["error_code"] == ErrorCode.NONE
    assert committed(Leader(FOLLOWS), 1) == ErrorCode.NOT_COORDINATOR


def test_a_full_log_is_a_reason_to_try_again() -> None:
    leader = Leader()
    commit(leader, 1)
    leader.reject(BufferFullError("full"))
    assert code(leader) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert committed(leader, 1) == 0


def test_nothing_is_written_while_a_kafka_node_may_be_a_voter() -> None:
    assert committed(Leader(client_records="kraft"), 1) == ErrorCode.UNSUPPORTED_VERSION
    # The other voters are not known yet.
    leader = Leader(client_records="auto")
    assert committed(leader, 1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    for voter in leader.status.voters.ids:
        leader.clients.profile.found_pykraft(voter)
    assert committed(leader, 1) == 0


def test_there_are_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_requests, "GROUPS_MAX", 1)
    leader = Leader()
    assert committed(leader, 1) == 0
    assert committed(leader, 1, group="other") == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert committed(leader, 2) == 0
    monkeypatch.setattr(group_requests, "STATE_SIZE_BYTES_MAX", leader.groups.table.size_bytes + 1)
    assert committed(leader, 3) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    many = [{"name": TOPIC_NAME, "partition_indexes": [0] * 16}] * 16
    leader.ask(ApiKey.OFFSET_FETCH, 8, {"groups": [{"group_id": "g", "topics": many}] * 2})
    assert {each["error_code"] for each in leader.answer()["groups"]} == {ErrorCode.INVALID_REQUEST}


def delete(leader: Leader, *groups: str) -> list[int]:
    leader.ask(ApiKey.DELETE_GROUPS, 2, {"groups_names": list(groups)})
    while not leader.answers:
        leader.take()
    return [each["error_code"] for each in leader.answer()["results"]]


def test_groups_and_offsets_are_deleted() -> None:
    leader = Leader()
    assert committed(leader, 1) == committed(leader, 2, group="h") == 0
    assert delete(leader, "g", "none", "h") == [0, ErrorCode.GROUP_ID_NOT_FOUND, 0]
    assert leader.groups.table.groups == {}
    assert leader.groups.table.size_bytes == 0
    assert committed(leader, 1) == 0
    topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in (TOPIC_NAME, "other")]
    leader.ask(ApiKey.OFFSET_DELETE, 0, {"group_id": "g", "topics": topics})
    leader.take()
    told = leader.answer()
    codes = [topic["partitions"][0]["error_code"] for topic in told["topics"]]
    assert (told["error_code"], codes) == (0, [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
    assert offsets(leader) == []
    for group, code_ in (("none", ErrorCode.GROUP_ID_NOT_FOUND), ("g", ErrorCode.NONE)):
        leader.ask(ApiKey.OFFSET_DELETE, 0, {"group_id": group, "topics": topics[1:]})
        assert leader.answer()["error_code"] == code_
    assert committed(leader, -1) == 0, "an offset below 0 is none"
    assert offsets(leader) == []


def test_groups_are_listed_and_described() -> None:
    leader = Leader()
    assert committed(leader, 1) == 0

    def listed(**filters: Any) -> list[tuple[str, str, str]]:
        leader.ask(ApiKey.LIST_GROUPS, 5, filters)
        return [(each["group_id"], each["group_state"], each["group_type"]) for each in leader.answer()["groups"]]

    assert listed() == listed(states_filter=["EMPTY"], types_filter=["Classic"]) == [("g", "Empty", "classic")]
    assert listed(states_filter=["Stable"]) == listed(types_filter=["consumer"]) == []

    def described(version: int, group: str) -> tuple[int, str]:
        leader.ask(ApiKey.DESCRIBE_GROUPS, version, {"groups": [group]})
        [told] = leader.answer()["groups"]
        return told["error_code"], told["group_state"]

    assert [described(6, "g"), described(5, "none")] == [(0, "Empty"), (0, "Dead")]
    assert described(6, "none") == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    leader.lose()
    assert described(6, "g") == (ErrorCode.NOT_COORDINATOR, "")


def test_offsets_expire_after_their_commit_or_after_the_last_member() -> None:
    leader = Leader(offsets_retention_minutes=10, offsets_check_interval_ms=1_000, client_topic="t")
    assert committed(leader, 1) == committed(leader, 1, group="kept") == 0
    emptied = group_table.KeptGroup(protocol_type="consumer", empty_since_ms=at(9 * MINUTE_MS).wall_ms)
    leader.groups.write(group_table.changed_group("kept", emptied), lambda _: None)
    leader.take()

    def pass_time(minutes: int) -> set[str]:
        leader.groups.poll(at(minutes * MINUTE_MS))
        leader.clients.poll(minutes * MINUTE_MS)
        while (arrival := leader.inbox.take()) is not None:
            leader.inbox.put(arrival.event)
            leader.take()
        return set(leader.groups.table.groups)

    assert pass_time(0) == pass_time(9) == {"g", "kept"}
    assert committed(leader, 3, name="t") == 0
    assert pass_time(10) == {"g", "kept"}
    assert [each[0] for each in offsets(leader)] == [3], "the other one is younger"
    assert pass_time(18) == {"g", "kept"}
    assert pass_time(19) == set()
    assert leader.clients.next_deadline_ms is None
