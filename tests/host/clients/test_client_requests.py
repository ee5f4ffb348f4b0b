"""Requests of clients: which are theirs, the answers about the cluster, and offsets by time and epoch.

Source: Kafka's ``KafkaApis`` and ``UnifiedLog.fetchOffsetByTimestamp``; KIP-98, KIP-101, KIP-700, KIP-734.
"""

from typing import Any

import pytest

from pykraft.config import METADATA_TOPIC_ID, METADATA_TOPIC_NAME
from pykraft.core.log_view import LogView
from pykraft.errors import CorruptionError, ErrorCode, ProtocolError
from pykraft.host.clients import client_requests
from pykraft.host.clients.client_requests import recover
from pykraft.host.clients.producer_states import COUNTER_BITS, ProducerStates
from pykraft.host.fetch_read import HeaderAndBytes
from pykraft.protocol.messages import ApiKey
from pykraft.types import Buffer, Epoch, EpochStart, Offset, OffsetAndEpoch, Uuid
from tests.host.clients.test_records_profile import CONTROL
from tests.host.clients.world import FOLLOWS, LEADS, Leader, batch_of, fetch, produce, with_header
from tests.host.fakes import CLUSTER_ID, LISTENER, TOPIC_ID, TOPIC_NAME, endpoint

ID = (4 << COUNTER_BITS) + 1


def asked_epoch(epoch: int, **changes: Any) -> Any:
    body = fetch(0, **changes)
    body["topics"][0]["partitions"][0]["last_fetched_epoch"] = epoch
    return body


def test_a_fetch_of_a_replica_is_not_a_clients() -> None:
    clients = Leader().clients
    assert clients.serves(ApiKey.FETCH, fetch(0))
    assert not clients.serves(ApiKey.FETCH, asked_epoch(0, min_bytes=0)), "an observer without an id"
    assert not clients.serves(ApiKey.FETCH, asked_epoch(0, cluster_id=CLUSTER_ID)), "one that names its cluster"
    assert clients.serves(ApiKey.FETCH, asked_epoch(0)), "kafka-python's consumer tells the epoch of its last record"
    assert clients.serves(ApiKey.FETCH, asked_epoch(0, min_bytes=0, session_epoch=0)), "with sessions, at once"
    assert not clients.serves(ApiKey.FETCH, fetch(0, replica_id=2))
    assert not clients.serves(ApiKey.FETCH, fetch(0, replica_state={"replica_id": 2, "replica_epoch": -1}))
    assert clients.serves(ApiKey.METADATA, {})
    assert not clients.serves(ApiKey.VOTE, {})


