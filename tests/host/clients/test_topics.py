"""The partition as clients see it: names, nodes, leader, and the errors of whoever asks the wrong node.

Where Kafka's clients are served, and that replicas and operators still are.

Source: Kafka's ``MetadataCache``; KIP-516, KIP-951; Kafka's ``RequestChannel``; ours (ADR 065).
"""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from pykraft.config import METADATA_TOPIC_ID, METADATA_TOPIC_NAME
from pykraft.core.messages import DescribeQuorumResponse, FetchRequest
from pykraft.core.status import Status
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.host.clients.topics import ClientTopics, committed_end
from pykraft.host.inbound import Requester
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import ApiKey, RequestHeader
from pykraft.protocol.cut_frame import CutFrame
from pykraft.protocol.schema import Body
from pykraft.types import NO_LISTENERS, Endpoint, Epoch, Listeners, NodeId, Offset
from tests.host.clients.fuzz import fuzz
from tests.host.clients.world import FOLLOWS, LEADS, config
from tests.host.fakes import CLUSTER_ID, LISTENER, TOPIC_ID, TOPIC_NAME, endpoint
from tests.host.test_inbound import ONE, Desk, fetch_body
from tests.tidy.repository import ROOT


def topics(status: Status = LEADS, name: str = "") -> ClientTopics:
    return ClientTopics(config=config(client_topic=name), status=lambda: status)


def test_the_log_has_its_own_name_kafkas_and_one_of_the_properties() -> None:
    assert topics().ids == {METADATA_TOPIC_NAME: METADATA_TOPIC_ID, TOPIC_NAME: TOPIC_ID}
    named = topics(name="orders")
    assert (topics().name, named.name) == (TOPIC_NAME, "orders")
    ids = list(named.ids.values())
    assert len(set(ids)) == 3
    assert named.ids == topics(FOLLOWS, name="orders").ids, "the same on every node"
    assert [named.name_of(each) for each in ids] == list(named.ids)
    assert named.name_of(bytes(16)) is None
    assert topics(name=TOPIC_NAME).ids == topics().ids


def test_clients_reach_the_voters_and_the_leader_where_it_is_now() -> None:
    assert topics().nodes(LISTENER) == {NodeId(each): endpoint(each) for each in (1, 2, 3)}
    assert topics().nodes("OTHER") == {}
    moved = Listeners(((LISTENER, Endpoint("new", 1)),))
    assert topics(FOLLOWS._replace(leader_listeners=moved)).nodes(LISTENER)[NodeId(2)] == Endpoint("new", 1)
    assert topics(FOLLOWS._replace(leader_listeners=NO_LISTENERS)).leader(LISTENER) == (2, 4)
    assert NodeId(9) not in topics(FOLLOWS._replace(leader_id=NodeId(9), leader_listeners=NO_LISTENERS)).nodes(LISTENER)


def test_nobody_leads_for_clients_who_cannot_reach_the_leader() -> None:
    assert topics().leader(LISTENER) == (1, 4)
    assert topics().leader("OTHER") == (-1, 4)
    alone = FOLLOWS._replace(role="unattached", leader_id=None)
    assert topics(alone).leader_bodies(LISTENER) == ({"leader_id": -1, "leader_epoch": 4}, [])


