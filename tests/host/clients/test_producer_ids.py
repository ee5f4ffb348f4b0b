"""InitProducerId: the leader issues ids, and every other node gets them from the leader.

Source: KIP-98; Kafka's ``ProducerIdManager``; ours (ADR 074).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pykraft.errors import ErrorCode
from pykraft.host.clients import producer_ids as producer_ids_module
from pykraft.host.clients.producer_states import COUNTER_BITS
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import decode_request_body, decode_request_header, decode_response, encode_request
from pykraft.protocol.api import encode_response as encoded
from pykraft.protocol.messages import CLIENT_VERSIONS, ApiKey
from pykraft.types import Epoch, NodeId
from tests.host.clients.world import FOLLOWS, LEADS, Leader
from tests.host.cluster import Cluster
from tests.host.fakes import LISTENER, endpoint, listeners

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
    leader.clients.look(leader.status)
    assert leader.ports.closed == [LINK]
    assert leader.ports.dialed[-1] == (ConnectionId(1001), endpoint(3))
    leader.status = LEADS._replace(epoch=Epoch(6))
    leader.clients.look(leader.status)
    assert leader.answer()["producer_id"] == (6 << COUNTER_BITS) + 1
    assert not leader.clients.producer_ids.owns(ConnectionId(1001))


def test_a_client_that_has_gone_is_not_asked_for_and_only_so_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = following()
    leader.is_there = False
    leader.clients.look(leader.status)
    assert leader.clients.next_deadline_ms is None
    leader.is_there = True
    monkeypatch.setattr(producer_ids_module, "WAITING_MAX", 1)
    init(leader)
    assert leader.answers == []
    init(leader)
    assert leader.answer()["error_code"] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_every_node_of_a_quorum_hands_out_ids_that_are_all_different() -> None:
    cluster = Cluster()
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
