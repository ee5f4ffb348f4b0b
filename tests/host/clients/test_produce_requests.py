"""Produce of Kafka's own producers: when a batch is answered, and with what.

Source: Kafka's ``ReplicaManager.appendRecords``; KIP-98; ours (ADR 065).
"""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.errors import BufferFullError, ErrorCode, NotLeaderError, NotRunningError, RecordBatchTooLargeError
from pykraft.host import producers as producers_module
from pykraft.host.clients.produce_requests import CHECKED_AT_ONCE_SIZE_BYTES_MAX
from pykraft.host.clients.producer_states import COUNTER_BITS
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.records import decode_records
from pykraft.types import Epoch
from tests.host.clients.world import FOLLOWS, Leader, batch_of, produce
from tests.host.fakes import endpoint

ID = (4 << COUNTER_BITS) + 1


def ask(leader: Leader, sequence: int = -1, *, values: tuple[bytes, ...] = (b"a", b"b"), **changes: Any) -> None:
    _, data = batch_of(values) if sequence < 0 else batch_of(values, producer_id=ID, sequence=sequence)
    leader.ask(ApiKey.PRODUCE, 11, produce(data, **changes))


def told(leader: Leader) -> Any:
    [topic] = leader.answer()["responses"]
    [part] = topic["partition_responses"]
    return part


def test_a_batch_goes_into_the_log_as_it_came_and_is_answered_when_it_is_committed() -> None:
    leader = Leader()
    leader.append(batch_of([b"before"]))
    ask(leader, 0)
    leader.decide()
    assert leader.answers == []
    leader.commit()
    part = told(leader)
    assert (part["error_code"], part["base_offset"]) == (ErrorCode.NONE, 1)
    [_, (header, data)] = leader.recent.take(leader.view.start_offset, leader.recent.end_offset, 10_000)
    assert (header.base_offset, header.epoch, header.producer_id) == (1, 4, ID)
    assert [(one.offset, one.value) for one in decode_records(data)] == [(1, b"a"), (2, b"b")]


def test_a_large_batch_is_checked_off_the_loop() -> None:
    leader = Leader()
    ask(leader, values=(b"x" * CHECKED_AT_ONCE_SIZE_BYTES_MAX,))
    [(read, then)] = leader.ports.reads
    assert leader.inbox.take() is None
    then(read())
    leader.decide()
    leader.commit()
    assert told(leader)["error_code"] == ErrorCode.NONE


def test_acks_0_wants_no_answer() -> None:
    leader = Leader()
    ask(leader, acks=0)
    leader.decide()
    leader.commit()
    assert leader.answer() is None
    ask(leader, acks=0, name="other")
    assert leader.answer() is None


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"name": "other"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"acks": 2}, ErrorCode.INVALID_REQUIRED_ACKS),
        ({"transactional_id": "t"}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_request_that_cannot_be_served_says_why(changes: dict[str, Any], code: ErrorCode) -> None:
    leader = Leader()
    ask(leader, **changes)
    assert told(leader)["error_code"] == code


def test_an_empty_request_and_a_bad_batch() -> None:
    leader = Leader(client_records="kraft")
    leader.ask(ApiKey.PRODUCE, 11, produce(None) | {"topic_data": []})
    assert leader.answer()["responses"] == []
    leader.ask(ApiKey.PRODUCE, 11, produce(b"bad"))
    assert told(leader)["error_code"] == ErrorCode.CORRUPT_MESSAGE


def test_a_follower_names_the_leader() -> None:
    leader = Leader(FOLLOWS)
    ask(leader)
    answer = leader.answer()
    [part] = answer["responses"][0]["partition_responses"]
    assert part["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert part["current_leader"] == {"leader_id": 2, "leader_epoch": 4}
    assert [(each["node_id"], each["port"]) for each in answer["node_endpoints"]] == [(2, endpoint(2).port)]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotLeaderError(None, Epoch(4)), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (NotRunningError("over"), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (RecordBatchTooLargeError("large"), ErrorCode.MESSAGE_TOO_LARGE),
        (BufferFullError("full"), ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_a_rejected_batch_may_be_sent_again(error: Exception, code: ErrorCode) -> None:
    leader = Leader()
    for sequence in (0, -1):
        ask(leader, sequence)
        leader.reject(error)
        assert told(leader)["error_code"] == code
    ask(leader, 0)
    leader.decide()
    leader.commit()
    assert told(leader)["error_code"] == ErrorCode.NONE


def test_too_many_proposals_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers_module, "UNDECIDED_PROPOSALS_MAX", 1)
    leader = Leader()
    ask(leader, 0)
    ask(leader, 2)
    assert told(leader)["error_code"] == ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_wrong_sequence_is_refused() -> None:
    leader = Leader()
    ask(leader, 5)
    assert told(leader)["error_code"] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_repeated_batch_waits_for_the_commit_of_the_first_and_gets_its_offset() -> None:
    leader = Leader()
    ask(leader, 0)
    ask(leader, 0)
    leader.decide()
    leader.clients.look(leader.status)
    assert leader.answers == []
    leader.commit()
    answers, leader.answers = leader.answers, []
    assert [one["responses"][0]["partition_responses"][0]["base_offset"] for one in answers if one] == [0, 0]
    ask(leader, 0)
    assert (told(leader)["base_offset"], leader.recent.end_offset) == (0, 2)
    assert leader.inbox.take() is None


def test_a_lost_leadership_leaves_the_outcome_unknown_for_both() -> None:
    leader = Leader()
    ask(leader, 0)
    ask(leader, 0)
    leader.decide()
    leader.lose()
    answers, leader.answers = leader.answers, []
    codes = [one["responses"][0]["partition_responses"][0]["error_code"] for one in answers if one]
    assert codes == [ErrorCode.REQUEST_TIMED_OUT] * 2