@pytest.mark.parametrize(
    ("name", "index", "epoch", "code"),
    [
        ("other", 0, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, 0, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC_NAME, 1, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC_NAME, 0, 3, ErrorCode.FENCED_LEADER_EPOCH),
        (TOPIC_NAME, 0, 5, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_errors(name: str | None, index: int, epoch: int, code: ErrorCode) -> None:
    with pytest.raises(ProtocolError) as refused:
        topics().check(name, index, epoch=epoch)
    assert refused.value.code == code


def test_only_the_leader_serves() -> None:
    assert topics().check(METADATA_TOPIC_NAME, 0, epoch=4) is LEADS
    with pytest.raises(ProtocolError) as refused:
        topics(FOLLOWS).check(TOPIC_NAME, 0)
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_new_leader_knows_what_was_committed_before() -> None:
    assert committed_end(LEADS._replace(high_watermark=None, committed_end_offset=Offset(3))) == 3
    assert committed_end(LEADS._replace(high_watermark=Offset(5), committed_end_offset=Offset(3))) == 5


class Broker:
    """Clients' requests as they come; each is answered by calling what is noted."""

    listeners = (LISTENER,)

    def __init__(self) -> None:
        self.asked: list[tuple[int, Callable[[], bool], Callable[[Body | ProtocolError | None], None]]] = []
        self.fetched: list[tuple[int | None, str | None]] = []

    def serves(self, api_key: int, body: Body) -> bool:
        return api_key != ApiKey.FETCH or body["topics"] == []

    def handle(
        self,
        api_key: int,
        version: int,
        body: Body,
        requester: Requester,
        is_wanted: Callable[[], bool],
        answer: Callable[[Body | ProtocolError | None], None],
    ) -> None:
        del version, body, requester
        self.asked.append((api_key, is_wanted, answer))

    def refuse_too_large(self, _header: RequestHeader, _data: CutFrame) -> Body:
        raise AssertionError("no request is cut here")

    def describe_brokers(self, listener: str) -> Body:
        return {"cluster_id": listener}

    def replica_fetched(self, request: FetchRequest, software: str | None) -> None:
        self.fetched.append((None if request.replica is None else request.replica.id, software))


def test_requests_of_clients_are_served_on_their_listeners() -> None:
    broker = Broker()
    desk = Desk(clients=broker)
    desk.ask(ApiKey.METADATA, 12, {"topics": None})
    desk.ask(ApiKey.PRODUCE, 9, {"transactional_id": None, "acks": 0, "timeout_ms": 1, "topic_data": []}, wire_id=6)
    [(_, _, answer), (_, is_wanted, answer_none)] = broker.asked
    answer({"cluster_id": "x", "brokers": [], "topics": []})
    assert is_wanted()
    [(wire_id, body)] = desk.answers(ApiKey.METADATA, 12)
    assert (wire_id, body["cluster_id"]) == (5, "x")
    answer_none(None)
    assert not is_wanted()
    # Nothing is sent, but the link hears that the next request may come.
    assert desk.ports.sent == [(ONE, b"")]


def test_an_error_without_an_answer_closes_the_connection() -> None:
    broker = Broker()
    desk = Desk(clients=broker)
    desk.ask(ApiKey.PRODUCE, 9, {"transactional_id": None, "acks": 0, "timeout_ms": 1, "topic_data": []})
    [(_, is_wanted, answer)] = broker.asked
    answer(ProtocolError("it failed"))
    assert desk.ports.closed == [ONE]
    assert not is_wanted()


def test_brokers_and_controllers_are_described_to_whoever_asks() -> None:
    desk = Desk(clients=Broker())
    for endpoint_type, told in ((1, LISTENER), (2, "described")):
        desk.ask(ApiKey.DESCRIBE_CLUSTER, 1, {"endpoint_type": endpoint_type})
        [(_, body)] = desk.answers(ApiKey.DESCRIBE_CLUSTER, 1)
        assert body["cluster_id"] == told


def test_a_replicas_fetch_reaches_the_core_also_where_clients_are_served() -> None:
    desk = Desk(clients=Broker())
    desk.ask(ApiKey.FETCH, 18, fetch_body())
    assert len(desk.received()) == 1


def test_it_is_told_which_software_fetches() -> None:
    """The name is of the connection, and an unreadable question for the versions has none."""
    broker = Broker()
    desk = Desk(clients=broker)
    desk.ask(ApiKey.FETCH, 18, fetch_body())
    told = {"client_software_name": "apache-kafka-java", "client_software_version": "4.3.1"}
    desk.ask(ApiKey.API_VERSIONS, 3, told)
    desk.ask(ApiKey.FETCH, 18, fetch_body() | {"replica_state": {"replica_id": 3, "replica_epoch": -1}})
    desk.ask(ApiKey.FETCH, 18, fetch_body() | {"replica_state": {"replica_id": 3, "replica_epoch": -1}})
    desk.ask(ApiKey.API_VERSIONS, 0, {})
    desk.ask(ApiKey.FETCH, 18, fetch_body())
    assert broker.fetched == [(None, None), *2 * [(3, "apache-kafka-java")], (None, None)]


def test_apis_of_clients_are_listed_only_where_they_are_served() -> None:
    desk = Desk(clients=Broker())
    for clients in (None, Broker()):
        desk = Desk(clients=clients)
        desk.inbound.on_accepted(ConnectionId(2), "OTHER")
        listed: list[set[int]] = []
        for connection in (ONE, ConnectionId(2)):
            desk.ask(ApiKey.API_VERSIONS, 0, {}, connection=connection)
            [(_, body)] = desk.answers(ApiKey.API_VERSIONS, 0)
            listed.append({each["api_key"] for each in body["api_keys"]})
        assert (ApiKey.METADATA in listed[0], ApiKey.METADATA in listed[1]) == (clients is not None, False)
    desk.ask(ApiKey.METADATA, 12, {"topics": None}, connection=ConnectionId(2))
    assert desk.ports.closed == [ConnectionId(2)]


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "is_meant"),
    [
        (CLUSTER_ID, 1, True),
        (None, -1, True),
        (None, 2, True),
        (CLUSTER_ID, 2, False),
        (CLUSTER_ID, -1, False),
        ("another", 1, False),
    ],
)
def test_a_client_that_means_another_cluster_or_node_is_to_start_anew(
    cluster_id: str | None, node_id: int, is_meant: bool
) -> None:
    """As Kafka 4.4's brokers answer, and its controllers do not; our listeners for voters do if a node is named."""
    question = {"client_software_name": "java", "cluster_id": cluster_id, "node_id": node_id}
    for clients, version, is_served in (
        (Broker(), 5, is_meant),
        (Broker(), 4, True),
        (None, 5, is_meant or node_id < 0),
    ):
        desk = Desk(clients=clients)
        desk.ask(ApiKey.API_VERSIONS, version, question)
        [(_, body)] = desk.answers(ApiKey.API_VERSIONS, version)
        assert body["error_code"] == (ErrorCode.NONE if is_served else ErrorCode.REBOOTSTRAP_REQUIRED)
        assert (body["api_keys"] != []) == is_served
        assert desk.ports.closed == []


def test_a_refused_describe_quorum_ends_the_connection_of_a_client_only() -> None:
    """Kafka's admin client takes every node here for a broker, and repeats the question where it is connected."""
    refused = DescribeQuorumResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    described = DescribeQuorumResponse(error=ErrorCode.NONE, leader_id=NodeId(1), epoch=Epoch(1))
    for clients, response, is_closed in (
        (Broker(), refused, True),
        (Broker(), described, False),
        (None, refused, False),
    ):
        desk = Desk(clients=clients)
        partitions = [{"partition_index": 0}]
        desk.ask(ApiKey.DESCRIBE_QUORUM, 2, {"topics": [{"topic_name": TOPIC_NAME, "partitions": partitions}]})
        [event] = desk.received()
        desk.inbound.reply(event.request_id, response)
        assert len(desk.answers(ApiKey.DESCRIBE_QUORUM, 2)) == 1, "the answer leaves first"
        assert desk.ports.closed == ([ONE] if is_closed else [])
        assert desk.inbound.violations == 0


INPUTS = 10_000


def check(told: dict[str, int]) -> None:
    assert told["played"] == INPUTS
    assert told["answered"] > 4_000, "most requests are well-formed"


@pytest.mark.no_cover
def test_a_node_serves_on_after_ten_thousand_drawn_requests() -> None:
    check(fuzz(INPUTS, seed=0, measures=False))


@pytest.mark.no_cover
def test_none_of_them_takes_much_memory() -> None:
    words = (sys.executable, "-m", "tests.host.clients.fuzz", "--inputs", str(INPUTS), "--seed", "0")
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    check(json.loads(ended.stdout))
