"""Which records clients may write, by what is known of the quorum's replicas, and which batches each profile takes.

Source: KIP-511; ADR 079.
"""

import gzip
import zlib
from dataclasses import replace

import pytest

from pykraft.core.leader.progress import OBSERVER_SESSION_MS
from pykraft.core.messages import FetchRequest
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.host.clients import records_profile as module
from pykraft.host.clients.records_profile import RecordsProfile, StrictProfile, check_client_batch
from pykraft.host.fetch_read import HeaderAndBytes
from pykraft.host.ports import run_steps
from pykraft.protocol.batch import HEADER_SIZE_BYTES, check_crc, read_header
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.primitives import encode_varint
from pykraft.protocol.records import (
    RECORDS_PER_STEP,
    decode_records,
    encode_batch,
    encode_control_batch,
    encode_group_batch,
)
from pykraft.types import Buffer, Epoch, LeaderChange, NodeId, Offset, ReplicaKey
from tests.host.clients.test_produce_requests import answered
from tests.host.clients.world import FOLLOWS, LEADS, Leader, batch_of, config, produce, resealed, with_header
from tests.host.fakes import FakePorts
from tests.memory import taking_less_than

OURS, JAVA = "pykraft", "apache-kafka-java"
SETTLED_MS = 2_000
"""The fetch timeout: after it a leader has heard every voter that runs."""


class Desk:
    """The profile of voter 1 of three; it leads since 0 ms."""

    def __init__(self, records: str = "auto") -> None:
        self.ports = FakePorts()
        self.profile = RecordsProfile(self.ports, config(client_records=records))
        self.at(0)

    def at(self, mono_ms: int) -> None:
        """A step at this time."""
        self.profile.after_step(LEADS)
        self.profile.poll(mono_ms)
        self.profile.after_step(LEADS)

    def fetched(self, replica_id: int | None, software: str | None, *, epoch: int = 4) -> None:
        """A replica fetches, and a step follows."""
        self.profile.replica_fetched(fetch(replica_id, epoch=epoch), software)
        self.profile.after_step(LEADS)

    @property
    def why(self) -> str | None:
        """Why the strict profile holds; None if it does not."""
        strict = self.profile.strict(LEADS)
        return None if strict is None else strict.why


def fetch(replica_id: int | None, *, epoch: int = 4) -> FetchRequest:
    return FetchRequest(
        replica=None if replica_id is None else ReplicaKey(NodeId(replica_id)),
        epoch=Epoch(4),
        fetch_offset=Offset(3),
        last_fetched_epoch=Epoch(epoch),
        wait_ms_max=0,
        size_bytes_max=1,
        high_watermark=None,
    )


@pytest.mark.parametrize(("records", "is_strict"), [("any", False), ("kraft", True)])
def test_an_explicit_setting_wins(records: str, is_strict: bool) -> None:
    desk = Desk(records)
    for software in (OURS, JAVA):
        desk.fetched(2, software)
        desk.fetched(3, software)
        assert (desk.why is not None) == is_strict
    assert desk.ports.reports == []


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_any_records_are_taken_once_every_voter_is_known_to_be_pykraft(desk: Desk) -> None:
    desk.fetched(2, OURS)
    assert desk.why == "voter 3 is not known to be pykraft (pykraft.client.records=auto)"
    desk.profile.found_pykraft(NodeId(3))
    assert desk.why is None
    assert desk.ports.reports == [], "nothing changed after the grace period"


def code_of(desk: Desk) -> ErrorCode:
    strict = desk.profile.strict(LEADS)
    assert strict is not None
    return strict.code


def test_clients_try_again_while_a_voter_is_unknown_and_the_log_says_so_once_all_were_heard(desk: Desk) -> None:
    for mono_ms, reported in ((SETTLED_MS - 1, 0), (SETTLED_MS, 1), (10 * SETTLED_MS, 1)):
        desk.at(mono_ms)
        assert code_of(desk) == ErrorCode.NOT_ENOUGH_REPLICAS
        assert len(desk.ports.reports) == reported


def test_a_voter_of_kafkas_is_no_reason_to_try_again_and_an_observer_is(desk: Desk) -> None:
    desk.fetched(2, OURS)
    desk.fetched(3, OURS)
    desk.fetched(1_000, JAVA)
    assert code_of(desk) == ErrorCode.NOT_ENOUGH_REPLICAS, "a stranger's single Fetch stops no producer"
    desk.fetched(3, JAVA)
    assert code_of(desk) == ErrorCode.INVALID_RECORD
    assert desk.why == f"replica 3 is not pykraft, it calls itself {JAVA} (pykraft.client.records=auto)"