def test_producers_follow_the_log() -> None:
    leader = Leader()
    leader.append(batch_of([b"a"], producer_id=ID), is_committed=False)

    def answer(sequence: int) -> Any:
        leader.ask(ApiKey.PRODUCE, 11, produce(batch_of([b"b"], producer_id=ID, sequence=sequence)[1]))
        if leader.answers:
            return leader.answer()["responses"][0]["partition_responses"][0]["error_code"]
        return leader.inbox.take()

    assert answer(2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    leader.clients.truncated(Offset(0))
    assert answer(1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    leader.clients.begun_anew(Epoch(4))
    assert answer(0) == ErrorCode.UNKNOWN_PRODUCER_ID


NO_ID = Uuid(bytes(16))
NODES = [(each, endpoint(each).host, endpoint(each).port) for each in (1, 2, 3)]


def metadata(leader: Leader, topics: Any, version: int = 12) -> Any:
    leader.ask(ApiKey.METADATA, version, {"topics": topics})
    return leader.answer()


def named(*names: str) -> Any:
    return [{"topic_id": NO_ID, "name": name} for name in names]


@pytest.mark.parametrize(("version", "topics"), [(0, []), (1, None), (12, None)])
def test_all_topics_are_the_one(version: int, topics: Any) -> None:
    told = metadata(Leader(FOLLOWS), topics, version)
    assert [(each["node_id"], each["host"], each["port"]) for each in told["brokers"]] == NODES
    [topic] = told["topics"]
    assert (topic["name"], topic["error_code"]) == (TOPIC_NAME, 0)
    [partition] = topic["partitions"]
    assert (partition["leader_id"], partition["replica_nodes"], partition["isr_nodes"]) == (2, [1, 2, 3], [1, 2, 3])
    if version == 12:
        assert (told["cluster_id"], told["controller_id"], partition["leader_epoch"]) == (CLUSTER_ID, 2, 4)
        assert topic["topic_id"] == TOPIC_ID


def test_topics_by_name_and_by_id() -> None:
    told = metadata(Leader(), [*named(METADATA_TOPIC_NAME, "other"), {"topic_id": TOPIC_ID, "name": None}])
    rows = [(each["name"], each["topic_id"], each["error_code"]) for each in told["topics"]]
    assert rows == [
        (METADATA_TOPIC_NAME, METADATA_TOPIC_ID, 0),
        ("other", NO_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC_NAME, TOPIC_ID, 0),
    ]
    other = Uuid(b"x" * 16)
    [row] = metadata(Leader(), [{"topic_id": other, "name": None}])["topics"]
    assert (row["name"], row["topic_id"], row["error_code"]) == (None, other, ErrorCode.UNKNOWN_TOPIC_ID)


def test_a_topic_without_a_name_is_refused_where_the_answer_has_to_name_it() -> None:
    [row] = metadata(Leader(), [{"topic_id": TOPIC_ID, "name": None}], 11)["topics"]
    assert (row["name"], row["topic_id"], row["error_code"]) == ("", TOPIC_ID, ErrorCode.INVALID_REQUEST)


def partitions_of(leader: Leader, *names: str, limit: int = 2_000, cursor: Any = None) -> Any:
    body = {"topics": [{"name": name} for name in names], "response_partition_limit": limit, "cursor": cursor}
    leader.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, body)
    return leader.answer()


def test_the_partitions_of_topics_by_name_or_of_all() -> None:
    told = partitions_of(Leader(FOLLOWS))
    [topic] = told["topics"]
    [partition] = topic["partitions"]
    assert (topic["name"], topic["topic_id"], partition["leader_id"]) == (TOPIC_NAME, TOPIC_ID, 2)
    assert (partition["replica_nodes"], told["next_cursor"]) == ([1, 2, 3], None)
    assert (partition["eligible_leader_replicas"], partition["last_known_elr"]) == ([], []), "null stops Kafka's admin"
    rows = partitions_of(Leader(), "other", TOPIC_NAME, TOPIC_NAME)["topics"]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(row["name"], row["error_code"], len(row["partitions"])) for row in rows] == [
        (TOPIC_NAME, 0, 1),
        ("other", unknown, 0),
    ]


def test_partitions_come_up_to_a_limit_and_go_on_at_the_cursor() -> None:
    names = (METADATA_TOPIC_NAME, TOPIC_NAME)
    told = partitions_of(Leader(), *names, limit=1)
    assert [row["name"] for row in told["topics"]] == [METADATA_TOPIC_NAME]
    assert told["next_cursor"] == {"topic_name": TOPIC_NAME, "partition_index": 0}
    told = partitions_of(Leader(), *names, limit=1, cursor=told["next_cursor"])
    assert ([row["name"] for row in told["topics"]], told["next_cursor"]) == ([TOPIC_NAME], None)
    [row] = partitions_of(Leader(), cursor={"topic_name": "x", "partition_index": -1})["topics"]
    assert row["error_code"] == ErrorCode.INVALID_REQUEST


def test_no_leader() -> None:
    told = metadata(Leader(FOLLOWS._replace(leader_id=None)), named(TOPIC_NAME))
    [partition] = told["topics"][0]["partitions"]
    assert (partition["leader_id"], partition["error_code"]) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)


def test_every_node_is_a_broker_to_a_client() -> None:
    told = Leader(FOLLOWS).clients.describe_brokers(LISTENER)
    assert (told["cluster_id"], told["controller_id"], told["endpoint_type"]) == (CLUSTER_ID, 2, 1)
    assert [(each["broker_id"], each["host"], each["port"]) for each in told["brokers"]] == NODES


def configs(kind: int, name: str, keys: list[str] | None = None) -> Any:
    leader = Leader()
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    leader.ask(ApiKey.DESCRIBE_CONFIGS, 4, {"resources": [resource]})
    [told] = leader.answer()["results"]
    return told


def test_settings() -> None:
    assert [each["name"] for each in configs(2, TOPIC_NAME)["configs"]] == [
        "cleanup.policy",
        "max.message.bytes",
        "message.timestamp.type",
    ]
    [one] = configs(2, TOPIC_NAME, ["cleanup.policy", "unknown"])["configs"]
    assert (one["name"], one["value"]) == ("cleanup.policy", "delete")
    assert configs(2, "other")["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (configs(4, "1")["error_code"], configs(4, "1")["configs"]) == (0, [])
    assert configs(9, "x")["error_code"] == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("version", "asked"), [(3, {"key": "g"}), (4, {"coordinator_keys": ["g"]})])
