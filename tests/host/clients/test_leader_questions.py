"""InitProducerId: the leader issues ids, and every other node gets them from the leader.

Static voters with a listener for clients alone: every node finds every other one there.
"""

from dataclasses import replace
from typing import Any

import pytest

from pykraft.core.status import Status
from pykraft.errors import ErrorCode
from pykraft.host.clients import leader_questions as producer_ids_module
from pykraft.host.clients.leader_questions import WAIT_MAX_MS, WAIT_MIN_MS, VoterEndpoints
from pykraft.host.clients.producer_states import COUNTER_BITS
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import (
    decode_request_body,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from pykraft.protocol.api import encode_response as encoded
from pykraft.protocol.messages import API_VERSIONS, CLIENT_VERSIONS, ApiKey
from pykraft.protocol.schema import Body
from pykraft.types import Endpoint, Epoch, Listeners, NodeId, ReplicaKey, Voter, VoterSet
from tests.host.clients.world import FOLLOWS, LEADS, Leader, config
from tests.host.cluster import Cluster, Machine
from tests.host.fakes import LISTENER, TOPIC_NAME, FakePorts, endpoint, listeners

ID = (4 << COUNTER_BITS) + 1
LINK = ConnectionId(1000)


def init(leader: Leader, transactional_id: str | None = None) -> None:
    leader.ask(ApiKey.INIT_PRODUCER_ID, 4, {"transactional_id": transactional_id, "transaction_timeout_ms": 1})


def respond(leader: Leader, key: ApiKey, version: int, body: Any, *, to: ConnectionId = LINK) -> None:
    """The other node answers the newest request."""
    connection, frame = leader.ports.sent[-1]
    header = decode_request_header(frame)
    assert (connection, header.api_key) == (to, key)
    decode_request_body(header, frame)
    raw = b"".join(bytes(part) for part in encoded(key, version, header.correlation_id, body))
    leader.clients.producer_ids.on_frame(to, raw)


def negotiate(leader: Leader, *, serves: bool = True, to: ConnectionId = LINK) -> None:
    leader.clients.producer_ids.on_connected(to)
    rows = [
        {"api_key": key, "min_version": each.min, "max_version": each.max}
        for key, each in CLIENT_VERSIONS.items()
        if serves
    ]
    respond(leader, ApiKey.API_VERSIONS, 3, {"api_keys": rows}, to=to)


def following() -> Leader:
    leader = Leader(FOLLOWS)
    init(leader)
    assert leader.ports.dialed == [(LINK, endpoint(2))]
    return leader


def test_the_leader_issues_producer_ids() -> None:
    leader = Leader()
    for expected in (ID, ID + 1):
        init(leader)
        told = leader.answer()
        assert (told["producer_id"], told["producer_epoch"], told["error_code"]) == (expected, 0, 0)
    init(leader, "t")
    assert leader.answer()["error_code"] == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_follower_passes_on_the_leaders_ids_one_after_the_other() -> None:
    leader = following()
    init(leader)
    negotiate(leader)
    for expected in (ID, ID + 1):
        assert leader.answers == []
        respond(leader, ApiKey.INIT_PRODUCER_ID, 5, {"producer_id": expected, "producer_epoch": 0})
        assert leader.answer()["producer_id"] == expected
    init(leader)
    respond(leader, ApiKey.INIT_PRODUCER_ID, 5, {"error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
    assert leader.answer()["error_code"] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert len(leader.ports.dialed) == 1


@pytest.mark.parametrize("case", ["nobody leads", "refused", "serves no clients", "nonsense", "silent"])
def test_a_client_asks_again_when_nobody_can_be_asked(case: str) -> None:
    if case == "nobody leads":
        leader = Leader(FOLLOWS._replace(leader_id=None))
        init(leader)
    else:
        leader = following()
        ids = leader.clients.producer_ids
        match case:
            case "refused":
                ids.on_closed(LINK, is_refused=True)
            case "serves no clients":
                negotiate(leader, serves=False)
            case "nonsense":
                ids.on_connected(LINK)
                ids.on_frame(LINK, b"nonsense")
            case _:
                for now_ms in (5, ids._topics.config.raft.request_timeout_ms + 4):
                    assert leader.clients.next_deadline_ms is not None
                    leader.clients.poll(now_ms)
                    assert leader.answers == []
                leader.clients.poll(ids._topics.config.raft.request_timeout_ms + 5)
        assert not ids.owns(LINK)
    assert leader.answer()["error_code"] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    leader.clients.poll(100_000)
    assert leader.clients.next_deadline_ms is None


def test_another_leader_is_asked_and_a_node_that_leads_answers_itself() -> None:
    leader = following()
    negotiate(leader)
    leader.status = FOLLOWS._replace(leader_id=NodeId(3), leader_listeners=listeners(3), epoch=Epoch(5))
    leader.clients.after_step(leader.status)
    assert leader.ports.closed == [LINK]
    assert leader.ports.dialed[-1] == (ConnectionId(1001), endpoint(3))
    leader.status = LEADS._replace(epoch=Epoch(6))
    leader.clients.after_step(leader.status)
    assert leader.answer()["producer_id"] == (6 << COUNTER_BITS) + 1
    assert not leader.clients.producer_ids.owns(ConnectionId(1001))


def test_a_client_that_has_gone_is_not_asked_for_and_only_so_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = following()
    leader.is_there = False
    leader.clients.after_step(leader.status)
    assert leader.clients.next_deadline_ms is None
    leader.is_there = True
    monkeypatch.setattr(producer_ids_module, "WAITING_MAX", 1)
    init(leader)
    assert leader.answers == []
    init(leader)
    assert leader.answer()["error_code"] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_every_node_of_a_quorum_hands_out_ids_that_are_all_different(cluster: Cluster) -> None:
    for machine in cluster.up:
        machine.crash()
        machine.config = replace(machine.config, client_listeners=(LISTENER,))
    for machine in cluster.machines.values():
        machine.start()
    leader = cluster.leader()
    leader_id = leader.node_id
    cluster.run_until(lambda: all(each.running.status.leader_id == leader_id for each in cluster.up))
    wanted = {"transactional_id": None, "transaction_timeout_ms": 1}
    question = b"".join(encode_request(ApiKey.INIT_PRODUCER_ID, 4, 1, None, wanted))
    for number, machine in enumerate(cluster.up * 3):
        connection = ConnectionId(1_000_000 + number)
        machine.running.on_accepted(connection, LISTENER, cluster.now)
        machine.running.on_frame(connection, question, cluster.now)
    cluster.run(100)
    sent = [frame for machine in cluster.up for connection, frame in machine.sent if connection >= 1_000_000]
    bodies = [decode_response(ApiKey.INIT_PRODUCER_ID, 4, frame)[1] for frame in sent]
    assert [body["error_code"] for body in bodies] == [0] * 9
    epoch = leader.running.status.epoch
    assert {body["producer_id"] for body in bodies} == {(epoch << COUNTER_BITS) + each for each in range(1, 10)}


CLIENTS = "CLIENTS"


def for_clients(node_id: int) -> Endpoint:
    """Where a node serves clients."""
    return Endpoint(f"node{node_id}", 9_500 + node_id)


def both(node_id: int) -> Listeners:
    """All listeners of a node."""
    return Listeners((*listeners(node_id).entries, (CLIENTS, for_clients(node_id))))


def voter(node_id: int, told: Listeners) -> Voter:
    return Voter(key=ReplicaKey(NodeId(node_id)), listeners=told)


class Desk:
    """Node 1, a follower of node 2 that serves clients on a listener of their own."""

    def __init__(self, status: Status = FOLLOWS, **changes: Any) -> None:
        self.ports = FakePorts()
        self.endpoints = VoterEndpoints(self.ports, config(**{"client_listeners": (CLIENTS,)} | changes))
        self.at(0, status)

    def at(self, mono_ms: int, status: Status = FOLLOWS) -> None:
        """A step at this time."""
        self.endpoints.after_step(status)
        self.endpoints.poll(mono_ms)

    def connect(self, *, serves: bool = True) -> None:
        """The newest dial succeeds, and the leader tells its versions."""
        link = self.ports.dialed[-1][0]
        self.endpoints.on_connected(link)
        rows = [
            {"api_key": key, "min_version": each.min, "max_version": each.max}
            for key, each in API_VERSIONS.items()
            if serves
        ]
        self.respond(ApiKey.API_VERSIONS, 3, {"api_keys": rows})

    def respond(self, key: ApiKey, version: int, body: Body) -> None:
        """The leader answers the newest request."""
        link, frame = self.ports.sent[-1]
        header = decode_request_header(frame)
        assert header.api_key == key
        parts = encode_response(key, version, header.correlation_id, body)
        self.endpoints.on_frame(link, b"".join(bytes(part) for part in parts))

    def name_endpoints(self, *node_ids: int) -> None:
        """The leader names all endpoints of these voters, and one of the others."""
        nodes = [
            {
                "node_id": node_id,
                "listeners": [
                    {"name": name, "host": each.host, "port": each.port}
                    for name, each in (both(node_id) if node_id in node_ids else listeners(node_id))
                ],
            }
            for node_id in (1, 2, 3, *(each for each in node_ids if each > 3))
        ]
        topics = [{"topic_name": TOPIC_NAME, "partitions": [{"partition_index": 0, "leader_id": 2}]}]
        self.respond(ApiKey.DESCRIBE_QUORUM, 2, {"topics": topics, "nodes": nodes})


def test_a_follower_asks_its_leader_once_for_the_endpoints_of_all_voters() -> None:
    desk = Desk()
    assert desk.ports.dialed == [(LINK, endpoint(2))]
    assert desk.endpoints.owns(LINK)
    desk.connect()
    desk.name_endpoints(2, 3, 9)
    assert desk.endpoints.known == {2: both(2), 3: both(3)}
    assert desk.ports.closed == [LINK]
    assert desk.endpoints.next_deadline_ms is None
    desk.at(WAIT_MAX_MS)
    assert len(desk.ports.dialed) == 1


def test_it_asks_less_and_less_often_while_an_endpoint_is_missing() -> None:
    desk = Desk()
    asked: list[int] = []
    for mono_ms in range(0, 200_000, 500):
        before = len(desk.ports.dialed)
        desk.at(mono_ms)
        if len(desk.ports.dialed) > before or mono_ms == 0:
            asked.append(mono_ms)
            desk.connect()
            desk.name_endpoints(2)
    assert asked == [0, 1_000, 3_000, 7_000, 15_000, 31_000, 61_000, 91_000, 121_000, 151_000, 181_000]
    assert desk.endpoints.known[NodeId(2)] == both(2)


@pytest.mark.parametrize("case", ["refused", "serves nothing", "nonsense", "silent", "follows now"])
def test_it_asks_again_when_it_is_not_answered(case: str) -> None:
    desk = Desk()
    match case:
        case "refused":
            desk.endpoints.on_closed(LINK, is_refused=True)
        case "serves nothing":
            desk.connect(serves=False)
        case "nonsense":
            desk.connect()
            desk.endpoints.on_frame(LINK, b"nonsense")
        case "follows now":
            desk.connect()
            row = {"partition_index": 0, "error_code": 6}
            topics = [{"topic_name": TOPIC_NAME, "partitions": [row]}]
            desk.respond(ApiKey.DESCRIBE_QUORUM, 2, {"topics": topics})
    assert desk.endpoints.owns(LINK) == (case == "silent")
    assert desk.endpoints.next_deadline_ms == WAIT_MIN_MS
    desk.at(WAIT_MIN_MS)
    assert desk.ports.dialed[1:] == [(ConnectionId(1001), endpoint(2))]
    assert not desk.endpoints.owns(LINK)


def test_every_new_leader_is_asked_and_what_was_known_stays() -> None:
    desk = Desk()
    desk.connect()
    desk.name_endpoints(2, 3)
    nobody = FOLLOWS._replace(leader_id=None, role="unattached")
    desk.at(5, nobody)
    unreachable = FOLLOWS._replace(epoch=Epoch(5), leader_id=NodeId(3), leader_listeners=Listeners())
    desk.at(6, unreachable)
    assert len(desk.ports.dialed) == 1
    desk.at(7, FOLLOWS._replace(epoch=Epoch(6), leader_id=NodeId(3), leader_listeners=listeners(3)))
    assert desk.ports.dialed[1:] == [(ConnectionId(1001), endpoint(3))]
    assert desk.endpoints.known[NodeId(3)] == both(3)


def test_a_leader_is_told_and_asks_nobody() -> None:
    desk = Desk()
    told = VoterSet.of((voter(1, both(1)), voter(2, listeners(2)), voter(3, both(3))))
    desk.at(1, LEADS._replace(epoch=Epoch(5), told_voters=told))
    assert not desk.endpoints.owns(LINK)
    assert desk.endpoints.known == {1: both(1), 3: both(3)}
    assert desk.endpoints.next_deadline_ms is None


@pytest.mark.parametrize(
    ("status", "changes"),
    [
        (FOLLOWS, {"client_listeners": (LISTENER,)}),
        (FOLLOWS._replace(kraft_version=1), {}),
        (FOLLOWS._replace(voters=VoterSet.of((voter(1, listeners(1)), voter(2, both(2))))), {}),
    ],
)
def test_nobody_is_asked_when_the_voter_set_says_it_all(status: Status, changes: dict[str, Any]) -> None:
    desk = Desk(status, **changes)
    assert desk.ports.dialed == []
    assert desk.endpoints.next_deadline_ms is None


def metadata(cluster: Cluster, machine: Machine) -> tuple[int, dict[int, tuple[str, int]]]:
    """The leader and the nodes that this machine names to a client."""
    connection = ConnectionId(1_000_000 + len(machine.sent))
    machine.running.on_accepted(connection, CLIENTS, cluster.now)
    question = b"".join(encode_request(ApiKey.METADATA, 12, 1, None, {"topics": None}))
    machine.running.on_frame(connection, question, cluster.now)
    [frame] = [frame for to, frame in machine.sent if to == connection]
    body = decode_response(ApiKey.METADATA, 12, frame)[1]
    nodes = {each["node_id"]: (each["host"], each["port"]) for each in body["brokers"]}
    return body["topics"][0]["partitions"][0]["leader_id"], nodes


def test_every_node_of_a_static_quorum_names_all_nodes_and_the_leader_also_after_elections(cluster: Cluster) -> None:
    for machine in cluster.up:
        machine.crash()
        advertised = both(machine.node_id)
        machine.config = replace(machine.config, client_listeners=(CLIENTS,), advertised_listeners=advertised)
    for machine in cluster.machines.values():
        machine.start()
    everybody = {node_id: (for_clients(node_id).host, for_clients(node_id).port) for node_id in (1, 2, 3)}

    def all_know(leader_id: int) -> bool:
        return all(metadata(cluster, machine) == (leader_id, everybody) for machine in cluster.up)

    first = cluster.leader().node_id
    cluster.run_until(lambda: all_know(first), limit_ms=10_000)
    cluster[first].crash()
    second = cluster.leader()
    cluster.run_until(lambda: all(each.running.status.leader_id == second.node_id for each in cluster.up))
    assert all_know(second.node_id), "what was known before an election is known after it"
    cluster[first].start()
    cluster.run_until(lambda: all_know(second.node_id), limit_ms=10_000)