@pytest.mark.parametrize("what", ["keyed", "compressed", "several times"])
def test_once_a_batch_is_in_the_log_that_kafka_cannot_read_others_may_follow(desk: Desk, what: str) -> None:
    found = {
        "keyed": batch(record(key=b"k")),
        "compressed": GZIPPED,
        "several times": batch(record(), max_timestamp=8),
    }[what]
    plain = batch(record())
    desk.profile.appended([(read_header(plain), plain)])
    assert desk.why is not None
    for _ in range(module.LOOKED_INTO_EVERY):
        desk.profile.appended([(replace(read_header(found), base_offset=Offset(5)), found)])
    assert desk.why is None, "a voter may be down, and a node restarted"
    assert desk.profile.strict(LEADS._replace(log_start_offset=Offset(6))) is not None, "a snapshot has replaced it"
    desk.profile.truncated(Offset(5))
    assert desk.why is not None


def test_a_restarted_leader_takes_what_is_in_its_log_already() -> None:
    leader = Leader(client_records="auto")
    leader.append((read_header(GZIPPED), GZIPPED))
    leader.ask(ApiKey.PRODUCE, 11, produce(GZIPPED))
    leader.take()
    assert answered(leader)["error_code"] == ErrorCode.NONE


@pytest.mark.parametrize("name", [JAVA, None, "x" * 65, "a b"])
def test_a_java_replica_that_joins_later_changes_the_profile_and_the_log_warns(desk: Desk, name: str | None) -> None:
    desk.fetched(2, OURS)
    desk.fetched(3, OURS)
    assert desk.why is None
    desk.at(SETTLED_MS)
    desk.fetched(3, name)
    shown = JAVA if name == JAVA else "a client without a name"
    why = f"replica 3 is not pykraft, it calls itself {shown} (pykraft.client.records=auto)"
    assert desk.why == why
    desk.fetched(7, JAVA)
    warning = (
        f"clients may write only what Kafka's own replicas can read: {why}; "
        "such a replica stops at other records that are in the log already"
    )
    assert desk.ports.reports == [warning]
    desk.fetched(3, OURS)
    desk.fetched(7, OURS)
    assert desk.ports.reports[-1] == "clients may write any records: every replica is known to be pykraft"
    assert len(desk.ports.reports) == 3


def test_an_observer_of_kafkas_counts_for_five_minutes_after_its_last_fetch(desk: Desk) -> None:
    desk.fetched(2, OURS)
    desk.fetched(3, OURS)
    for replica_id in (9, None):
        desk.fetched(replica_id, JAVA)
    desk.at(1_000)
    desk.fetched(9, JAVA)
    desk.at(OBSERVER_SESSION_MS)
    assert desk.why is not None
    assert desk.why.startswith("replica 9 ")
    desk.at(OBSERVER_SESSION_MS + 1_000)
    assert desk.why is None


def test_an_observer_without_an_id_is_named_and_a_consumer_does_not_count(desk: Desk) -> None:
    desk.fetched(2, OURS)
    desk.fetched(3, OURS)
    desk.fetched(None, "a-consumer", epoch=-1)
    assert desk.why is None
    desk.fetched(None, JAVA)
    assert desk.why is not None
    assert desk.why.startswith("an observer without an id is not pykraft")


def test_a_voter_of_kafkas_that_fell_silent_is_still_not_pykraft(desk: Desk) -> None:
    desk.fetched(2, OURS)
    desk.fetched(3, JAVA)
    desk.at(2 * OBSERVER_SESSION_MS)
    assert desk.why == "voter 3 is not known to be pykraft (pykraft.client.records=auto)"


def test_a_voter_that_becomes_kafkas_is_not_pykraft_any_more(desk: Desk) -> None:
    desk.fetched(2, OURS)
    desk.fetched(3, OURS)
    desk.fetched(3, JAVA)
    desk.at(OBSERVER_SESSION_MS)
    assert desk.why == "voter 3 is not known to be pykraft (pykraft.client.records=auto)"


def test_made_up_replicas_are_bounded_and_a_forgotten_voter_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REPLICAS_MAX", 2)
    desk = Desk()
    desk.fetched(2, OURS)
    desk.fetched(3, OURS)
    desk.fetched(2, OURS)
    desk.fetched(8, OURS)
    assert desk.why == "voter 3 is not known to be pykraft (pykraft.client.records=auto)"
    for replica_id in (11, 12, 13):
        desk.fetched(replica_id, JAVA)
    assert desk.why is not None
    assert desk.why.startswith("replica 12 ")


