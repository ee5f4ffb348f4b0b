"""Pieces of bodies: unknown values are -1, zero or empty on the wire, and back."""

import pytest

from pykraft.core.messages import BeginQuorumEpochResponse
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.rpc import parts
from pykraft.rpc.context import Refusal
from pykraft.types import NO_LISTENERS, ZERO_UUID, Endpoint, Epoch, Listeners, NodeId, ReplicaKey
from tests.rpc.wires import CONTEXT, KEY_2, LEADER, TWO_LISTENERS


def test_ids() -> None:
    assert (parts.wire_id(None), parts.wire_id(NodeId(0))) == (-1, 0)
    assert (parts.node_id_of(-1), parts.node_id_of(-9), parts.node_id_of(0)) == (None, None, 0)


def test_directory_ids() -> None:
    assert parts.wire_directory(None) == ZERO_UUID
    assert parts.wire_directory(ReplicaKey(NodeId(2))) == ZERO_UUID
    assert parts.wire_directory(KEY_2) == b"R" * 16


def test_a_key_keeps_its_id_unless_it_may_be_absent() -> None:
    assert parts.replica_key(-1, bytes(16)) == ReplicaKey(NodeId(-1))
    assert parts.optional_replica_key(-1, b"R" * 16) is None
    assert parts.optional_replica_key(2, b"R" * 16) == KEY_2


def test_only_one_partition_with_the_expected_fields_counts() -> None:
    (topic,) = parts.topics_of(CONTEXT, {"x": 1})
    assert parts.only_partition([topic], topic_name=CONTEXT.topic_name, x=1) == {"partition_index": 0, "x": 1}
    assert parts.only_partition([topic], x=2) is None
    assert parts.only_partition([topic, topic]) is None
    assert parts.only_partition([]) is None


@pytest.mark.conformance(33)
@pytest.mark.parametrize(
    ("cluster_id", "refused"),
    [(None, False), (CONTEXT.cluster_id, False), ("", True), (f"{CONTEXT.cluster_id}A", True)],
)
def test_a_cluster_id_is_absent_or_exactly_ours(cluster_id: str | None, refused: bool) -> None:
    error = ErrorCode.INCONSISTENT_CLUSTER_ID
    expected = Refusal(error, {"error_code": error}) if refused else None
    assert parts.wrong_cluster({"cluster_id": cluster_id}, CONTEXT) == expected


@pytest.mark.conformance(98)
def test_listeners_come_back_without_those_that_nobody_can_dial() -> None:
    bodies = parts.endpoint_bodies(TWO_LISTENERS)
    assert parts.listeners_of(bodies) == TWO_LISTENERS
    silent = [{"name": "A", "host": "", "port": 1}, {"name": "B", "host": "h", "port": 0}]
    silent += [{"name": "C", "host": "h" * 256, "port": 1}, {"name": "ΐ" * 256, "host": "h", "port": 1}]
    silent += [{"name": "D", "host": "127.0.0.1\0", "port": 1}, {"name": "E\0", "host": "h", "port": 1}]
    assert parts.listeners_of([*silent, *bodies]) == TWO_LISTENERS


@pytest.mark.conformance(98)
def test_the_leader_has_one_endpoint_in_an_answer() -> None:
    bodies = parts.node_endpoint_bodies(NodeId(1), TWO_LISTENERS)
    assert bodies == [{"node_id": 1, "host": "localhost", "port": 9093}]
    assert parts.leader_listeners(NodeId(1), bodies, CONTEXT) == LEADER
    assert parts.leader_listeners(NodeId(2), bodies, CONTEXT) == NO_LISTENERS
    assert parts.leader_listeners(None, bodies, CONTEXT) == NO_LISTENERS
    assert parts.node_endpoint_bodies(None, TWO_LISTENERS) == []
    assert parts.node_endpoint_bodies(NodeId(1), NO_LISTENERS) == []


@pytest.mark.parametrize("port", [-1, 0, 65_536])
def test_a_port_is_a_port(port: int) -> None:
    assert parts.named_endpoint({"host": "h", "port": port}, CONTEXT) == NO_LISTENERS
    assert parts.named_endpoint({"host": "h", "port": 65_535}, CONTEXT) == Listeners(
        (("CONTROLLER", Endpoint("h", 65_535)),)
    )


@pytest.mark.conformance(98)
def test_an_answer_has_endpoints_from_version_1_on() -> None:
    message = BeginQuorumEpochResponse(error=0, epoch=Epoch(1), leader_id=NodeId(1), listeners=LEADER)
    assert "node_endpoints" not in parts.answer_body(message, 0, CONTEXT)
    assert len(parts.answer_body(message, 1, CONTEXT)["node_endpoints"]) == 1


def test_a_response_about_nothing_is_the_peers_fault() -> None:
    with pytest.raises(ProtocolError, match="not about partition __raft_performance_test-0 alone"):
        parts.shapeless(CONTEXT)
