"""Produce of Kafka's own producers: when a batch is answered, and with what."""

import gzip
import weakref
from random import Random
from typing import Any

import cramjam
import pytest

from pykraft.config import METADATA_TOPIC_NAME, RaftConfig
from pykraft.errors import (
    BufferFullError,
    ErrorCode,
    NotLeaderError,
    NotRunningError,
    ProtocolError,
    RecordBatchTooLargeError,
)
from pykraft.host import producers as producers_module
from pykraft.host.clients import produce_requests
from pykraft.host.clients.produce_requests import CHECKED_AT_ONCE_SIZE_BYTES_MAX, AppendOrder, CheckResult
from pykraft.host.clients.producer_states import COUNTER_BITS
from pykraft.host.fetch_read import HeaderAndBytes
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import decode_request_header, encode_request, encode_response
from pykraft.protocol.batch import HEADER_SIZE_BYTES
from pykraft.protocol.compression import Compression
from pykraft.protocol.cut_frame import CutFrame
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.records import decode_records
from pykraft.types import Epoch, Offset
from tests.host.clients.world import FOLLOWS, LEADS, Leader, batch_of, produce, resealed
from tests.host.fakes import TOPIC_ID, TOPIC_NAME, endpoint
from tests.memory import TRIES_MAX, taking_less_than

ID = (4 << COUNTER_BITS) + 1


def ask(leader: Leader, sequence: int = -1, *, values: tuple[bytes, ...] = (b"a", b"b"), **changes: Any) -> None:
    _, data = batch_of(values) if sequence < 0 else batch_of(values, producer_id=ID, sequence=sequence)
    leader.ask(ApiKey.PRODUCE, 11, produce(data, **changes))


def codes(answer: Any) -> ErrorCode:
    [topic] = answer["responses"]
    return ErrorCode(topic["partition_responses"][0]["error_code"])


def answered(leader: Leader) -> Any:
    [topic] = leader.answer()["responses"]
    [part] = topic["partition_responses"]
    return part


@pytest.fixture
def leader() -> Leader:
    return Leader()


def test_a_batch_goes_into_the_log_as_it_came_and_is_answered_when_it_is_committed(leader: Leader) -> None:
    leader.append(batch_of([b"before"]))
    ask(leader, 0)
    leader.decide()
    assert leader.answers == []
    leader.commit()
    part = answered(leader)
    assert (part["error_code"], part["base_offset"]) == (ErrorCode.NONE, 1)
    [_, (header, data)] = leader.recent.take(leader.view.start_offset, leader.recent.end_offset, 10_000)
    assert (header.base_offset, header.epoch, header.producer_id) == (1, 4, ID)
    assert [(one.offset, one.value) for one in decode_records(data)] == [(1, b"a"), (2, b"b")]


def test_a_topic_is_named_by_its_id_since_version_13(leader: Leader) -> None:
    for name, code in ((METADATA_TOPIC_NAME, ErrorCode.NONE), ("other", ErrorCode.UNKNOWN_TOPIC_ID)):
        body = produce(batch_of()[1], name=name)
        leader.ask(ApiKey.PRODUCE, 13, body)
        if not code:
            leader.decide()
            leader.commit()
        [topic] = leader.answer()["responses"]
        assert topic["topic_id"] == body["topic_data"][0]["topic_id"]
        assert topic["partition_responses"][0]["error_code"] == code


def test_a_large_batch_is_checked_off_the_loop(leader: Leader) -> None:
    ask(leader, values=(b"x" * CHECKED_AT_ONCE_SIZE_BYTES_MAX,))
    [(read, then)] = leader.ports.reads
    assert leader.inbox.take() is None
    then(read())
    leader.take()
    assert answered(leader)["error_code"] == ErrorCode.NONE


LARGE = (b"x" * CHECKED_AT_ONCE_SIZE_BYTES_MAX,)


def test_what_a_stranger_sent_before_it_hung_up_is_not_checked(leader: Leader) -> None:
    ask(leader, values=LARGE)
    assert leader.on_gone is not None
    leader.on_gone()
    [check] = leader.ports.checks
    assert check.is_cancelled
    leader.ports.finish_read()
    assert leader.inbox.take() is None
    ask(leader, values=(b"small",))
    leader.take()
    assert answered(leader)["error_code"] == ErrorCode.NONE, "the connection's line is gone, too"


def test_a_check_that_is_over_or_cancelled_is_freed_at_once(leader: Leader) -> None:
    for ends in (True, False):
        ask(leader, values=LARGE)
        check = weakref.ref(leader.ports.checks.pop())
        if ends:
            leader.ports.finish_read()
            leader.take()
            leader.answers.clear()
        else:
            assert leader.on_gone is not None
            leader.on_gone()
            leader.ports.reads.clear()
        leader.on_gone = None
        assert check() is None, "no cycle holds it, and the batch"