def test_a_follower_logs_nothing(desk: Desk) -> None:
    desk.profile.replica_fetched(fetch(3), JAVA)
    desk.profile.poll(SETTLED_MS)
    desk.profile.after_step(FOLLOWS)
    assert desk.ports.reports == []


def test_a_producer_hears_which_rule_its_batch_broke_and_why_it_holds() -> None:
    leader = Leader(client_records="auto")
    leader.clients.after_step(leader.status)
    leader.clients.poll(0)
    plain = bytes(batch_of()[1])
    zipped = resealed(plain[:HEADER_SIZE_BYTES] + gzip.compress(plain[HEADER_SIZE_BYTES:]), attributes=1)
    raw = bytearray(zipped)
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    zipped = resealed(raw)
    for now_ms in (1, SETTLED_MS):
        leader.clients.poll(now_ms)
        leader.ask(ApiKey.PRODUCE, 11, produce(zipped))
        part = answered(leader)
        assert part["error_code"] == ErrorCode.NOT_ENOUGH_REPLICAS
        assert part["error_message"] == (
            "Kafka's own replicas cannot read this batch, since it is compressed with gzip; "
            "it is refused because voter 2 is not known to be pykraft (pykraft.client.records=auto)"
        )
    leader.ask(ApiKey.PRODUCE, 11, produce(plain))
    leader.take()
    assert answered(leader)["error_code"] == ErrorCode.NONE, "the strict profile takes it"
    for replica_id in (2, 3):
        leader.clients.replica_fetched(replace(fetch(replica_id)), OURS)
    leader.ask(ApiKey.PRODUCE, 11, produce(zipped))
    leader.take()
    assert answered(leader)["error_code"] == ErrorCode.NONE


GOOD = encode_batch([b"a", b"bc"], base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=7).data
CONTROL = encode_control_batch(
    [LeaderChange(leader_id=NodeId(1), voters=(NodeId(1),), granting_voters=(NodeId(1),))],
    base_offset=Offset(0),
    epoch=Epoch(0),
    timestamp_ms=7,
).data


def record(*, delta_ms: int = 0, key: bytes | None = None, value: bytes | None = b"v", headers: bytes = b"\0") -> bytes:
    def blob(data: bytes | None) -> bytes:
        return encode_varint(-1) if data is None else encode_varint(len(data)) + data

    rest = b"\0" + encode_varint(delta_ms) + encode_varint(0) + blob(key) + blob(value) + headers
    return encode_varint(len(rest)) + rest


def batch(body: bytes, **changes: int) -> bytes:
    head = encode_batch([b"x"], base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=7).data[:61]
    raw = bytearray(head + body)
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    return with_header(raw, **changes).data


def check(
    records: Buffer | None, *, size_bytes_max: int = 1_000, must_be_kraft: bool = False, newest_ms: int | None = None
) -> HeaderAndBytes:
    strict = StrictProfile(why="a Java replica is here") if must_be_kraft else None
    steps = check_client_batch(records, size_bytes_max=size_bytes_max, strict=strict, newest_ms=newest_ms)
    return run_steps(steps)


GZIPPED = batch(gzip.compress(record(), mtime=0), attributes=1)


def test_times_may_be_unknown_or_up_to_an_hour_ahead() -> None:
    for base_ms, delta_ms in ((-1, 0), (0, 0), (7, 93)):
        check(batch(record(delta_ms=delta_ms), base_timestamp=base_ms, max_timestamp=base_ms + delta_ms), newest_ms=100)
    with pytest.raises(ProtocolError, match="timestamps are from 101 to 101, from 0 to 100 are accepted"):
        check(batch(record(delta_ms=94)), newest_ms=100)


def test_a_greatest_time_that_no_record_has_is_corrected_as_kafka_does() -> None:
    for max_timestamp in (-1, 6, 2**50):
        for body, attributes in ((record(delta_ms=3), 0), (gzip.compress(record(delta_ms=3), mtime=0), 1)):
            header, data = check(batch(body, attributes=attributes, max_timestamp=max_timestamp))
            assert header.max_timestamp == 10
            assert read_header(data) == header
            check_crc(data, 0, header)
            assert [each.timestamp_ms for each in decode_records(data)] == [10]


def test_a_batch_with_its_right_time_is_not_copied() -> None:
    assert check(GOOD)[1] is GOOD


def test_a_base_offset_other_than_0_is_overwritten_unless_the_batch_is_compressed_as_in_kafka() -> None:
    check(b"\0\0\0\0\0\0\0\1" + GOOD[8:])


