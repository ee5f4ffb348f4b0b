"""Fetch of consumers: what is committed, a wait for more, and every error."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.config import METADATA_TOPIC_NAME
from pykraft.errors import ErrorCode
from pykraft.host.clients import consumer_fetches
from pykraft.host.fetch_read import HeaderAndBytes
from pykraft.host.groups.group_table import deleted_group
from pykraft.host.ports import AT_ONCE_MS
from pykraft.protocol.batch import place_batch
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.records import decode_records, encode_control_batch, encode_group_batch, scan
from pykraft.types import Epoch, KRaftVersion, Offset, Uuid
from tests.host.clients.world import LEADS, Leader, batch_of, fetch
from tests.host.fakes import TOPIC_ID, TOPIC_NAME


def answered(leader: Leader) -> Any:
    [topic] = leader.answer()["responses"]
    [part] = topic["partitions"]
    return part


def values(part: Any) -> list[bytes | None]:
    data = bytes(part["records"])
    return [one.value for at, header in scan(data) for one in decode_records(data[at : at + header.size_bytes])]


@pytest.fixture
def leader() -> Leader:
    return Leader()


def test_committed_records_are_told_and_no_others(leader: Leader) -> None:
    leader.append(batch_of([b"a", b"b"]))
    leader.append(batch_of([b"c"]), is_committed=False)
    leader.ask(ApiKey.FETCH, 12, fetch(1))
    part = answered(leader)
    assert (part["high_watermark"], part["last_stable_offset"], part["error_code"]) == (2, 2, 0)
    assert values(part) == [b"a", b"b"], "whole batches; the client skips"


def test_a_fetch_waits_for_a_record(leader: Leader) -> None:
    leader.ask(ApiKey.FETCH, 12, fetch(0, max_wait_ms=500))
    leader.clients.poll(1_000)
    assert leader.clients.next_deadline_ms == 1_500
    leader.clients.poll(1_400)
    assert leader.answers == []
    leader.append(batch_of([b"a"]))
    assert values(answered(leader)) == [b"a"]
    assert leader.clients.next_deadline_ms is None


def test_a_wait_ends_with_an_empty_answer(leader: Leader) -> None:
    leader.ask(ApiKey.FETCH, 12, fetch(0, max_wait_ms=500))
    leader.clients.poll(1_000)
    leader.clients.poll(1_500)
    assert values(answered(leader)) == []


def test_a_client_that_is_gone_is_forgotten(leader: Leader) -> None:
    leader.ask(ApiKey.FETCH, 12, fetch(0, max_wait_ms=500))
    assert leader.on_gone is not None
    leader.on_gone()
    leader.append(batch_of([b"a"]))
    leader.clients.poll(0)
    assert leader.clients.next_deadline_ms is None
    assert leader.answers == []


def test_one_more_than_may_wait_answers_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_fetches, "FETCHES_MAX", 1)
    leader = Leader()
    leader.ask(ApiKey.FETCH, 12, fetch(0, max_wait_ms=500))
    leader.ask(ApiKey.FETCH, 12, fetch(0, max_wait_ms=500))
    assert values(answered(leader)) == []


def test_a_lost_leadership_ends_the_wait_with_the_new_leader(leader: Leader) -> None:
    leader.ask(ApiKey.FETCH, 16, fetch(0, max_wait_ms=500) | {"topics": topics_by_id(TOPIC_ID)})
    leader.lose()
    answer = leader.answer()
    part = answer["responses"][0]["partitions"][0]
    assert part["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert part["current_leader"] == {"leader_id": 2, "leader_epoch": 5}
    assert [each["node_id"] for each in answer["node_endpoints"]] == [2]


def topics_by_id(topic_id: Uuid) -> Any:
    [topic] = fetch(0)["topics"]
    return [topic | {"topic_id": topic_id}]


@pytest.mark.parametrize(
    ("body", "version", "code"),
    [
        (fetch(0, topic="other"), 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (fetch(0, partition=1), 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (fetch(0), 13, ErrorCode.UNKNOWN_TOPIC_ID),
        (fetch(0, epoch=3), 12, ErrorCode.FENCED_LEADER_EPOCH),
        (fetch(0, epoch=5), 12, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (fetch(7), 12, ErrorCode.OFFSET_OUT_OF_RANGE),
        (fetch(-1), 12, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_errors(leader: Leader, body: Any, version: int, code: ErrorCode) -> None:
    leader.append(batch_of())
    leader.ask(ApiKey.FETCH, version, body)
    assert answered(leader)["error_code"] == code


def test_a_new_leader_that_knows_no_high_watermark_yet_lets_the_consumer_wait() -> None:
    leader = Leader(LEADS._replace(high_watermark=None, committed_end_offset=Offset(0)))
    leader.append(batch_of([b"a", b"b"]), is_committed=False)
    leader.ask(ApiKey.FETCH, 12, fetch(2))
    assert answered(leader)["error_code"] == ErrorCode.NONE


def test_there_are_no_sessions(leader: Leader) -> None:
    leader.ask(ApiKey.FETCH, 12, fetch(0, session_id=9))
    assert leader.answer()["error_code"] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    leader.ask(ApiKey.FETCH, 12, fetch(0, topics=[]))
    assert leader.answer()["responses"] == []


def test_a_record_that_is_truncated_during_the_read_is_not_told() -> None:
    leader = Leader(LEADS._replace(high_watermark=Offset(1), log_end_offset=Offset(1)))
    leader.recent.begin_anew_at(Offset(1))
    leader.ask(ApiKey.FETCH, 12, fetch(0))
    [(_, then)] = leader.ports.reads
    leader.reads.truncated()
    then(b"")
    assert answered(leader)["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def several(leader: Leader, *asked: tuple[str, int, int], **changes: Any) -> Any:
    """Topic, partition and offset of each; all topics by name."""
    body = fetch(0, **changes)
    [topic] = body["topics"]
    [partition] = topic["partitions"]
    body["topics"] = [
        topic | {"topic": name, "partitions": [partition | {"partition": index, "fetch_offset": offset}]}
        for name, index, offset in asked
    ]
    leader.ask(ApiKey.FETCH, 12, body)


def rows_of(answer: Any) -> list[tuple[str, int, int, int]]:
    return [
        (topic["topic"], each["partition_index"], each["error_code"], len(each["records"]))
        for topic in answer["responses"]
        for each in topic["partitions"]
    ]


def test_each_partition_gets_its_own_answer_and_an_error_answers_at_once(leader: Leader) -> None:
    leader.append(batch_of([b"a"]))
    size_bytes = len(batch_of([b"a"])[1])
    several(leader, ("other", 0, 0), (TOPIC_NAME, 0, 0), (TOPIC_NAME, 1, 0), (METADATA_TOPIC_NAME, 0, 1), max_wait_ms=9)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert rows_of(leader.answer()) == [
        ("other", 0, unknown, 0),
        (TOPIC_NAME, 0, 0, size_bytes),
        (TOPIC_NAME, 1, unknown, 0),
        (METADATA_TOPIC_NAME, 0, 0, 0),
    ]


def test_partitions_share_the_bytes_of_an_answer(leader: Leader) -> None:
    leader.append(batch_of([b"a"]))
    size_bytes = len(batch_of([b"a"])[1])
    both = ((TOPIC_NAME, 0, 0), (METADATA_TOPIC_NAME, 0, 0))
    several(leader, *both)
    assert [row[3] for row in rows_of(leader.answer())] == [size_bytes, size_bytes]
    several(leader, *both, max_bytes=1)
    assert [row[3] for row in rows_of(leader.answer())] == [size_bytes, 0]


def test_a_fetch_waits_for_as_many_bytes_as_it_asks_for(leader: Leader) -> None:
    size_bytes = len(batch_of([b"a"])[1])
    several(leader, (TOPIC_NAME, 0, 0), max_wait_ms=100, min_bytes=3 * size_bytes)
    for _ in range(2):
        leader.append(batch_of([b"a"]))
        assert leader.answers == []
    leader.append(batch_of([b"a"]), is_committed=False)
    leader.clients.after_step(leader.status)
    assert leader.answers == [], "only what is committed counts"
    leader.commit()
    assert rows_of(leader.answer()) == [(TOPIC_NAME, 0, 0, 3 * size_bytes)]
    several(leader, (TOPIC_NAME, 0, 3), max_wait_ms=100, min_bytes=0)
    assert rows_of(leader.answer()) == [(TOPIC_NAME, 0, 0, 0)], "it wants no bytes"


def test_a_fetch_gets_less_when_its_time_is_over(leader: Leader) -> None:
    several(leader, (TOPIC_NAME, 0, 0), max_wait_ms=100, min_bytes=1_000)
    leader.append(batch_of([b"a"]))
    leader.clients.poll(0)
    leader.clients.poll(99)
    assert leader.answers == []
    leader.clients.poll(100)
    assert rows_of(leader.answer()) == [(TOPIC_NAME, 0, 0, len(batch_of([b"a"])[1]))]


def test_fetches_that_wait_cost_a_step_nothing_until_they_may_have_enough(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[object] = []
    serve = consumer_fetches.ConsumerFetches._serve

    def counted(self: Any, fetch: Any, **given: Any) -> bool:
        served.append(fetch)
        return serve(self, fetch, **given)

    monkeypatch.setattr(consumer_fetches.ConsumerFetches, "_serve", counted)
    size_bytes = len(batch_of([b"a"])[1])
    leader.append(batch_of([b"a"]))
    for count in (2, 3, 3, 100):
        several(leader, (TOPIC_NAME, 0, 1), max_wait_ms=100, min_bytes=count * size_bytes)
    several(leader, (TOPIC_NAME, 0, 1), (METADATA_TOPIC_NAME, 0, 1), max_wait_ms=100, min_bytes=4 * size_bytes)
    leader.clients.after_step(leader.status)  # the first step after a change of the leader looks at all
    looks = []
    for _ in range(3):
        served.clear()
        leader.append(batch_of([b"a"]))
        looks.append((len(served), len(leader.answers)))
    assert looks == [(0, 0), (2, 2), (2, 4)]
    served.clear()
    leader.status = leader.status._replace(epoch=Epoch(5))
    leader.clients.after_step(leader.status)
    assert len(served) == 1, "another epoch may end a wait"


@pytest.mark.parametrize("limits", [(3, 1_000_000), (1_000, 250)], ids=["answers", "bytes"])
def test_fetches_that_are_due_together_are_answered_some_in_each_step(
    leader: Leader, monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int]
) -> None:
    names = ("ANSWERS_PER_STEP_MAX", "ANSWERED_BYTES_PER_STEP_MAX")
    for name, limit in zip(names, limits, strict=True):
        monkeypatch.setattr(consumer_fetches, name, limit)
    batch = batch_of([bytes(20)])
    assert 2 * len(batch[1]) < 250 < 3 * len(batch[1]), "three answers pass the limit"
    for _ in range(8):
        leader.ask(ApiKey.FETCH, 12, fetch(0, max_wait_ms=500))
    leader.clients.poll(0)
    leader.append(batch)
    found = [len(leader.answers)]
    while leader.clients.next_deadline_ms == AT_ONCE_MS:
        leader.clients.poll(0)
        found.append(len(leader.answers))
    assert found == [3, 6, 8]
    assert leader.clients.next_deadline_ms is None, "nothing is left to do"


def test_fetches_whose_time_is_over_together_are_answered_some_in_each_step(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_fetches, "ANSWERS_PER_STEP_MAX", 3)
    for _ in range(8):
        leader.ask(ApiKey.FETCH, 12, fetch(0, max_wait_ms=500))
    leader.clients.poll(0)
    found = []
    while leader.clients.next_deadline_ms is not None:
        leader.clients.poll(500)
        found.append(len(leader.answers))
    assert found == [3, 6, 8]


def test_a_fetch_above_the_high_watermark_counts_bytes_from_its_offset_on(leader: Leader) -> None:
    size_bytes = len(batch_of([b"a"])[1])
    leader.append(batch_of([b"a"]), batch_of([b"a"]), is_committed=False)
    several(leader, (TOPIC_NAME, 0, 2), max_wait_ms=100, min_bytes=2 * size_bytes)
    leader.commit()
    leader.append(batch_of([b"a"]))
    assert leader.answers == []
    leader.append(batch_of([b"a"]))
    assert rows_of(leader.answer()) == [(TOPIC_NAME, 0, 0, 2 * size_bytes)]


def test_fetches_that_ended_early_do_not_pile_up(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_fetches, "STALE_MAX", 10)
    for _ in range(200):
        several(leader, (TOPIC_NAME, 0, 0), max_wait_ms=1, min_bytes=1_000_000)
        leader.clients.poll(0)
        leader.clients.poll(1)
        leader.answer()
    assert len(leader.clients._fetches._by_bytes._entries) <= 13
    assert leader.clients.next_deadline_ms is None


def test_a_replica_acknowledges_nothing_to_those_who_serve_consumers(leader: Leader) -> None:
    leader.append(batch_of([b"a"]))
    for version, changes in ((12, {"replica_id": 2}), (16, {"replica_state": {"replica_id": 2, "replica_epoch": 1}})):
        body = fetch(0, max_wait_ms=500, **changes)
        leader.ask(ApiKey.FETCH, version, body if version == 12 else body | {"topics": topics_by_id(TOPIC_ID)})
        assert answered(leader)["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_what_is_only_in_the_files_is_enough(leader: Leader) -> None:
    leader.append(batch_of([b"a"]))
    leader.recent.begin_anew_at(Offset(1))
    several(leader, (TOPIC_NAME, 0, 0), max_wait_ms=100, min_bytes=1_000)
    assert len(leader.ports.reads) == 1


def test_the_state_of_groups_wakes_nobody(leader: Leader) -> None:
    leader.ask(ApiKey.FETCH, 12, fetch(0, max_wait_ms=500))
    leader.append(encode_group_batch([deleted_group("g")], timestamp_ms=1))
    assert leader.answers == []
    leader.append(batch_of([b"a"]))
    [answer] = leader.answer()["responses"]
    found = [header.is_group_state for _, header in scan(answer["partitions"][0]["records"])]
    assert found == [False], "consumers get no control batches"


def control() -> HeaderAndBytes:
    return encode_control_batch([KRaftVersion(1)], base_offset=Offset(0), epoch=Epoch(4), timestamp_ms=1)


def offsets(part: Any) -> list[int]:
    return [header.base_offset for _, header in scan(bytes(part["records"]))]


def test_control_batches_are_left_out_and_who_has_all_records_stays_before_them(leader: Leader) -> None:
    leader.append(control(), batch_of([b"a"]), control(), control(), batch_of([b"b"]), control())
    leader.ask(ApiKey.FETCH, 12, fetch(0))
    part = answered(leader)
    assert (offsets(part), part["high_watermark"]) == ([1, 4], 6)
    for offset in (5, 6):
        leader.ask(ApiKey.FETCH, 12, fetch(offset, max_wait_ms=500))
    leader.append(control())
    assert leader.answers == []
    leader.append(batch_of([b"c"]))
    assert [offsets(each["responses"][0]["partitions"][0]) for each in leader.answers if each] == [[7], [7]]


def test_control_batches_do_not_count_for_who_waits_for_bytes(leader: Leader) -> None:
    leader.ask(ApiKey.FETCH, 12, fetch(0, max_wait_ms=500, min_bytes=2 * len(batch_of([b"a"])[1])))
    leader.append(control(), control(), batch_of([b"a"]))
    assert leader.answers == []
    leader.append(batch_of([b"b"]))
    assert offsets(answered(leader)) == [2, 3]


def test_who_waits_behind_control_batches_reads_none_of_them_again(leader: Leader) -> None:
    leader.append(batch_of([b"a"]), control(), control())
    leader.recent.begin_anew_at(Offset(3))
    for offset in (1, 2, 3):
        leader.ask(ApiKey.FETCH, 12, fetch(offset))
        assert offsets(answered(leader)) == []
    assert leader.ports.reads == []


def test_a_piece_of_a_file_that_has_control_batches_only_is_not_the_answer(leader: Leader) -> None:
    leader.append(control(), control(), batch_of([b"a"]), control())
    whole = [bytes(data) for _, data in leader.recent.take(Offset(0), Offset(4), 10_000)]
    leader.recent.begin_anew_at(Offset(4))
    leader.ask(ApiKey.FETCH, 12, fetch(0))
    for piece in (whole[0], whole[1] + whole[2]):
        assert leader.answers == []
        [(_, then)] = leader.ports.reads
        leader.ports.reads.clear()
        then(piece)
    assert offsets(answered(leader)) == [2]


@given(
    batches=st.lists(st.booleans(), max_size=40),
    committed=st.lists(st.integers(0, 40), max_size=8),
    cut=st.integers(0, 40),
    most=st.sampled_from([2, 1_000]),
)
def test_the_end_of_the_records_is_known(batches: list[bool], committed: list[int], cut: int, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consumer_fetches, "CONTROL_RUNS_MAX", most)
        runs, known = consumer_fetches.ControlRuns(), list[bool]()
        for at, is_control in enumerate(batches):
            header, data = control() if is_control else batch_of([b"a"])
            runs.appended([place_batch(header, data, base_offset=Offset(at), epoch=Epoch(4))])
            known.append(is_control)
        if cut < len(known):
            runs.truncated(Offset(cut))
            del known[cut:]
    for end in sorted(each for each in committed if each <= len(known)):
        right = end
        while right and known[right - 1]:
            right -= 1
        # What is forgotten is read in vain, once more.
        assert runs.records_end(Offset(end)) in ({right} if most == 1_000 else {right, end})


def test_runs_of_control_batches_merge_and_end_with_the_log() -> None:
    runs = consumer_fetches.ControlRuns()
    placed = [place_batch(*control(), base_offset=Offset(at), epoch=Epoch(4)) for at in (3, 4, 5)]
    runs.appended(placed[:1])
    runs.appended(placed[1:])
    assert [runs.records_end(Offset(end)) for end in (3, 4, 6, 7)] == [3, 3, 3, 7]
    runs.appended(placed)
    runs.begin_anew()
    assert runs.records_end(Offset(6)) == 6