def test_the_last_records_of_a_producer_that_wants_no_answer_are_appended_after_it_left(leader: Leader) -> None:
    leader.ask(ApiKey.PRODUCE, 9, produce(batch_of(LARGE)[1], acks=0))
    assert leader.on_gone is None
    leader.ports.finish_read()
    leader.take()
    assert leader.recent.end_offset == 1


def test_checks_of_proven_connections_and_small_batches_come_first(leader: Leader) -> None:
    bad = resealed(batch_of([b"x"] * 700)[1], last_offset_delta=9)
    for connection, data in ((1, batch_of([b"x"] * 700)[1]), (2, bad)):
        leader.ask(ApiKey.PRODUCE, 9, produce(data), connection=connection)
        leader.ports.finish_read()
    leader.ports.checks.clear()
    for connection in (1, 2, 3):
        for count in (6_000, 700):
            leader.ask(ApiKey.PRODUCE, 9, produce(batch_of([b"x"] * count)[1]), connection=connection)
    assert [(check.rank, check.is_doubtful) for check in leader.ports.checks] == [
        ((0, 6_000), False),
        ((0, 700), False),
        ((2, 6_000), True),
        ((2, 700), True),
        ((1, 6_000), True),
        ((1, 700), False),
    ]


def test_batches_that_wait_to_be_checked_take_bounded_memory(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce_requests, "CHECKING_SIZE_BYTES_MAX", 2 * CHECKED_AT_ONCE_SIZE_BYTES_MAX)
    ask(leader, values=LARGE)
    leader.ask(ApiKey.PRODUCE, 9, produce(batch_of(LARGE)[1]), connection=2)
    assert answered(leader)["error_code"] == ErrorCode.NOT_ENOUGH_REPLICAS
    leader.ports.finish_read()
    leader.ask(ApiKey.PRODUCE, 9, produce(batch_of(LARGE)[1]), connection=2)
    assert leader.answers == [], "there is room again"


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("transactional_id", [None, "t"])
def test_a_request_that_is_too_large_is_refused_by_its_beginning(version: int, transactional_id: str | None) -> None:
    body = produce(bytes(10_000), transactional_id=transactional_id)
    raw = b"".join(bytes(part) for part in encode_request(ApiKey.PRODUCE, version, 1, "p", body))
    for size_bytes in (len(raw) // 2, 200):
        data = CutFrame(raw[:size_bytes])
        told = produce_requests.refuse_too_large(decode_request_header(data), data)
        encode_response(ApiKey.PRODUCE, version, 1, told)
        [topic] = told["responses"]
        [part] = topic["partition_responses"]
        named = {"name": TOPIC_NAME} if version < 13 else {"topic_id": TOPIC_ID}
        del topic["partition_responses"]
        assert (topic, part["index"], part["error_code"]) == (named, 0, ErrorCode.MESSAGE_TOO_LARGE)


def test_what_cannot_be_refused_in_words_closes_the_connection() -> None:
    whole = b"".join(bytes(part) for part in encode_request(ApiKey.PRODUCE, 9, 1, "p", produce(b"x", acks=0)))
    empty = produce(b"x") | {"topic_data": []}
    for raw in (whole, whole[:20], b"".join(map(bytes, encode_request(ApiKey.PRODUCE, 9, 1, "p", empty)))):
        data = CutFrame(raw)
        with pytest.raises(ProtocolError):
            produce_requests.refuse_too_large(decode_request_header(data), data)
    unknown = CutFrame(b"\0\0\0\x63" + whole[4:])
    with pytest.raises(ProtocolError, match="v99 is not supported"):
        produce_requests.refuse_too_large(decode_request_header(unknown), unknown)


def test_records_from_the_far_future_are_refused(leader: Leader) -> None:
    leader.clients.poll(0, 1_000)
    for timestamp_ms, code in ((3_601_001, ErrorCode.INVALID_TIMESTAMP), (3_601_000, ErrorCode.NONE)):
        leader.ask(ApiKey.PRODUCE, 9, produce(batch_of(timestamp_ms=timestamp_ms)[1]))
        if code == ErrorCode.NONE:
            leader.take()
        assert answered(leader)["error_code"] == code


def test_a_small_batch_waits_for_a_large_one_that_came_before_it_on_its_connection(leader: Leader) -> None:
    ask(leader, 0, values=(b"x" * CHECKED_AT_ONCE_SIZE_BYTES_MAX,))
    ask(leader, 1, values=(b"small",))
    [(read, then)] = leader.ports.reads
    assert leader.answers == []
    assert leader.inbox.take() is None
    then(read())
    leader.decide()
    leader.take()
    answers, leader.answers = leader.answers, []
    assert [codes(each) for each in answers] == [ErrorCode.NONE] * 2


def test_a_batch_whose_predecessor_is_rejected_leaves_no_gap(leader: Leader) -> None:
    ask(leader, 0, values=(b"a",))
    ask(leader, 1, values=(b"b",))
    leader.reject(BufferFullError("full"))
    assert leader.inbox.take() is None
    answers, leader.answers = leader.answers, []
    assert [codes(each) for each in answers] == [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]


def test_a_repeat_of_a_batch_that_is_rejected_takes_its_place(leader: Leader) -> None:
    ask(leader, 0)
    _, data = batch_of((b"a", b"b"), producer_id=ID, sequence=0)
    leader.ask(ApiKey.PRODUCE, 11, produce(data), connection=2)
    leader.reject(BufferFullError("full"))
    assert answered(leader)["error_code"] == ErrorCode.NOT_ENOUGH_REPLICAS
    leader.take()
    assert answered(leader)["base_offset"] == 0


def test_acks_0_wants_no_answer(leader: Leader) -> None:
    ask(leader, acks=0)
    leader.take()
    assert leader.answer() is None
    ask(leader, acks=0, name="other")
    [error] = leader.closed
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(error), "a client without an answer hears of an error by the connection"


def data_of(**changes: Any) -> bytes:
    """A good batch whose header has other fields."""
    return resealed(batch_of([b"a", b"b"])[1], **changes)


def packed(codec: Compression, records: bytes) -> bytes:
    """A batch of one record whose records are these, compressed."""
    body = bytes(cramjam.zstd.compress(records)) if codec is Compression.ZSTD else gzip.compress(records)
    raw = bytearray(bytes(batch_of([b"a"])[1])[:HEADER_SIZE_BYTES] + body)
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    return resealed(raw, attributes=codec)


GOOD = bytes(batch_of([b"a", b"b"])[1])
ONE = bytes(batch_of([b"a"])[1])[HEADER_SIZE_BYTES:]
BOMB = packed(Compression.GZIP, bytes(3 * 8_388_608))


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ({"name": "other"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "this quorum keeps partition 0 of"),
        ({"index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "this quorum keeps partition 0 of"),
        ({"status": FOLLOWS}, ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node does not lead epoch 4"),
        ({"acks": 2}, ErrorCode.INVALID_REQUIRED_ACKS, "acks 2: give 0, 1 or -1"),
        ({"acks": -2}, ErrorCode.INVALID_REQUIRED_ACKS, "acks -2: give 0, 1 or -1"),
        ({"transactional_id": "t"}, ErrorCode.INVALID_REQUEST, "transactions are not supported"),
        ({"records": None}, ErrorCode.INVALID_RECORD, "there are no records"),
        ({"records": GOOD * 2}, ErrorCode.INVALID_RECORD, "there is more than one batch"),
        ({"records": GOOD[:-1]}, ErrorCode.CORRUPT_MESSAGE, "batch"),
        ({"records": GOOD[:-1] + b"!"}, ErrorCode.CORRUPT_MESSAGE, "CRC"),
        ({"records": data_of(records_count=1)}, ErrorCode.INVALID_RECORD, "1 records for 2 offsets"),
        ({"records": data_of(attributes=0x20)}, ErrorCode.INVALID_RECORD, "no control records"),
        ({"records": data_of(attributes=0x10)}, ErrorCode.INVALID_RECORD, "transactions are not supported"),
        ({"records": data_of(producer_id=5)}, ErrorCode.INVALID_RECORD, "producer 5 has epoch -1 and sequence -1"),
        ({"records": data_of(attributes=1)}, ErrorCode.CORRUPT_MESSAGE, "the gzip records of a batch cannot"),
        ({"records": packed(Compression.GZIP, ONE[:-1])}, ErrorCode.INVALID_RECORD, "record 0 of the batch"),
        ({"records": BOMB}, ErrorCode.MESSAGE_TOO_LARGE, "expand beyond 16777216 bytes"),
        (
            {"records": bytes(batch_of([bytes(1_000)])[1]), "raft": RaftConfig(batch_size_bytes_max=1_024)},
            ErrorCode.MESSAGE_TOO_LARGE,
            "a batch may take 1024",
        ),
        (
            {"records": packed(Compression.ZSTD, ONE), "version": 6},
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            "Produce v6 does not know zstd",
        ),
        ({"records": data_of(attributes=5)}, ErrorCode.INVALID_RECORD, "codec 5, which does not exist"),
        ({"records": GOOD, "client_records": "kraft"}, ErrorCode.NONE, None),
        (
            {"records": packed(Compression.GZIP, ONE), "client_records": "kraft"},
            ErrorCode.INVALID_RECORD,
            "since it is compressed with gzip; it is refused because pykraft.client.records=kraft",
        ),
        ({"records": packed(Compression.ZSTD, ONE), "version": 7}, ErrorCode.NONE, None),
    ],
)
def test_what_each_request_gets(changes: dict[str, Any], code: ErrorCode, text: str | None) -> None:
    wanted: dict[str, Any] = {"records": GOOD, "version": 11, "status": LEADS} | changes
    of_node = {key: wanted.pop(key) for key in ("client_records", "raft") if key in wanted}
    leader, version, records = Leader(wanted.pop("status"), **of_node), wanted.pop("version"), wanted.pop("records")
    leader.ask(ApiKey.PRODUCE, version, produce(records, **wanted))
    while leader.ports.reads:
        leader.ports.finish_read()
    if code is ErrorCode.NONE:
        leader.take()
    part = answered(leader)
    assert part["error_code"] == code
    if version >= 8:
        assert text in part["error_message"] if text else part["error_message"] is None


@pytest.mark.parametrize("size_bytes", [20, CHECKED_AT_ONCE_SIZE_BYTES_MAX])
def test_an_error_keeps_nothing_of_what_its_batch_expanded_to(size_bytes: int) -> None:
    """16 partitions have the same damaged batch; large ones wait in line until the first one is checked, at last."""
    limit_bytes = 65_536
    cut_off = bytes(cramjam.zstd.compress(Random(1).randbytes(size_bytes)))[:-1]
    raw = bytearray(GOOD[:HEADER_SIZE_BYTES] + cut_off)
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    body = produce(resealed(raw, attributes=Compression.ZSTD))
    body["topic_data"] *= 16
    leaders = []
    for _ in range(TRIES_MAX):
        leader = Leader(raft=RaftConfig(batch_size_bytes_max=limit_bytes))
        ask(leader, name="other")  # makes the reader and the writer of this version, which stay
        assert answered(leader)["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        leaders.append(leader)

    def produced() -> Leader:
        leader = leaders.pop()
        leader.ask(ApiKey.PRODUCE, 11, body)
        for read, then in reversed(leader.ports.reads):
            then(read())
        return leader

    leader = taking_less_than(4 * limit_bytes + 64 * 1024, produced)
    parts = [part for topic in leader.answer()["responses"] for part in topic["partition_responses"]]
    assert {part["error_code"] for part in parts} == {ErrorCode.CORRUPT_MESSAGE}


def test_an_unknown_producer_hears_where_the_log_starts_and_goes_on() -> None:
    """As Java's does: it repeats its batch for ever without the log start, else under the next producer epoch."""
    leader = Leader(LEADS._replace(log_start_offset=Offset(3)))
    leader.clients.begun_anew(Epoch(4))
    rows: list[tuple[ErrorCode, int]] = []
    for producer_epoch in (0, 1):
        _, data = batch_of(producer_id=ID, producer_epoch=producer_epoch)
        leader.ask(ApiKey.PRODUCE, 11, produce(data))
        if producer_epoch == 1:
            leader.take()
        part = answered(leader)
        rows.append((part["error_code"], part["log_start_offset"]))
    assert rows == [(ErrorCode.UNKNOWN_PRODUCER_ID, 3), (ErrorCode.NONE, 3)]


def test_each_partition_gets_its_own_answer(leader: Leader) -> None:
    good = {"index": 0, "records": GOOD}
    topics = [
        {"name": "other", "partition_data": [good]},
        {"name": TOPIC_NAME, "partition_data": [{"index": 1, "records": GOOD}, good, good]},
        {"name": METADATA_TOPIC_NAME, "partition_data": [{"index": 0, "records": b"bad"}]},
    ]
    leader.ask(ApiKey.PRODUCE, 11, {"acks": -1, "timeout_ms": 1, "transactional_id": None, "topic_data": topics})
    leader.take()
    assert leader.answers == []
    leader.take()
    rows = [
        (
            topic["name"],
            [(each["index"], each["error_code"], each["base_offset"]) for each in topic["partition_responses"]],
        )
        for topic in leader.answer()["responses"]
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert rows == [
        ("other", [(0, unknown, -1)]),
        (TOPIC_NAME, [(1, unknown, -1), (0, 0, 0), (0, 0, 2)]),
        (METADATA_TOPIC_NAME, [(0, ErrorCode.CORRUPT_MESSAGE, -1)]),
    ]


def test_an_empty_request_and_a_bad_batch() -> None:
    leader = Leader(client_records="kraft")
    leader.ask(ApiKey.PRODUCE, 11, produce(None) | {"topic_data": []})
    assert leader.answer()["responses"] == []
    leader.ask(ApiKey.PRODUCE, 11, produce(b"bad"))
    assert answered(leader)["error_code"] == ErrorCode.CORRUPT_MESSAGE


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
def test_a_rejected_batch_may_be_sent_again(leader: Leader, error: Exception, code: ErrorCode) -> None:
    for sequence in (0, -1):
        ask(leader, sequence)
        leader.reject(error)
        assert answered(leader)["error_code"] == code
    ask(leader, 0)
    leader.take()
    assert answered(leader)["error_code"] == ErrorCode.NONE


def test_too_many_proposals_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers_module, "UNDECIDED_PROPOSALS_MAX", 1)
    leader = Leader()
    ask(leader, 0)
    ask(leader)
    assert answered(leader)["error_code"] == ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_wrong_sequence_is_refused(leader: Leader) -> None:
    ask(leader, 5)
    assert answered(leader)["error_code"] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_repeated_batch_waits_for_the_commit_of_the_first_and_gets_its_offset(leader: Leader) -> None:
    ask(leader, 0)
    ask(leader, 0)
    leader.decide()
    leader.clients.after_step(leader.status)
    assert leader.answers == []
    leader.commit()
    answers, leader.answers = leader.answers, []
    assert [one["responses"][0]["partition_responses"][0]["base_offset"] for one in answers if one] == [0, 0]
    ask(leader, 0)
    assert (answered(leader)["base_offset"], leader.recent.end_offset) == (0, 2)
    assert leader.inbox.take() is None


def test_a_lost_leadership_leaves_the_outcome_unknown_for_both(leader: Leader) -> None:
    ask(leader, 0)
    ask(leader, 0)
    leader.decide()
    leader.lose()
    answers, leader.answers = leader.answers, []
    codes = [one["responses"][0]["partition_responses"][0]["error_code"] for one in answers if one]
    assert codes == [ErrorCode.REQUEST_TIMED_OUT] * 2


FIRST, OTHER = ConnectionId(1), ConnectionId(2)
PRODUCER = 7


def sound(sequence: int) -> HeaderAndBytes:
    return batch_of(producer_id=PRODUCER, sequence=sequence)


class Desk:
    """What has gone on, and which producer ids are held."""

    def __init__(self) -> None:
        self.held: set[int] = set()
        self.gone: list[CheckResult] = []
        self.order = AppendOrder(lambda found: found.producer_id in self.held)


def test_a_checked_batch_waits_for_the_one_before_it() -> None:
    desk = Desk()
    large = desk.order.join(FIRST, desk.gone.append)
    assert not desk.order.passes(FIRST, sound(1))
    assert desk.order.passes(OTHER, sound(1)), "another connection does not wait"
    desk.order.join(FIRST, desk.gone.append).found = sound(1)
    desk.order.advance()
    assert desk.gone == []
    large.found = sound(0)
    desk.order.advance()
    assert desk.gone == [sound(0), sound(1)]
    assert len(desk.order) == 0
    assert desk.order.passes(FIRST, sound(2))


def test_a_batch_waits_while_one_of_its_producer_has_no_place() -> None:
    desk = Desk()
    desk.held.add(PRODUCER)
    bad = ProtocolError("bad")
    assert not desk.order.passes(FIRST, sound(0))
    assert desk.order.passes(FIRST, bad), "a bad batch waits for nobody"
    desk.order.join(FIRST, desk.gone.append).found = sound(0)
    desk.order.join(OTHER, desk.gone.append).found = bad
    desk.order.advance()
    assert desk.gone == [bad]
    desk.held.clear()
    desk.order.advance()
    assert desk.gone == [bad, sound(0)]


def test_a_batch_that_goes_on_may_free_others() -> None:
    desk = Desk()
    desk.held.add(PRODUCER)

    def rejects(found: CheckResult) -> None:
        desk.gone.append(found)
        desk.held.clear()
        desk.order.advance()

    desk.order.join(FIRST, desk.gone.append).found = sound(0)
    desk.order.join(OTHER, rejects).found = ProtocolError("bad")
    desk.order.advance()
    assert [isinstance(each, ProtocolError) for each in desk.gone] == [True, False]