@pytest.mark.parametrize("strict", [None, StrictProfile(why="a test asks")], ids=["any", "kraft"])
def test_a_time_beyond_the_quick_check_is_read_record_by_record(strict: StrictProfile | None) -> None:
    far_ms, count = 2**62, RECORDS_PER_STEP + 1
    batch = encode_batch([b"a"] * count, base_offset=Offset(0), epoch=Epoch(4), timestamp_ms=far_ms)
    header, _ = run_steps(check_client_batch(batch[1], size_bytes_max=2**20, strict=strict))
    assert (header.records_count, header.max_timestamp) == (count, far_ms)


def test_a_batch_of_any_client_is_taken() -> None:
    check(GOOD)
    check(GOOD, must_be_kraft=True)
    check(with_header(GOOD, producer_id=3, producer_epoch=0, base_sequence=5).data, must_be_kraft=True)
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(record(key=b"k", value=None, delta_ms=3)) + packer.flush()
    check(batch(packed, attributes=1))


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (GOOD + GOOD, ErrorCode.INVALID_RECORD),
        (GOOD[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE),
        (GOOD[:-1], ErrorCode.CORRUPT_MESSAGE),
        (b"short", ErrorCode.CORRUPT_MESSAGE),
        (GOOD[:16] + b"\1" + GOOD[17:], ErrorCode.CORRUPT_MESSAGE),
        (CONTROL, ErrorCode.INVALID_RECORD),
        (with_header(GOOD, attributes=0x10).data, ErrorCode.INVALID_RECORD),
        (with_header(GOOD, records_count=0).data, ErrorCode.INVALID_RECORD),
        (with_header(GOOD, last_offset_delta=5).data, ErrorCode.INVALID_RECORD),
        (with_header(GOOD, producer_id=3, producer_epoch=0).data, ErrorCode.INVALID_RECORD),
        (with_header(GOOD, producer_id=3, base_sequence=0).data, ErrorCode.INVALID_RECORD),
        (with_header(GOOD, attributes=4).data, ErrorCode.CORRUPT_MESSAGE),
        (batch(b"\x0e1234567"), ErrorCode.INVALID_RECORD),
        (with_header(GOOD, attributes=8).data, ErrorCode.INVALID_TIMESTAMP),
        (batch(record(delta_ms=-9)), ErrorCode.INVALID_TIMESTAMP),
        (b"\0\0\0\0\0\0\0\1" + GZIPPED[8:], ErrorCode.INVALID_RECORD),
        (encode_batch([b"x" * 2_000], base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=7).data, 10),
    ],
)
def test_anything_else_is_refused(records: Buffer | None, code: int) -> None:
    with pytest.raises(ProtocolError) as refused:
        check(records)
    assert refused.value.code == code


def test_a_bomb_takes_a_bounded_amount_of_memory() -> None:
    bomb = batch(gzip.compress(record(value=bytes(10_000_000)), mtime=0), attributes=1)

    def refuse() -> None:
        with pytest.raises(ProtocolError, match="expand beyond 200000 bytes") as refused:
            check(bomb, size_bytes_max=100_000)
        assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE, "Kafka's producers split such a batch"

    taking_less_than(4 * 100_000 + 64 * 1024, refuse)


def test_many_records_are_checked_one_by_one() -> None:
    many = encode_batch([b"x"] * 20_000, base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=7).data
    taking_less_than(2 * len(many), lambda: check(many, size_bytes_max=len(many)))


@pytest.mark.parametrize(
    ("records", "rule"),
    [
        (batch(record(key=b"")), "a record has a key"),
        (batch(record(value=None)), "a record has no value"),
        (batch(record(value=b"")), "a record has no value"),
        (batch(record(delta_ms=1)), "different timestamps"),
        (batch(record(headers=b"\2\2h\1")), "a record has headers"),
        (with_header(GOOD, attributes=1).data, "compressed with gzip"),
    ],
    ids=["key", "null", "empty", "timestamps", "headers", "gzip"],
)
def test_krafts_profile_names_the_rule_that_a_batch_broke(records: Buffer, rule: str) -> None:
    with pytest.raises(ProtocolError, match=rule) as refused:
        check(records, must_be_kraft=True)
    assert refused.value.code == ErrorCode.INVALID_RECORD


def test_the_state_of_groups_is_what_kafka_cannot_read(desk: Desk) -> None:
    assert desk.why is not None
    desk.profile.appended([encode_group_batch([b""], timestamp_ms=1)])
    assert desk.why is None