def test_the_leader_coordinates_groups_and_nobody_transactions(version: int, asked: Any) -> None:
    def coordinator(leader: Leader, kind: int = 0) -> Any:
        leader.ask(ApiKey.FIND_COORDINATOR, version, {"key_type": kind, **asked})
        told = leader.answer()
        return told if version == 3 else told["coordinators"][0]

    assert [coordinator(Leader(status))["node_id"] for status in (LEADS, FOLLOWS)] == [1, 2]
    told = coordinator(Leader(), kind=1)
    assert (told["error_code"], told["node_id"]) == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1)
    assert "no transactions" in told["error_message"]
    assert coordinator(Leader(), kind=2)["error_code"] == ErrorCode.UNSUPPORTED_VERSION
    nobody = coordinator(Leader(FOLLOWS._replace(leader_id=None)))
    assert nobody["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    kraft = coordinator(Leader(client_records="kraft"))
    assert kraft["error_code"] == ErrorCode.UNSUPPORTED_VERSION
    assert "Kafka's own replicas" in kraft["error_message"]


def list_offsets(leader: Leader, timestamp: int, *, name: str = TOPIC_NAME, version: int = 11) -> tuple[int, int, int]:
    part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
    leader.ask(ApiKey.LIST_OFFSETS, version, {"topics": [{"name": name, "partitions": [part]}]})
    [topic] = leader.answer()["topics"]
    [told] = topic["partitions"]
    return told["error_code"], told["offset"], told["timestamp"]


def filled() -> Leader:
    leader = Leader()
    leader.append(with_header(CONTROL))
    leader.append(batch_of([b"a", b"b"], timestamp_ms=10), batch_of([b"c"], timestamp_ms=30))
    leader.append(batch_of([b"d"], timestamp_ms=20))
    leader.append(batch_of([b"not committed"], timestamp_ms=50), is_committed=False)
    return leader


@pytest.mark.parametrize(
    ("timestamp", "told"),
    [
        (-1, (0, 5, -1)),
        (-2, (0, 0, -1)),
        (-4, (0, 0, -1)),
        (-3, (0, 3, 30)),
        (-5, (0, -1, -1)),
        (-6, (0, -1, -1)),
        (-7, (ErrorCode.UNSUPPORTED_VERSION, -1, -1)),
        (0, (0, 1, 10)),
        (11, (0, 3, 30)),
        (31, (0, -1, -1)),
    ],
)
def test_offsets(timestamp: int, told: tuple[int, int, int]) -> None:
    assert list_offsets(filled(), timestamp) == told


def test_a_partition_that_is_named_twice_is_refused_and_not_searched() -> None:
    leader = filled()
    part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": 0}
    others = [part | {"partition_index": index} for index in range(1, 16)]
    wanted = [{"name": TOPIC_NAME, "partitions": [part] * 16}, {"name": METADATA_TOPIC_NAME, "partitions": [part]}]
    wanted += [{"name": f"t{number}", "partitions": [part, *others]} for number in range(14)]
    leader.ask(ApiKey.LIST_OFFSETS, 7, {"topics": wanted})
    told = leader.answer()["topics"]
    assert {each["error_code"] for each in told[0]["partitions"]} == {ErrorCode.INVALID_REQUEST}
    assert [each["offset"] for each in told[1]["partitions"]] == [1]
    assert {each["error_code"] for row in told[2:] for each in row["partitions"]} == {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
    leader.ask(ApiKey.LIST_OFFSETS, 7, {"topics": []})
    assert leader.answer()["topics"] == []


@pytest.mark.parametrize(("timestamp", "first"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_a_version_may_ask_only_for_what_it_knows(timestamp: int, first: int) -> None:
    assert list_offsets(filled(), timestamp, version=first)[0] == ErrorCode.NONE
    assert list_offsets(filled(), timestamp, version=first - 1)[0] == ErrorCode.UNSUPPORTED_VERSION


def test_the_epoch_of_the_first_offset() -> None:
    assert list_offsets(Leader(), -2) == (0, 0, -1)
    assert list_offsets(Leader(), -3) == (0, -1, -1)


def test_errors() -> None:
    assert list_offsets(Leader(), -1, name="other")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert list_offsets(Leader(FOLLOWS), -1)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert list_offsets(Leader(LEADS._replace(high_watermark=None)), -1)[0] == ErrorCode.OFFSET_NOT_AVAILABLE


def test_a_time_that_only_a_header_claims_is_not_found() -> None:
    leader = Leader()
    header, data = batch_of([b"a"], timestamp_ms=10)
    leader.append(with_header(data, max_timestamp=header.max_timestamp + 90))
    assert list_offsets(leader, 50) == (0, -1, -1)
    assert list_offsets(leader, -3) == (0, 0, 10)
    leader.append(batch_of([b"b"], timestamp_ms=60))
    assert list_offsets(leader, 50) == (0, 1, 60), "the search goes on behind it"


def test_a_search_that_meets_a_truncation_is_asked_for_again() -> None:
    leader = Leader(LEADS._replace(high_watermark=Offset(1), log_end_offset=Offset(1)))
    leader.recent.begin_anew_at(Offset(1))
    part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": 5}
    leader.ask(ApiKey.LIST_OFFSETS, 7, {"topics": [{"name": TOPIC_NAME, "partitions": [part]}]})
    leader.reads.truncated()
    [(_, then)] = leader.ports.reads
    then(b"")
    assert leader.answer()["topics"][0]["partitions"][0]["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def ends(leader: Leader, epoch: int, *, name: str = TOPIC_NAME) -> Any:
    part = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
    leader.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, {"topics": [{"topic": name, "partitions": [part]}]})
    [told] = leader.answer()["topics"][0]["partitions"]
    return told["error_code"], told["leader_epoch"], told["end_offset"]


def test_where_epochs_end() -> None:
    leader = filled()
    assert ends(leader, 4) == (0, 4, 6)
    leader.status = leader.status._replace(epoch=Epoch(7))
    leader.append(batch_of())
    assert ends(leader, 4) == (0, 4, 6)
    assert ends(leader, 5) == (0, 4, 6)
    assert ends(leader, 7) == (0, 7, 7)
    assert ends(leader, 8) == (0, -1, -1)
    assert ends(leader, -1) == (0, -1, -1)
    assert ends(leader, 4, name="other")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


EPOCH = Epoch(4)
PRODUCER_ID = (EPOCH << COUNTER_BITS) + 1


class Log:
    """A log of these batches; each read gives one."""

    def __init__(self, *batches: HeaderAndBytes | CorruptionError) -> None:
        self._batches = list(batches)

    def read(self, offset: Offset, size_bytes_max: int) -> Buffer:
        del offset, size_bytes_max
        found = self._batches.pop(0)
        if isinstance(found, CorruptionError):
            raise found
        return found[1]

    def views(self) -> tuple[()]:
        return ()


def view(end: int, start: int = 0) -> LogView:
    snapshots = [OffsetAndEpoch(Offset(start), EPOCH)] if start else []
    epochs = [EpochStart(epoch=EPOCH, start_offset=Offset(start))] if end > start else []
    return LogView(start_offset=Offset(start), end_offset=Offset(end), epochs=epochs, snapshots=snapshots)


def next_sequence(states: ProducerStates) -> int | ErrorCode:
    for sequence in range(4):
        try:
            if states.check(batch_of([b"n"], producer_id=PRODUCER_ID, sequence=sequence)[0], EPOCH) is None:
                return sequence
        except ProtocolError as error:
            if error.code == ErrorCode.UNKNOWN_PRODUCER_ID:
                return error.code
    raise AssertionError(states)


def test_a_start_reads_the_whole_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_requests, "PIECE_SIZE_BYTES_MAX", 1)
    clients = Leader().clients
    first = batch_of([b"a", b"b"], producer_id=PRODUCER_ID, sequence=0, at=0)
    recover(clients, view(3), Log(first, batch_of([b"c"], producer_id=PRODUCER_ID, sequence=2, at=2)))
    assert next_sequence(clients._states) == 3


@pytest.mark.parametrize("end", [7, 8])
def test_what_a_snapshot_stands_for_is_unknown(end: int) -> None:
    clients = Leader().clients
    recover(clients, view(end, start=7), Log(batch_of([b"a"], at=7)))
    assert next_sequence(clients._states) == ErrorCode.UNKNOWN_PRODUCER_ID


def test_damage_makes_producers_unknown() -> None:
    clients = Leader().clients
    damage = CorruptionError("log", position=1, expected="a", found="b")
    recover(clients, view(3), Log(batch_of([b"a"], producer_id=PRODUCER_ID, at=0), damage))
    assert next_sequence(clients._states) == ErrorCode.UNKNOWN_PRODUCER_ID
